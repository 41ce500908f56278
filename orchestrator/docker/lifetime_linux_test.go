package docker

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"
	"golang.org/x/sys/unix"

	"brig/images"
	"brig/orchestrator/sandbox"
	"brig/orchestrator/sandbox/sandboxtest"
)

// holder is a helper process that uses the backend, to be killed.
type holder struct {
	cmd     *exec.Cmd
	owner   *Backend // of the same owner, to look at what the engine has
	process string
}

// startHolder runs the helper until it says that it has reached the stage.
func startHolder(t *testing.T, owner *Backend, stage string, variables ...string) *holder {
	t.Helper()
	h := &holder{owner: owner, process: token()}
	h.cmd = exec.CommandContext(context.WithoutCancel(t.Context()), os.Args[0])
	h.cmd.Env = append(os.Environ(), append(variables,
		verb+"=hold", "BRIG_DOCKER_TEST_STAGE="+stage, "BRIG_DOCKER_TEST_OWNER="+owner.options.Owner,
		"BRIG_DOCKER_TEST_PROCESS="+h.process, "BRIG_DOCKER_TEST_WORKSPACE="+t.TempDir())...)
	out, err := h.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var said strings.Builder
	h.cmd.Stderr = &said
	if err := h.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(h.kill)
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil || strings.TrimSpace(line) != stage {
		h.kill()
		t.Fatalf("the helper said %q, %v: %s", line, err, said.String())
	}
	return h
}

func (h *holder) kill() {
	_ = h.cmd.Process.Kill()
	_ = h.cmd.Wait()
}

// awaitNone polls the engine until it has nothing of the owner that filter wants.
func awaitNone(t *testing.T, b *Backend, bound time.Duration, filter func(container.Summary) bool) time.Duration {
	t.Helper()
	began := time.Now()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		var left []string
		for _, c := range containersOf(t, b) {
			if filter(c) {
				left = append(left, fmt.Sprint(c.Names, " ", c.Status)) // one that is being removed has no name
			}
		}
		if len(left) == 0 {
			return time.Since(began)
		}
		if time.Since(began) > bound {
			t.Fatalf("after %s there are still %v", bound, left)
		}
		<-tick.C
	}
}

// TestNothingOutlivesBrig kills a brig with SIGKILL. Nobody sweeps: what runs ends
// because its input ends, and the engine removes it.
func TestNothingOutlivesBrig(t *testing.T) {
	b := engineBackend(t, images.Core)
	for _, stage := range []string{"prepared", "idle", "running"} {
		t.Run(stage, func(t *testing.T) {
			h := startHolder(t, b, stage)
			if n := len(containersOf(t, b)); n != 1 {
				t.Fatalf("before the kill there are %d containers", n)
			}
			h.kill()
			t.Logf("gone after %s", awaitNone(t, b, 5*time.Second, func(container.Summary) bool { return true }))
		})
	}
	// While it starts, a container may be created and not started: that one is for Sweep.
	for n := range 8 {
		h := startHolder(t, b, "starting")
		time.Sleep(time.Duration(n*17) * time.Millisecond) // where the kill lands is not asserted
		h.kill()
		awaitNone(t, b, 5*time.Second, func(c container.Summary) bool { return c.State != "created" })
	}
	// A creation that the engine had begun when brig died may be finished only now,
	// so that a sweep can be too early for it; the next one is not.
	began := time.Now()
	for {
		removed, err := b.Sweep(limited(t), b.options.Owner, func(sandbox.InstanceID) bool { return false })
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("a sweep removed %d", removed)
		now := containersOf(t, b)
		if len(now) == 0 {
			break
		}
		if time.Since(began) > 5*time.Second {
			t.Fatalf("sweeps leave %v %s", now[0].Names, now[0].Status)
		}
	}
}

