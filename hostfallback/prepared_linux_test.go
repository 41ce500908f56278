package hostfallback

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"brig/orchestrator/runner"
	"brig/orchestrator/sandbox"
	"brig/orchestrator/sandbox/sandboxtest"
	"brig/orchestrator/wire"
)

// leaveEnv is the directory in which TestLeavePrepared works.
const leaveEnv = "BRIG_TEST_LEAVE"

// inDirectory is a backend whose directories outlive the process.
func inDirectory(t testing.TB, dir string) *Backend {
	t.Helper()
	b, err := New(Options{
		Env: os.LookupEnv, Owner: "tests", Cache: filepath.Join(dir, "cache"), Runtime: filepath.Join(dir, "run"),
	})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestLeavePrepared is the brig that TestKilledBrig kills: it has prepared two
// instances, and bound one of them.
func TestLeavePrepared(t *testing.T) {
	dir := os.Getenv(leaveEnv)
	if dir == "" {
		return
	}
	b := inDirectory(t, dir)
	var supervisors []int
	for n := range 2 {
		workspace := filepath.Join(dir, fmt.Sprintf("workspace-%d", n))
		if err := os.Mkdir(workspace, 0o700); err != nil {
			t.Fatal(err)
		}
		p, err := b.Prepare(testContext(t), testBase(), workspace)
		if err != nil {
			t.Fatal(err)
		}
		supervisors = append(supervisors, p.(*prepared).process.handle.Pid)
		if n == 1 {
			if _, err := p.Bind(testContext(t), sandbox.Claim{ID: "left-1", Session: "left", Workspace: workspace}); err != nil {
				t.Fatal(err)
			}
		}
	}
	line, err := json.Marshal(supervisors)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Printf("left %s\n", line)
	select {} // until it is killed
}

// TestKilledBrig: an instance that no session had ends like one that a session
// has. Whoever is killed with brig leaves the rest to the sweep.
func TestKilledBrig(t *testing.T) {
	for name, supervisorsToo := range map[string]bool{"alone": false, "with its supervisors": true} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			cmd := exec.Command("/proc/self/exe", "-test.run", "^TestLeavePrepared$")
			cmd.Env = append(os.Environ(), leaveEnv+"="+dir)
			cmd.Stderr = os.Stderr
			out, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				_ = cmd.Process.Kill() // it may have been killed
				_ = cmd.Wait()
			})
			var supervisors []int
			lines := bufio.NewScanner(out)
			for lines.Scan() && supervisors == nil {
				if text, ok := strings.CutPrefix(lines.Text(), "left "); ok {
					if err := json.Unmarshal([]byte(text), &supervisors); err != nil {
						t.Fatal(err)
					}
					break
				}
			}
			var left []sandboxtest.Process
			for _, pid := range supervisors {
				tree := sandboxtest.ProcTree(pid)
				if len(tree) < 2 {
					t.Fatalf("the tree of supervisor %d is %v", pid, tree)
				}
				left = append(left, tree...)
			}
			if len(left) == 0 {
				t.Fatal("nothing was prepared")
			}
			if supervisorsToo {
				for _, pid := range supervisors {
					if err := unix.Kill(pid, unix.SIGKILL); err != nil {
						t.Fatal(err)
					}
				}
			}
			if err := cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			_ = cmd.Wait() // it was killed
			for _, p := range left {
				eventually(t, "the end of "+p.ID+" "+p.Command, func() bool { return !sandboxtest.ProcAlive(p) })
			}
			b := inDirectory(t, dir)
			if !supervisorsToo {
				eventually(t, "the instances' directories to go", func() bool { return empty(t, b.options.instances()) })
			}
			want := 0
			if supervisorsToo {
				want = 2
			}
			removed, err := b.Sweep(testContext(t), "tests", func(sandbox.InstanceID) bool { return false })
			if err != nil || removed != want || !empty(t, b.options.instances()) {
				t.Errorf("removed %d, %v, want %d", removed, err, want)
			}
		})
	}
}

func eventually(t *testing.T, what string, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !done(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain for %s", what)
		}
	}
}

func empty(t *testing.T, dir string) bool {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	return len(entries) == 0
}

