package store

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"brig/orchestrator/sandbox/sandboxtest"
)

var (
	traceLine = regexp.MustCompile(`^(\d+) +(?:<\.\.\. (\w+) resumed>|(\w+)\()(.*)$`)
	tracePath = regexp.MustCompile(`^\d+<([^>]*)>`)
	traceOpen = regexp.MustCompile(`^AT_FDCWD(?:<[^>]*>)?, "([^"]*)", [A-Z_|]*O_CREAT`)
	traceSaid = regexp.MustCompile(`^1<[^>]*>, "(done|failed) ([^"\\]*)`)
)

// disk follows what a trace says was written and what of it was flushed.
type disk struct {
	written map[string]int    // by path: how often it was changed since it was flushed
	begun   map[string]flush  // by thread
	known   map[string]bool   // names that were opened
	made    map[string]string // names that are not on the disk yet, by path: their directory
}

type flush struct {
	path  string
	until int
}

// line takes one line of the trace. said is what the traced program acknowledged in it.
func (d *disk) line(text string) (said string) {
	m := traceLine.FindStringSubmatch(text)
	if m == nil {
		return ""
	}
	thread, resumed, call, rest := m[1], m[2] != "", m[2]+m[3], m[4]
	path := ""
	if p := tracePath.FindStringSubmatch(rest); p != nil {
		path = p[1]
	}
	done := !strings.HasSuffix(rest, "<unfinished ...>") && strings.Contains(rest, "= ") && !strings.Contains(rest, "= -1")
	switch call {
	case "write", "pwrite64", "pwritev", "ftruncate":
		if s := traceSaid.FindStringSubmatch(rest); s != nil {
			return s[1] + " " + s[2]
		}
		if !resumed {
			d.written[path]++
		}
	case "openat":
		if p := traceOpen.FindStringSubmatch(rest); p != nil && !resumed && !d.known[p[1]] {
			d.known[p[1]] = true // a later opening finds it
			d.made[p[1]] = filepath.Dir(p[1])
		}
	case "fsync", "fdatasync":
		if !resumed {
			d.begun[thread] = flush{path, d.written[path]}
		}
		if f := d.begun[thread]; done && d.written[f.path] == f.until {
			delete(d.written, f.path)
			for name, dir := range d.made {
				if dir == f.path {
					delete(d.made, name)
				}
			}
		}
	}
	return ""
}

// A trace of the system calls: whatever was acknowledged as durable was flushed
// before that was said, contents and names.
func TestAcknowledgedIsFlushed(t *testing.T) {
	strace, err := exec.LookPath("strace")
	if err != nil {
		sandboxtest.Skip(t, "strace on PATH", "none")
	}
	dir, out := stateDir(t), filepath.Join(t.TempDir(), "trace")
	exe, err := os.Executable()
	must(t, err)
	cmd := exec.CommandContext(t.Context(), strace, "-f", "-y", "-qq", "-s", "64", "-o", out,
		"-e", "trace=openat,write,pwrite64,pwritev,ftruncate,fsync,fdatasync", exe)
	cmd.Env = append(os.Environ(), traceVar+"="+dir)
	if text, err := cmd.CombinedOutput(); err != nil {
		if strings.Contains(string(text), "Operation not permitted") {
			sandboxtest.Skip(t, "the right to trace a child", string(text))
		}
		t.Fatalf("%v\n%s", err, text)
	}
	trace, err := os.ReadFile(out)
	must(t, err)
	d := &disk{map[string]int{}, map[string]flush{}, map[string]bool{}, map[string]string{}}
	journal, log := filepath.Join(dir, File+"-wal"), filepath.Join(dir, "audit", "audit-")
	// Controls: these are with the kernel alone, so that the trace shows what it looks for.
	soon := map[string]bool{"done add a session": true, "done add a run soon": true, "done note": true}
	seen, segments := 0, 0
	for text := range strings.Lines(string(trace)) {
		said := d.line(strings.TrimSuffix(text, "\n"))
		if said == "" {
			continue
		}
		seen++
		open := 0
		for path := range d.written {
			if path == journal || strings.HasPrefix(path, log) {
				open++
			}
		}
		for name := range d.made {
			if strings.HasPrefix(name, dir) && !strings.HasSuffix(name, "-shm") && !strings.HasSuffix(name, ".lock") && filepath.Base(name) != "lock" && filepath.Base(name) != "head" {
				t.Errorf("%s: the name %s is not on the disk", said, name)
			}
		}
		switch {
		case strings.HasPrefix(said, "failed"):
			t.Error(said)
		case soon[said] && open == 0:
			t.Errorf("control: %q was flushed, or the trace does not show what was written", said)
		case !soon[said] && open > 0:
			t.Errorf("%q was said before the disk had it: %v", said, d.written)
		}
	}
	entries, err := os.ReadDir(filepath.Join(dir, "audit"))
	must(t, err)
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), "audit-") {
			segments++
		}
	}
	if seen != 25 || segments < 2 {
		t.Errorf("%d acknowledgements and %d segments: this tests too little\n%s", seen, segments, trace)
	}
}