// orphan makes a container as a brig that died between create and start would leave it.
func orphan(t *testing.T, b *Backend) string {
	t.Helper()
	e, err := b.current(limited(t))
	if err != nil {
		t.Fatal(err)
	}
	s, err := b.spec(limited(t), e, coreBase(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	labels := b.labels(s)
	labels[labelProcess] = "dead"
	created, err := e.cli.ContainerCreate(limited(t), s.config(labels), s.hostConfig(), nil, nil, s.name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = e.cli.ContainerRemove(context.Background(), created.ID, container.RemoveOptions{Force: true})
	})
	return s.id
}

func TestSweep(t *testing.T) {
	mine, other := engineBackend(t, images.Core), engineBackend(t, images.Core)
	never, kept := orphan(t, mine), orphan(t, mine)
	foreign := orphan(t, other)
	living := session(t, mine, coreBase(), t.TempDir())

	var asked []string
	removed, err := mine.Sweep(limited(t), mine.options.Owner, func(id sandbox.InstanceID) bool {
		asked = append(asked, string(id))
		return string(id) == kept
	})
	if err != nil || removed != 1 {
		t.Errorf("removed %d, %v", removed, err)
	}
	if len(asked) != 2 {
		t.Errorf("asked about %v, want %s and %s", asked, never, kept)
	}
	ok(t, living, "print('still here')")
	if n := len(containersOf(t, other)); n != 1 {
		t.Errorf("the other owner has %d containers left, want %s", n, foreign)
	}
	if removed, err := other.Sweep(limited(t), other.options.Owner, func(sandbox.InstanceID) bool { return false }); err != nil || removed != 1 {
		t.Errorf("the other owner removed %d, %v", removed, err)
	}
	if removed, err := mine.Sweep(limited(t), mine.options.Owner, func(sandbox.InstanceID) bool { return false }); err != nil || removed != 1 {
		t.Errorf("then removed %d, %v", removed, err)
	}
}

func TestCauses(t *testing.T) {
	b := engineBackend(t, images.Core)
	t.Run("killed from outside", func(t *testing.T) {
		i := session(t, b, coreBase(), t.TempDir())
		o := runUntil(limited(t), i, "print('on', flush=True)\nwhile True: pass", func(string) {
			if err := i.box.engine.cli.ContainerKill(context.Background(), i.box.id, "KILL"); err != nil {
				t.Error(err)
			}
		})
		wantLost(t, o.err, sandbox.Killed)
		if c := i.Cause(); !strings.Contains(c.Detail, "killed from outside") {
			t.Errorf("%+v", c)
		}
	})
	t.Run("killed without the engine", func(t *testing.T) {
		i := session(t, b, coreBase(), t.TempDir())
		out, err := i.box.engine.cli.ContainerInspect(limited(t), i.box.id)
		if err != nil {
			t.Fatal(err)
		}
		if err := unix.Kill(out.State.Pid, unix.SIGKILL); err != nil {
			sandboxtest.Skip(t, "the right to signal a container's process", err.Error())
		}
		<-i.Done()
		if c := i.Cause(); c.Cause != sandbox.Killed || !strings.Contains(c.Detail, "does not know by whom") {
			t.Errorf("%+v", c)
		}
	})
	t.Run("removed from outside", func(t *testing.T) {
		i := session(t, b, coreBase(), t.TempDir())
		if err := i.box.engine.cli.ContainerRemove(limited(t), i.box.id, container.RemoveOptions{Force: true}); err != nil {
			t.Fatal(err)
		}
		<-i.Done()
		if c := i.Cause(); c.Cause != sandbox.Killed {
			t.Errorf("%+v", c)
		}
	})
	t.Run("closed", func(t *testing.T) {
		i := session(t, b, coreBase(), t.TempDir())
		if err := i.Close(limited(t)); err != nil {
			t.Fatal(err)
		}
		<-i.Done()
		if c := i.Cause(); c.Cause != sandbox.Cancelled {
			t.Errorf("%+v", c)
		}
	})
}
