package workspace_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"brig/orchestrator/sandbox/sandboxtest"
	"brig/orchestrator/workspace"
)

// durableVar names the directory in which this program is to do what is traced.
const durableVar = "BRIG_TEST_DURABLE"

// TestDurableChild is the program that TestPutIsFlushed traces. By itself it does nothing.
func TestDurableChild(t *testing.T) {
	dir := os.Getenv(durableVar)
	if dir == "" {
		return
	}
	w, err := workspace.Open(dir)
	must(t, err)
	content := func() *strings.Reader { return strings.NewReader(strings.Repeat("x", 100_000)) }
	bulk := w.Bulk()
	for _, step := range []struct {
		name string
		do   func() error
	}{
		{"put", func() error { _, err := w.Put("f", content(), 0); return err }},
		{"replace", func() error { _, err := w.Put("f", content(), 0); return err }},
		{"put below", func() error { _, err := w.Put("a/b/c/f", content(), 0); return err }},
		{"put new", func() error {
			_, err := w.PutIf("a/new", content(), 0, func(*workspace.Entry) error { return nil })
			return err
		}},
		{"remove", func() error { return w.Remove("f") }},
		{"remove all", func() error { return w.Remove("a") }},
		{"soon", func() error { _, err := w.PutAny("soon/f", content(), 0); return err }},
		{"bulk soon", func() error {
			_, err := bulk.Put("d/e/f", content(), 0)
			return errors.Join(err, bulk.Mkdir("m/n"))
		}},
		{"bulk", bulk.Sync},
	} {
		if err := step.do(); err != nil {
			t.Fatal(step.name, err)
		}
		fmt.Printf("done %s\n", step.name)
	}
	bulk.Close()
	must(t, w.Close())
}

var (
	traced   = regexp.MustCompile(`^\d+ +(\w+)\((?:\d+|AT_FDCWD)<([^>]*)>(?:, "([^"]*)"(?:, \d+<([^>]*)>)?)?.* = (-?\d+)`)
	doneLine = regexp.MustCompile(`^\d+ +write\(1<[^>]*>, "done ([^\\]*)\\n`)
)

// TestPutIsFlushed: a trace of the system calls shows that files and the names of
// files and directories are on the disk before it is said that they are.
func TestPutIsFlushed(t *testing.T) {
	strace, err := exec.LookPath("strace")
	if err != nil {
		sandboxtest.Skip(t, "strace on PATH", "none")
	}
	exe, err := os.Executable()
	must(t, err)
	dir, out := filepath.Join(t.TempDir(), "ws"), filepath.Join(t.TempDir(), "trace")
	must(t, os.Mkdir(dir, 0o700))
	cmd := exec.CommandContext(t.Context(), strace, "-f", "-y", "-qq", "--seccomp-bpf", "-s", "64", "-o", out,
		"-e", "trace=write,fsync,fdatasync,renameat,renameat2,linkat,unlinkat,mkdirat", exe, "-test.run=^TestDurableChild$")
	cmd.Env = append(os.Environ(), durableVar+"="+dir, "GOMAXPROCS=1") // so that no call is told in two lines
	if text, err := cmd.CombinedOutput(); err != nil {
		if strings.Contains(string(text), "Operation not permitted") {
			sandboxtest.Skip(t, "the right to trace a child", string(text))
		}
		t.Fatalf("%v\n%s", err, text)
	}
	trace, err := os.ReadFile(out)
	must(t, err)
	open, seen := map[string]bool{}, 0
	for text := range strings.Lines(string(trace)) {
		if m := doneLine.FindStringSubmatch(text); m != nil {
			seen++
			soon := strings.HasSuffix(m[1], "soon")
			if !soon && len(open) > 0 {
				t.Errorf("%q was said before the disk had %v\n%s", m[1], open, trace)
			}
			if soon && len(open) == 0 {
				t.Errorf("control: the trace does not show what %q leaves to the kernel", m[1])
			}
			if m[1] == "soon" {
				clear(open)
			}
			continue
		}
		m := traced.FindStringSubmatch(text)
		if m == nil || !strings.HasPrefix(m[2], dir) || strings.HasPrefix(m[5], "-") {
			continue
		}
		switch m[1] {
		case "fsync", "fdatasync":
			delete(open, m[2])
		case "write":
			open[m[2]] = true
		case "renameat", "renameat2", "linkat":
			if open[filepath.Join(m[2], m[3])] {
				t.Errorf("a file became final before its content was on the disk: %s", text)
			}
			open[m[4]] = true
		case "unlinkat":
			open[m[2]] = true
			for path := range open {
				if strings.HasPrefix(path+"/", filepath.Join(m[2], m[3])+"/") {
					delete(open, path) // it is gone, and what was in it
				}
			}
		case "mkdirat":
			open[m[2]] = true
		}
	}
	if seen != 9 {
		t.Errorf("%d acknowledgements: this tests too little\n%s", seen, trace)
	}
}
