package config

import (
	"fmt"
	"strings"
)

// Problem is one thing that is wrong with the settings.
type Problem struct {
	Key        string // limits.memory; empty where it is about the file as a whole
	Source     string // where it stands: /home/a/.config/brig/config.toml:12, or the name of a variable
	Text       string // what is wrong, lower case, without a full stop
	Allowed    string // what would be right
	Suggestion string // what was probably meant, or the command to type
	Err        error  // the operating system's error, or nil
}

// String is the problem in one line.
func (p Problem) String() string {
	var b strings.Builder
	for _, part := range []string{p.Source, p.Key} {
		if part != "" {
			b.WriteString(part + ": ")
		}
	}
	b.WriteString(p.Text)
	if p.Allowed != "" {
		b.WriteString("; allowed: " + p.Allowed)
	}
	if p.Suggestion != "" {
		b.WriteString("; " + p.Suggestion)
	}
	return b.String()
}

// Error lists everything that is wrong, in a stable order: the file from top to
// bottom, the environment by name, then the rules between keys.
type Error struct {
	Problems []Problem
}

func (e *Error) Error() string {
	if len(e.Problems) == 1 {
		return e.Problems[0].String()
	}
	lines := make([]string, 0, len(e.Problems)+1)
	lines = append(lines, fmt.Sprintf("%d problems with the settings:", len(e.Problems)))
	for _, p := range e.Problems {
		lines = append(lines, "  "+p.String())
	}
	return strings.Join(lines, "\n")
}

// Unwrap gives the causes to errors.Is.
func (e *Error) Unwrap() []error {
	var out []error
	for _, p := range e.Problems {
		if p.Err != nil {
			out = append(out, p.Err)
		}
	}
	return out
}

func asError(problems []Problem) error {
	if len(problems) == 0 {
		return nil
	}
	return &Error{Problems: problems}
}

// meant is the suggestion for a word that is not among those allowed; empty
// where none is near.
func meant(word string, allowed []string) string {
	if near := nearest(word, allowed); near != "" {
		return fmt.Sprintf("did you mean %q?", near)
	}
	return ""
}

func nearest(word string, allowed []string) string {
	best, least := "", 1+max(1, len(word)/3)
	for _, a := range allowed {
		if d := distance(strings.ToLower(word), strings.ToLower(a)); d < least {
			best, least = a, d
		}
	}
	return best
}

// distance counts the insertions, removals, replacements and swaps of
// neighbours that make b of a. Only words of the table's length come here.
func distance(a, b string) int {
	const longest = 64
	if len(a) > longest || len(b) > longest {
		return longest
	}
	before, last, row := []int(nil), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := range len(a) {
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			row[j+1] = min(last[j+1]+1, row[j]+1, last[j]+cost)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				row[j+1] = min(row[j+1], before[j-1]+1)
			}
		}
		before, last, row = last, row, make([]int, len(b)+1)
	}
	return last[len(b)]
}
