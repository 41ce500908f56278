package confine

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// lintProfile says what is wrong with a profile beyond its syntax.
func lintProfile(nodes []node, params []Param) []string {
	l := linter{defined: map[string]bool{}, used: map[string]bool{}}
	for _, p := range params {
		if l.defined[p.Name] {
			l.say(0, "parameter %s is defined twice", p.Name)
		}
		l.defined[p.Name] = true
		if private(p.Value) != p.Value || !strings.HasPrefix(p.Value, "/") {
			l.say(0, "parameter %s is %s, which is no real path", p.Name, p.Value)
		}
	}
	if len(nodes) < 2 || show(nodes[0]) != "(version 1)" || show(nodes[1]) != "(deny default)" {
		l.say(1, "a profile begins with (version 1) (deny default)")
		return l.out
	}
	for _, n := range nodes[2:] {
		l.form(n)
	}
	for _, p := range params {
		if !l.used[p.Name] {
			l.say(0, "parameter %s is not used", p.Name)
		}
	}
	return l.out
}

type linter struct {
	defined, used map[string]bool
	denied        []string // operations of which something was denied, by a filter
	allowed       []string // operations of which something was allowed
	out           []string
}

func (l *linter) say(line int, format string, args ...any) {
	l.out = append(l.out, fmt.Sprintf("line %d: ", line)+fmt.Sprintf(format, args...))
}

func (l *linter) form(n node) {
	switch n.head() {
	case "allow", "deny":
		l.rule(n)
	case "if":
		// (if (defined? 'operation) rule)
		if len(n.list) != 3 || n.list[1].head() != "defined?" || len(n.list[1].list) != 2 || n.list[1].list[1].kind != isQuoted {
			l.say(n.line, "a condition asks for an operation and has one rule: %s", show(n))
			return
		}
		rule := n.list[2]
		if len(rule.list) < 2 || rule.list[1].atom != n.list[1].list[1].atom {
			l.say(n.line, "a condition is about another operation than its rule: %s", show(n))
		}
		l.rule(rule)
	default:
		l.say(n.line, "unknown form %s", show(n))
	}
}

func (l *linter) rule(n node) {
	allow := n.head() == "allow"
	var operations []string
	var filters []node
	for _, part := range n.list[1:] {
		switch {
		case part.kind == isSymbol && len(filters) == 0:
			operations = append(operations, part.atom)
		case part.kind == isList && part.head() == "with":
			l.say(part.line, "modifier %s", show(part))
		case part.kind == isList:
			filters = append(filters, part)
		default:
			l.say(part.line, "%s is neither operation nor filter", part.atom)
		}
	}
	for _, op := range operations {
		filtered, known := sbplOperations[op]
		switch {
		case !known:
			l.say(n.line, "operation %s is not known, or not one that a profile of brig may name", op)
		case allow && filtered && len(filters) == 0:
			l.say(n.line, "%s is allowed without a filter", op)
		}
		switch {
		case !allow && len(filters) == 0:
			if slices.ContainsFunc(l.allowed, func(a string) bool { return covers(op, a) || covers(a, op) }) {
				l.say(n.line, "all of %s is denied after something of it was allowed: broad rules come before narrow ones", op)
			}
		case !allow:
			l.denied = append(l.denied, op)
		default:
			l.allowed = append(l.allowed, op)
		}
		if allow && slices.ContainsFunc(l.denied, func(d string) bool { return covers(op, d) || covers(d, op) }) {
			l.say(n.line, "%s is allowed after something of it was denied: broad rules come before narrow ones", op)
		}
		for _, f := range filters {
			if f.head() == "local" && op == "network-outbound" {
				l.say(n.line, "a local address on network-outbound matches every connection")
			}
			if f.head() == "remote" && op == "network-inbound" {
				l.say(n.line, "a remote address on network-inbound is no boundary")
			}
		}
	}
	for _, f := range filters {
		l.filter(f)
	}
}

func (l *linter) filter(f node) {
	kind, known := sbplFilters[f.head()]
	if !known {
		l.say(f.line, "filter %s is not known", show(f))
		return
	}
	if len(f.list) != kind.arguments+1 {
		l.say(f.line, "%s has another number of arguments than %d", show(f), kind.arguments)
		return
	}
	last := f.list[len(f.list)-1]
	switch {
	case kind.path && last.kind == isList:
		if last.head() != "param" || len(last.list) != 2 || last.list[1].kind != isString {
			l.say(f.line, "%s: a path is a text or a parameter", show(f))
			return
		}
		name := last.list[1].atom
		l.used[name] = true
		if !l.defined[name] {
			l.say(f.line, "parameter %s is not defined", name)
		}
	case kind.path:
		link := slices.Contains([]string{"/tmp", "/var", "/etc"}, last.atom) && f.head() == "literal"
		if last.kind != isString || private(last.atom) != last.atom && !link {
			l.say(f.line, "%s is no real path", show(f))
		}
		if strings.HasPrefix(last.atom, "/Users") || strings.HasPrefix(last.atom, "/Volumes") {
			l.say(f.line, "%s is of the user", show(f))
		}
	case kind.regex:
		if _, err := regexp.Compile(last.atom); err != nil || last.kind != isRegex || !strings.HasPrefix(last.atom, "^") {
			l.say(f.line, "%s is no regular expression from the beginning on", show(f))
		}
	case f.head() == "remote" || f.head() == "local":
		host, _, _ := strings.Cut(last.atom, ":")
		if f.list[1].atom != "ip" || last.kind != isString || host != "*" && host != "localhost" {
			l.say(f.line, "%s: a host is * or localhost", show(f))
		}
	case f.head() == "target":
		if last.atom != "same-sandbox" && last.atom != "self" {
			l.say(f.line, "%s reaches others", show(f))
		}
	case last.kind != isString:
		l.say(f.line, "%s has no text", show(f))
	}
}

