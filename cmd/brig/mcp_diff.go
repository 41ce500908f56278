package main

import (
	"fmt"
	"strings"
)

// diffContext is how many lines around a change are shown.
const diffContext = 3

// lineDiff shows the one place in which two texts differ, as diff -u does.
func lineDiff(name, before, after string) string {
	if before == after {
		return ""
	}
	a, b := lines(before), lines(after)
	first := 0
	for first < len(a) && first < len(b) && a[first] == b[first] {
		first++
	}
	last := 0
	for last < len(a)-first && last < len(b)-first && a[len(a)-1-last] == b[len(b)-1-last] {
		last++
	}
	from, tail := max(0, first-diffContext), min(last, diffContext)
	var out strings.Builder
	fmt.Fprintf(&out, "--- %s\n+++ %s\n@@ -%d,%d +%d,%d @@\n", name, name,
		from+1, len(a)-last+tail-from, from+1, len(b)-last+tail-from)
	write := func(mark string, ls []string) {
		for _, l := range ls {
			out.WriteString(mark + l + "\n")
		}
	}
	write(" ", a[from:first])
	write("-", a[first:len(a)-last])
	write("+", b[first:len(b)-last])
	write(" ", a[len(a)-last:len(a)-last+tail])
	return out.String()
}

func lines(s string) []string {
	if s == "" {
		return nil
	}
	return strings.Split(strings.TrimSuffix(s, "\n"), "\n")
}
