package hostfallback

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
)

// quoted prepares hostile text for the end of a message: its last line, with
// control characters escaped, or nothing.
func quoted(text string) string {
	line := strings.TrimSpace(lastLine(text))
	if line == "" {
		return ""
	}
	if len(line) > 300 {
		line = line[:300]
	}
	return ": " + strconv.QuoteToGraphic(line)
}

// size words a number of bytes.
func size(n int64) string {
	switch {
	case n >= 1<<30:
		return fmt.Sprintf("%.1f GiB", float64(n)/(1<<30))
	case n >= 1<<20:
		return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
	}
	return fmt.Sprintf("%d bytes", n)
}

func processNames(pids []int) []string {
	var out []string
	for _, pid := range pids {
		out = append(out, "process "+strconv.Itoa(pid))
	}
	return out
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return !errors.Is(err, os.ErrNotExist)
}