// show is an expression on one line.
func show(n node) string {
	switch n.kind {
	case isString:
		return `"` + n.atom + `"`
	case isRegex:
		return `#"` + n.atom + `"`
	case isQuoted:
		return "'" + n.atom
	case isSymbol:
		return n.atom
	}
	parts := make([]string, 0, len(n.list))
	for _, sub := range n.list {
		parts = append(parts, show(sub))
	}
	return "(" + strings.Join(parts, " ") + ")"
}

// covers says that a name of operations contains another: file-read* has file-read-data in it.
func covers(name, operation string) bool {
	prefix, star := strings.CutSuffix(name, "*")
	return name == operation || star && strings.HasPrefix(operation, prefix)
}

// sbplOperations are those that a profile of brig may name, and whether they may be
// allowed with a filter only. What starts or asks unconfined programs (lsopen,
// appleevent-send, job-creation, mach-register, iokit-open) is not among them.
var sbplOperations = map[string]bool{
	"process-fork": false, "process-exec*": true, "signal": true, "process-info*": true,
	"file-read*": true, "file-read-data": true, "file-read-metadata": true, "file-map-executable": true,
	"file-write*": true, "file-write-data": true, "file-write-create": true, "file-write-unlink": true,
	"file-write-setugid": true, "file-write-acl": true, "file-link": true, "file-clone": true,
	"mach-lookup": true, "sysctl-read": true,
	"ipc-posix-sem": true, "ipc-posix-shm-read-data": true, "ipc-posix-shm-write-create": true,
	"ipc-posix-shm-write-data": true, "ipc-posix-shm-write-unlink": true,
	"network-outbound": true, "network-inbound": true, "network-bind": true,
	"dynamic-code-generation": false, "iokit-get-properties": true, "nvram*": true,
}

var sbplFilters = map[string]struct {
	arguments   int
	path, regex bool
}{
	"literal": {1, true, false}, "subpath": {1, true, false},
	"global-name": {1, false, false}, "sysctl-name": {1, false, false}, "sysctl-name-prefix": {1, false, false},
	"ipc-posix-name-regex": {1, false, true}, "target": {1, false, false},
	"remote": {2, false, false}, "local": {2, false, false},
}

// TestLintFinds shows the linter each mistake that it is there for.
func TestLintFinds(t *testing.T) {
	t.Parallel()
	const start = "(version 1)\n(deny default)\n"
	for _, c := range []struct{ text, want string }{
		{"(version 1)\n(allow default)", "begins with"},
		{start + "(allow process-exec* (with no-sandbox) (literal \"/bin/ps\"))", "modifier"},
		{start + "(allow network-outbound (local ip \"localhost:*\"))", "matches every connection"},
		{start + "(allow network-outbound (remote ip \"127.0.0.1:*\"))", "a host is"},
		{start + "(allow network-outbound (remote tcp \"localhost:*\"))", "a host is"},
		{start + "(allow network-outbound)", "without a filter"},
		{start + "(allow ipc-posix-shm-read-data)", "without a filter"},
		{start + "(allow mach-register (global-name \"x\"))", "not known"},
		{start + "(allow lsopen)", "not known"},
		{start + "(allow appleevent-send)", "not known"},
		{start + "(allow file-read* (regex #\"^/x\"))", "filter"},
		{start + "(allow file-read* (subpath \"/tmp\"))", "no real path"},
		{start + "(allow file-read* (subpath \"/var/db\"))", "no real path"},
		{start + "(allow file-read* (subpath \"/Users\"))", "of the user"},
		{start + "(allow file-read* (subpath (param \"NOBODY\")))", "not defined"},
		{start, "is not used"},
		{start + "(allow file-read* (subpath (string-append (param \"P\") \"/x\")))", "a text or a parameter"},
		{start + "(deny file-write* (subpath \"/a\"))\n(allow file-write* (subpath \"/\"))", "broad rules"},
		{start + "(allow signal (target others))", "reaches others"},
		{start + "(allow file-read* (subpath \"/a\"))\n(deny file-read-data)", "broad rules"},
		{start + "(if (defined? 'file-link) (allow file-clone (subpath \"/a\")))", "another operation"},
		{start + "(import \"system.sb\")", "unknown form"},
		{start + "(allow ipc-posix-sem (ipc-posix-name-regex #\"mp\"))", "from the beginning"},
	} {
		nodes, err := readProfile(c.text)
		if err != nil {
			t.Fatalf("%s: %v", c.text, err)
		}
		said := strings.Join(lintProfile(nodes, []Param{{"P", "/private/tmp/p"}}), "\n")
		if !strings.Contains(said, c.want) {
			t.Errorf("%s\nsaid %q, want something about %q", c.text, said, c.want)
		}
	}
	for _, text := range []string{"(version 1", "(version 1))", "version", `(allow file-read* (literal "a\"b"))`, `(a "b`} {
		if _, err := readProfile(text); err == nil {
			t.Errorf("%q was read", text)
		}
	}
}
