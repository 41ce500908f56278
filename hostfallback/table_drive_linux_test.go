package hostfallback

import (
	"bufio"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"brig/orchestrator/sandbox"
	"brig/orchestrator/wire"
)

//go:embed testdata/probes.py
var probes string

// said is what an attempt says of itself.
type said struct {
	Said string `json:"said"` // ok, an errno, a signal, or the cause for which the instance ended
	Data any    `json:"data"`
}

// attacker makes attempts at one place. try returns when the attempt is over.
type attacker struct {
	try   func(t *testing.T, name string, g *targets) said
	where string // its working directory, where what it leaves can be seen from outside
}

// uncontained is an interpreter that nothing confines, started as a careless
// program starts one: the control.
func uncontained(t *testing.T) attacker {
	t.Helper()
	dir := t.TempDir()
	cmd := exec.Command("/usr/bin/python3", "-I", "-u", "-c", probes+"\nserve()\n")
	cmd.Dir = dir
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = in.Close()
		_, _ = io.Copy(io.Discard, out) // until it has ended
		_ = cmd.Wait()
	})
	lines := bufio.NewScanner(out)
	return attacker{where: dir, try: func(t *testing.T, name string, g *targets) said {
		t.Helper()
		if err := json.NewEncoder(in).Encode(map[string]any{"name": name, "targets": g}); err != nil {
			t.Fatal(err)
		}
		for lines.Scan() {
			if text, ok := strings.CutPrefix(lines.Text(), "answer "); ok {
				return decode(t, text)
			}
		}
		t.Fatalf("%s: the interpreter ended", name)
		return said{}
	}}
}

// contained makes attempts in an instance, and in a new one where one ended by an attempt.
func contained(t *testing.T, b *Backend, base sandbox.Base) attacker {
	t.Helper()
	workspace := filepath.Join(t.TempDir(), "workspace")
	if err := os.Mkdir(workspace, 0o700); err != nil {
		t.Fatal(err)
	}
	return attackIn(t, openIn(t, b, base, workspace), workspace, func() sandbox.Instance { return openIn(t, b, base, workspace) })
}

// attackIn makes attempts in i. next is asked for another instance when one ended.
func attackIn(t *testing.T, i sandbox.Instance, workspace string, next func() sandbox.Instance) attacker {
	t.Helper()
	n, fresh := 0, true
	run := func(t *testing.T, source string) (string, error) {
		t.Helper()
		n++
		var text []byte
		exit, err := i.Run(testContext(t), wire.Run{ID: wire.RunID(fmt.Sprintf("r%d", n)), Source: []byte(source)}, func(e wire.Event) error {
			if e.Kind == wire.EventStdout || e.Kind == wire.EventStderr {
				text = append(text, e.Data...)
			}
			return nil
		})
		if err == nil && exit.Outcome != wire.OutcomeOK {
			t.Fatalf("%+v\n%s", exit.Exception, text)
		}
		return string(text), err
	}
	return attacker{where: workspace, try: func(t *testing.T, name string, g *targets) said {
		t.Helper()
		if i == nil {
			i, fresh = next(), true
		}
		if fresh {
			fresh = false
			if _, err := run(t, probes); err != nil {
				t.Fatal(err)
			}
		}
		g.Patience = 5 // the watch looks a few times a second, where the machine has a second for it
		raw, err := json.Marshal(g)
		if err != nil {
			t.Fatal(err)
		}
		out, err := run(t, fmt.Sprintf("print('\\nanswer ' + json.dumps(try_it(%q, json.loads(%q))))", name, raw))
		var lost *sandbox.Lost
		if errors.As(err, &lost) {
			i = nil
			for _, name := range entries(t, workspace) {
				if err := os.RemoveAll(filepath.Join(workspace, name)); err != nil {
					t.Fatal(err)
				}
			}
			return said{Said: "lost:" + string(lost.Ending.Cause)}
		}
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		_, text, _ := strings.Cut(out, "answer ")
		return decode(t, text)
	}}
}

func decode(t *testing.T, text string) said {
	t.Helper()
	var a said
	if err := json.Unmarshal([]byte(text), &a); err != nil {
		t.Fatalf("%v: %q", err, text)
	}
	return a
}

// What came of an attempt, beside the name of an errno.
const (
	through = "A"    // it said so, and where it can be seen from outside it was seen
	mute    = "mute" // it said so, and nothing happened
)

// witness makes one attempt and looks at what became of the outside. shows says
// that a success can be seen there.
func witness(t *testing.T, a attacker, g *targets, name string, shows bool) string {
	t.Helper()
	look := func() string { return g.files(t) + " " + g.state(t) + " " + left(t, a.where) }
	before, victim := look(), g.state(t)
	got := a.try(t, name, g)
	raw, err := json.Marshal(got.Data)
	if err != nil {
		t.Fatal(err)
	}
	seen := strings.Contains(string(raw), g.secret) || look() != before
	for patience := time.Now().Add(60 * time.Millisecond); !seen && shows && got.Said == "ok" && time.Now().Before(patience); {
		time.Sleep(time.Millisecond)
		seen = look() != before
	}
	if seen {
		g.restore(t, victim)
	}
	switch {
	case seen && got.Said != "ok":
		return got.Said + ",seen"
	case got.Said != "ok":
		return got.Said
	case shows && !seen:
		return mute
	}
	return through
}

// left is what can be seen of an attempt in its own directory: objects that are
// no plain files, and a repository's hooks.
func left(t *testing.T, dir string) string {
	t.Helper()
	var found []string
	for _, pattern := range []string{"result.*", ".git/hooks/*", "git-was-here"} {
		names, err := filepath.Glob(filepath.Join(dir, pattern))
		if err != nil {
			t.Fatal(err)
		}
		found = append(found, names...)
	}
	return strings.Join(found, " ")
}

func entries(t *testing.T, dir string) []string {
	t.Helper()
	found, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range found {
		names = append(names, e.Name())
	}
	return names
}
