package hostfallback

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"brig/orchestrator/sandbox"
	"brig/orchestrator/sandbox/sandboxtest"
)

// restless leaves processes behind that hide from their parent.
const restless = `
import os, time
for n in range(3):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            time.sleep(600)
        os._exit(0)
print("restless")
`

// TestZygoteKilled: whoever of a zygote, its supervisor and a session's first
// process is killed, nothing is left of what depends on it, what does not goes on,
// and the next instance is one.
func TestZygoteKilled(t *testing.T) {
	needWhole(t)
	for n, name := range []string{"session", "zygote", "supervisor"} {
		t.Run(name, func(t *testing.T) {
			b, dir := warmBackend(t, testBase())
			var all [2]*instance
			var trees [2][]sandboxtest.Process
			for n := range all {
				all[n] = openForked(t, b, testBase(), dir)
				if out, _ := output(t, all[n], "r1", restless); out != "restless\n" {
					t.Fatal(out)
				}
				eventually(t, "the processes that hide", func() bool {
					trees[n] = sandboxtest.ProcTree(all[n].started.PID)
					return len(trees[n]) == 5
				})
			}
			victims := zygoteOf(t, all[0].started.PID)
			whole := sandboxtest.ProcTree(victims[2])
			if err := unix.Kill(victims[n], unix.SIGKILL); err != nil {
				t.Fatal(err)
			}
			if n == 0 {
				gone(t, trees[0])
				if out, _ := output(t, all[1], "r2", "print('alive')"); out != "alive\n" {
					t.Errorf("a sibling: %q", out)
				}
			} else {
				gone(t, whole)
				<-all[1].Done()
			}
			<-all[0].Done()
			if cause := all[0].Cause(); cause.Cause != sandbox.Killed && cause.Cause != sandbox.BackendLost {
				t.Errorf("the cause is %+v", cause)
			}
			if exists(all[0].process.plan.Home) {
				t.Error("the directory of the session is left")
			}
			next := openIn(t, b, testBase(), workspaceIn(t, dir))
			if out, _ := output(t, next, "r1", "print('next')"); out != "next\n" {
				t.Errorf("the next: %q", out)
			}
			if n > 0 {
				eventually(t, "a fork again", func() bool {
					b.warm.making.Wait()
					return openIn(t, b, testBase(), workspaceIn(t, dir)).(*instance).started.Report.Forked != nil
				})
			}
		})
	}
}

func gone(t *testing.T, tree []sandboxtest.Process) {
	t.Helper()
	for _, p := range tree {
		eventually(t, "the end of "+p.ID+" "+p.Command, func() bool { return !sandboxtest.ProcAlive(p) })
	}
}

// leaveZygoteEnv is the directory in which TestLeaveZygote works.
const leaveZygoteEnv = "BRIG_TEST_LEAVE_ZYGOTE"

// TestLeaveZygote is the brig that TestZygoteKilledBrig kills: it has a zygote
// and two sessions forked from it, one of them with processes that hide.
func TestLeaveZygote(t *testing.T) {
	dir := os.Getenv(leaveZygoteEnv)
	if dir == "" {
		return
	}
	b := inDirectory(t, dir)
	workspaces := filepath.Join(dir, "workspaces")
	if err := os.Mkdir(workspaces, 0o700); err != nil {
		t.Fatal(err)
	}
	b.options.Zygotes = ZygoteOptions{Most: 1, Workspaces: workspaces}
	warmUp(t, b, testBase(), workspaceIn(t, workspaces))
	var pids []int
	for range 2 {
		i := openForked(t, b, testBase(), workspaces)
		output(t, i, "r1", restless)
		pids = append(pids, i.started.PID)
	}
	line, err := json.Marshal(pids)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Printf("left %s\n", line)
	select {} // until it is killed
}

// TestZygoteKilledBrig: with brig, everything that it had forked ends, also where
// the supervisor is killed at the same time; then the sweep removes the directories.
func TestZygoteKilledBrig(t *testing.T) {
	needWhole(t)
	for name, supervisorToo := range map[string]bool{"alone": false, "with the supervisor": true} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			cmd := exec.Command("/proc/self/exe", "-test.run", "^TestLeaveZygote$")
			cmd.Env = append(os.Environ(), leaveZygoteEnv+"="+dir)
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
			var pids []int
			for lines := bufio.NewScanner(out); pids == nil && lines.Scan(); {
				if text, ok := strings.CutPrefix(lines.Text(), "left "); ok {
					if err := json.Unmarshal([]byte(text), &pids); err != nil {
						t.Fatal(err)
					}
				} else {
					t.Log(lines.Text())
				}
			}
			if len(pids) != 2 {
				t.Fatalf("the sessions are %v", pids)
			}
			supervisor := zygoteOf(t, pids[0])[2]
			tree := sandboxtest.ProcTree(supervisor)
			if len(tree) < 10 {
				t.Fatalf("the tree is %v", tree)
			}
			if supervisorToo {
				if err := unix.Kill(supervisor, unix.SIGKILL); err != nil {
					t.Fatal(err)
				}
			}
			if err := cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			_ = cmd.Wait() // it was killed
			gone(t, tree)
			b := inDirectory(t, dir)
			if !supervisorToo {
				eventually(t, "the sessions' directories to go", func() bool { return empty(t, b.options.instances()) })
				eventually(t, "the zygote's directory to go", func() bool { return empty(t, b.options.zygoteHomes()) })
			}
			removed, err := b.Sweep(testContext(t), "tests", func(sandbox.InstanceID) bool { return false })
			if err != nil || (removed > 0) != supervisorToo || !empty(t, b.options.instances()) || !empty(t, b.options.zygoteHomes()) {
				t.Errorf("removed %d, %v", removed, err)
			}
		})
	}
}

// TestZygoteKilledWhileForking: a zygote or its supervisor that dies while it
// makes a session costs nothing but the way: an instance comes about all the same.
func TestZygoteKilledWhileForking(t *testing.T) {
	needWhole(t)
	b, dir := warmBackend(t, testBase())
	for round := range 6 {
		probe := openForked(t, b, testBase(), dir)
		victim := zygoteOf(t, probe.started.PID)[1+round%2]
		before := sandboxtest.ProcTree(zygoteOf(t, probe.started.PID)[2])
		killed := make(chan error, 1)
		go func() {
			time.Sleep(time.Duration(round) * 3 * time.Millisecond)
			killed <- unix.Kill(victim, unix.SIGKILL)
		}()
		workspace := workspaceIn(t, dir)
		p, err := b.Prepare(testContext(t), testBase(), workspace)
		if err := <-killed; err != nil {
			t.Fatal(err)
		}
		gone(t, before)
		if err == nil { // it may have been killed with its zygote after it had come about
			if err := p.Close(testContext(t)); err != nil {
				t.Errorf("close: %v", err)
			}
		} else {
			t.Logf("round %d: %v", round, err)
		}
		eventually(t, "another zygote", func() bool {
			warmUp(t, b, testBase(), workspaceIn(t, dir))
			b.warm.mu.Lock()
			defer b.warm.mu.Unlock()
			for _, z := range b.warm.all {
				return z.why == "" && !isClosed(z.process.gone)
			}
			return false
		})
	}
}

func isClosed(c chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