// pretender writes an interpreter that says it is a Python and, asked to run the
// runner, does what script says.
func pretender(t *testing.T, script string) string {
	t.Helper()
	dir := t.TempDir()
	path := filepath.Join(dir, "python")
	answer, err := json.Marshal(about{
		Version: [3]int{3, 11, 0}, Implementation: "cpython", Executable: path, Prefixes: []string{"/usr", dir}, Path: []string{dir}, Loaded: []string{},
	})
	if err != nil {
		t.Fatal(err)
	}
	ready, err := wire.EncodeMessage(wire.Ready{
		Version: wire.Version, Runner: strings.Repeat("0", len(runner.Hash())), Python: "3.11.0", Implementation: "CPython",
		Executable: path, Observed: wire.Observed{
			Status: map[string]string{}, Interfaces: []string{}, Rlimits: map[string]wire.Rlimit{}, Attempts: map[string]string{},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	var frame bytes.Buffer
	if err := wire.WriteFrame(&frame, wire.RawFrame{Kind: wire.KindControl, Payload: ready}); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string][]byte{
		"python": []byte("#!/bin/sh\ncase \"$*\" in *start.py) " + script + ";; *\"-m compileall\"*) exit 1;; esac\ncat '" + dir + "/answer'\n"),
		"answer": answer, "ready": frame.Bytes(),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return path
}

// TestNotGreeted: an instance that does not answer as brig's runner does is
// never handed out, and nothing of it is left.
func TestNotGreeted(t *testing.T) {
	cases := map[string]struct {
		script string
		want   func(error) bool
	}{
		"silent":         {"exec sleep 600", func(err error) bool { return errors.Is(err, context.DeadlineExceeded) }},
		"ends at once":   {"echo no use >&2; exit 3", lostWith("status 3")},
		"rubbish":        {"echo rubbish rubbish rubbish; exec sleep 600", lostWith("broke the protocol")},
		"another runner": {"cat \"${0%/*}/ready\"; exec sleep 600", func(err error) bool { return strings.Contains(err.Error(), "it has the hash 0000") }},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			sandboxtest.CheckGoroutines(t)
			b := testBackend(t)
			before := len(sandboxtest.ProcTree(os.Getpid()))
			base := testBase()
			base.Python = pretender(t, c.script)
			ctx, cancel := context.WithTimeout(testContext(t), 3*time.Second)
			defer cancel()
			p, err := b.Prepare(ctx, base, t.TempDir())
			if err == nil {
				t.Fatalf("prepared: %v", p.Close(testContext(t)))
			}
			if !c.want(err) {
				t.Errorf("prepare: %v", err)
			}
			if !empty(t, b.options.instances()) {
				t.Error("the instance's directory is left")
			}
			if after := sandboxtest.ProcTree(os.Getpid()); len(after) > before {
				t.Errorf("processes are left: %v", after)
			}
		})
	}
}

func lostWith(word string) func(error) bool {
	return func(err error) bool {
		var lost *sandbox.Lost
		return errors.As(err, &lost) && strings.Contains(lost.Ending.Detail, word)
	}
}

// TestSweepRunners: files of another version's runner stay while a brig of that
// version lives, and are gone afterwards; this version's own stay.
func TestSweepRunners(t *testing.T) {
	b := testBackend(t)
	if _, err := b.Probe(testContext(t)); err != nil {
		t.Fatal(err)
	}
	own := filepath.Join(b.options.runners(), runner.Hash()[:16])
	old := time.Now().Add(-time.Hour)
	dirs := map[string]string{}
	for _, name := range []string{"held", "free", "unlocked", "fresh", ".new-1"} {
		dir := filepath.Join(b.options.runners(), name)
		dirs[name] = dir
		if err := os.MkdirAll(filepath.Join(dir, "brigrunner"), 0o755); err != nil {
			t.Fatal(err)
		}
		if name != "fresh" {
			if err := os.Chtimes(dir, old, old); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, name := range []string{"held", "free"} {
		release, err := share(dirs[name] + lockSuffix)
		if err != nil {
			t.Fatal(err)
		}
		if name == "held" {
			defer release()
		} else {
			release()
		}
	}
	none := func(sandbox.InstanceID) bool { return false }
	if removed, err := b.Sweep(testContext(t), "tests", none); err != nil || removed != 0 {
		t.Errorf("removed %d, %v", removed, err)
	}
	for name, stays := range map[string]bool{"held": true, "free": false, "unlocked": false, "fresh": true, ".new-1": false} {
		if exists(dirs[name]) != stays {
			t.Errorf("%s stays: %v, want %v", name, !stays, stays)
		}
	}
	if exists(dirs["free"]+lockSuffix) || !exists(own) {
		t.Errorf("lock %v, own %v", exists(dirs["free"]+lockSuffix), exists(own))
	}
	if out, _ := output(t, openInstance(t, b, testBase()), "r", "print(1)"); out != "1\n" {
		t.Errorf("after a sweep: %q", out)
	}
	// The next version removes this one's when nobody holds them, not before.
	for _, held := range []bool{true, false} {
		if !held {
			if err := b.Close(testContext(t)); err != nil {
				t.Fatal(err)
			}
		}
		if err := removeRunner(own); err != nil || exists(own) != held {
			t.Errorf("held %v: %v, stays %v", held, err, exists(own))
		}
	}
}
