package confine

import (
	"fmt"
	"strings"
)

// node is one expression of a profile: an atom or a list.
type node struct {
	atom string // of a string, what stands between its quotes
	kind nodeKind
	list []node
	line int
}

type nodeKind byte

const (
	isList nodeKind = iota
	isSymbol
	isString
	isRegex // #"…"
	isQuoted
)

// head is the first symbol of a list.
func (n node) head() string {
	if n.kind != isList || len(n.list) == 0 || n.list[0].kind != isSymbol {
		return ""
	}
	return n.list[0].atom
}

// readProfile parses the text of a profile. It knows no more of Scheme than profiles of brig need.
func readProfile(text string) ([]node, error) {
	r := sbplReader{text: text, line: 1}
	var out []node
	for {
		n, ok, err := r.next()
		if err != nil || !ok {
			return out, err
		}
		if n.kind != isList {
			return nil, fmt.Errorf("line %d: %q is no rule", n.line, n.atom)
		}
		out = append(out, n)
	}
}

type sbplReader struct {
	text string
	at   int
	line int
}

func (r *sbplReader) space() {
	for r.at < len(r.text) {
		switch c := r.text[r.at]; {
		case c == ';':
			for r.at < len(r.text) && r.text[r.at] != '\n' {
				r.at++
			}
		case c == '\n':
			r.line++
			r.at++
		case c == ' ' || c == '\t':
			r.at++
		default:
			return
		}
	}
}

func (r *sbplReader) next() (node, bool, error) {
	r.space()
	if r.at >= len(r.text) {
		return node{}, false, nil
	}
	n := node{line: r.line}
	switch c := r.text[r.at]; {
	case c == '(':
		r.at++
		for {
			r.space()
			if r.at >= len(r.text) {
				return n, false, fmt.Errorf("line %d: the list does not end", n.line)
			}
			if r.text[r.at] == ')' {
				r.at++
				return n, true, nil
			}
			sub, _, err := r.next()
			if err != nil {
				return n, false, err
			}
			n.list = append(n.list, sub)
		}
	case c == ')':
		return n, false, fmt.Errorf("line %d: a parenthesis too many", r.line)
	case c == '\'':
		r.at++
		n.kind = isQuoted
		n.atom = r.word()
	case c == '"':
		n.kind = isString
		return r.quoted(n)
	case strings.HasPrefix(r.text[r.at:], `#"`):
		r.at++
		n.kind = isRegex
		return r.quoted(n)
	default:
		n.kind = isSymbol
		n.atom = r.word()
	}
	if n.atom == "" {
		return n, false, fmt.Errorf("line %d: nothing that can be read", r.line)
	}
	return n, true, nil
}

func (r *sbplReader) word() string {
	from := r.at
	for r.at < len(r.text) && !strings.ContainsRune(" \t\n()\";'", rune(r.text[r.at])) {
		r.at++
	}
	return r.text[from:r.at]
}

// quoted reads up to the next quote. A backslash would need rules, and no profile has one.
func (r *sbplReader) quoted(n node) (node, bool, error) {
	body, _, ok := strings.Cut(r.text[r.at+1:], `"`)
	if !ok || strings.ContainsAny(body, "\\\n") {
		return n, false, fmt.Errorf("line %d: the string does not end on its line, or has an escape", n.line)
	}
	r.at += len(body) + 2
	n.atom = body
	return n, true, nil
}
