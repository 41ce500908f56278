package config

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/BurntSushi/toml"
)

// mostProblems is how many problems of one file are listed; a file that is no
// settings file at all does not fill the screen.
const mostProblems = 50

// parsed is what a file sets.
type parsed struct {
	path     string
	sources  map[string]Source
	problems []found
	md       toml.MetaData
}

type found struct {
	line int
	Problem
}

// parseFile reads TOML into c. It knows nothing but the table: whatever else
// stands in the file is a problem.
func parseFile(c *Config, path string, data []byte) (map[string]Source, []Problem) {
	p := &parsed{path: path, sources: map[string]Source{}}
	if n := nested(data); n > 0 {
		return nil, []Problem{{Source: p.where(n), Text: "it nests deeper than any settings file does"}}
	}
	var tree map[string]toml.Primitive
	md, err := toml.NewDecoder(strings.NewReader(string(data))).Decode(&tree)
	if err != nil {
		return nil, []Problem{p.syntax(err)}
	}
	p.md = md
	p.tables(c, nil, tree)
	slices.SortStableFunc(p.problems, func(a, b found) int {
		return cmp.Or(cmp.Compare(a.line, b.line), strings.Compare(a.Key, b.Key))
	})
	var out []Problem
	for i, f := range p.problems {
		if i == mostProblems {
			out = append(out, Problem{Source: path, Text: fmt.Sprintf("%d more problems", len(p.problems)-i)})
			break
		}
		out = append(out, f.Problem)
	}
	return p.sources, out
}

// nested finds the line from which on the file nests so deeply that the decoder,
// whose time grows with the square of that, would not come back soon.
func nested(data []byte) int {
	const deepest = 128
	braces, number := 0, 0
	for line := range bytes.SplitSeq(data, []byte("\n")) {
		number++
		if bytes.HasPrefix(bytes.TrimSpace(line), []byte("#")) {
			continue
		}
		braces += bytes.Count(line, []byte("{"))
		if braces > deepest || bytes.Count(line, []byte(".")) > deepest {
			return number
		}
	}
	return 0
}

func (p *parsed) syntax(err error) Problem {
	var at toml.ParseError
	if !errors.As(err, &at) {
		return Problem{Source: p.path, Text: "it is not TOML: " + oneLine(err.Error())}
	}
	return Problem{Source: p.where(at.Position.Line), Text: "it is not TOML: " + oneLine(at.Message)}
}

func (p *parsed) where(line int) string {
	if line < 1 {
		return p.path
	}
	return fmt.Sprintf("%s:%d", p.path, line)
}

// tables takes the keys of one table.
func (p *parsed) tables(c *Config, above toml.Key, tree map[string]toml.Primitive) {
	for _, name := range slices.Sorted(maps.Keys(tree)) {
		prim := tree[name]
		key := append(slices.Clone(above), name)
		full := strings.Join(key, ".")
		if len(p.problems) > 2*mostProblems {
			return
		}
		r, ok := lookup(full)
		switch {
		case strings.Contains(name, "."):
			p.add(prim, key.String(), "unknown key", "write the section in brackets and the key below it without quotes")
		case ok:
			p.take(c, r, prim)
		case !isSection(full):
			p.add(prim, key.String(), "unknown key", probably(above, name))
		default:
			sub, ok := p.sub(prim)
			if !ok {
				p.add(prim, full, "it is a section, not a value", fmt.Sprintf("write [%s] and its keys below it", full))
				continue
			}
			p.tables(c, key, sub)
		}
	}
}

func (p *parsed) take(c *Config, r row, prim toml.Primitive) {
	var raw any
	if err := p.md.PrimitiveDecode(prim, &raw); err != nil {
		p.add(prim, r.name, "its value cannot be read", "")
		return
	}
	line := p.line(prim)
	if f := r.decode(c, raw); f != nil {
		p.problems = append(p.problems, found{line, r.problem(p.where(line), f)})
		return
	}
	p.sources[r.name] = Source{From: FromFile, Where: p.where(line), Raw: oneLine(fmt.Sprint(raw))}
}

func (p *parsed) add(prim toml.Primitive, key, text, suggestion string) {
	line := p.line(prim)
	p.problems = append(p.problems, found{line, Problem{Key: shortKey(key), Source: p.where(line), Text: text, Suggestion: suggestion}})
}

// probably is what an unknown key was meant to be.
func probably(above toml.Key, name string) string {
	if len(above) == 0 {
		return meant(name, sections())
	}
	section := strings.Join(above, ".")
	if isSection(name) {
		return fmt.Sprintf("keys below [%s] stand there without a section in front", section)
	}
	var fields []string
	elsewhere := ""
	for _, r := range table() {
		if r.section() == section {
			fields = append(fields, r.field())
		} else if r.field() == name {
			elsewhere = fmt.Sprintf("did you mean %q?", r.name)
		}
	}
	if near := nearest(name, fields); near != "" {
		return fmt.Sprintf("did you mean %q?", section+"."+near)
	}
	return elsewhere
}

// locator refuses every value, because the decoder tells a line only in an error.
type locator struct{}

func (*locator) UnmarshalTOML(any) error { return errors.ErrUnsupported }

// line is where a key stands. A table that only dotted keys imply ("a" in
// a.b = 1) has no place of its own; it gets that of its first key.
func (p *parsed) line(prim toml.Primitive) int {
	var at toml.ParseError
	if errors.As(p.md.PrimitiveDecode(prim, &locator{}), &at) && at.Position.Line > 0 {
		return at.Position.Line
	}
	first := 0
	sub, _ := p.sub(prim)
	for _, child := range sub {
		if n := p.line(child); n > 0 && (first == 0 || n < first) {
			first = n
		}
	}
	return first
}

// sub are the keys of a table; ok is false for everything else.
func (p *parsed) sub(prim toml.Primitive) (map[string]toml.Primitive, bool) {
	var raw any
	if err := p.md.PrimitiveDecode(prim, &raw); err != nil {
		return nil, false
	}
	if _, ok := raw.(map[string]any); !ok {
		return nil, false
	}
	var sub map[string]toml.Primitive
	return sub, p.md.PrimitiveDecode(prim, &sub) == nil
}

func lookup(name string) (row, bool) {
	for _, r := range table() {
		if r.name == name {
			return r, true
		}
	}
	return row{}, false
}

func sections() []string {
	var out []string
	for _, r := range table() {
		if s := r.section(); !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	return out
}

func isSection(name string) bool { return slices.Contains(sections(), name) }

// oneLine keeps foreign text from breaking the report.
func oneLine(s string) string {
	if len(s) > 200 {
		s = s[:200] + "…"
	}
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, s)
}

// shortKey keeps a key of a hostile file from filling the screen.
func shortKey(s string) string {
	if len(s) > 80 {
		s = s[:80] + "…"
	}
	return oneLine(s)
}
