package docker

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/image"

	"brig/images"
	"brig/orchestrator/sandbox"
	"brig/orchestrator/sandbox/sandboxtest"
	"brig/orchestrator/wire"
)

func anyContainer(container.Summary) bool { return true }

// within fails when f takes longer than bound. Bounds are the product's own, with
// room for a machine that does something else as well.
func within(t *testing.T, what string, bound time.Duration, f func()) {
	t.Helper()
	began := time.Now()
	f()
	if took := time.Since(began); took > bound {
		t.Errorf("%s took %s, bound %s", what, took, bound)
	}
}

// running starts code that prints "on" and spins, and returns when it does.
func running(t *testing.T, i sandbox.Instance) (wait func() *outcome) {
	t.Helper()
	on, done := make(chan struct{}), make(chan *outcome, 1)
	var once sync.Once
	go func() {
		done <- runUntil(limited(t), i, "print('on', flush=True)\nwhile True: pass", func(string) { once.Do(func() { close(on) }) })
	}()
	select {
	case <-on:
	case o := <-done:
		t.Fatalf("the run ended at once: %+v, %v", o.exit, o.err)
	}
	return func() *outcome { return <-done }
}

// nothingLeft sweeps like the next brig would and expects nothing afterwards.
func nothingLeft(t *testing.T, b *Backend) {
	t.Helper()
	next := newBackend(t, func(o *Options) { o.Endpoint, o.Owner = b.options.Endpoint, b.options.Owner })
	// An engine that was killed may need more than one try to remove what it finds half removed.
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(time.Second) {
		_, err := next.Sweep(limited(t), b.options.Owner, func(sandbox.InstanceID) bool { return false })
		left := containersOf(t, next)
		if err == nil && len(left) == 0 {
			return
		}
		if time.Now().After(end) {
			t.Errorf("sweep: %v; there are still %d containers", err, len(left))
			return
		}
	}
}

// closed closes an instance on an engine that may not answer; what it leaves is for a sweep.
func closed(t *testing.T, i *instance) {
	t.Helper()
	within(t, "close", closeTimeout+3*time.Second, func() {
		var left *sandbox.LeftBehind
		if err := i.Close(limited(t)); err != nil && !errors.As(err, &left) {
			t.Errorf("close: %v", err)
		}
		i.closeErr = nil // said; the cleanup of the helper asks again
	})
}

// usable runs something in a new session.
func usable(t *testing.T, b *Backend) {
	t.Helper()
	i := session(t, b, coreBase(), t.TempDir())
	if o := ok(t, i, "print(6*7)"); o.stdout.String() != "42\n" {
		t.Errorf("stdout %q", o.stdout.String())
	}
	if err := i.Close(limited(t)); err != nil {
		t.Errorf("close: %v", err)
	}
}

// TestContainersMistreated is what a person can do to a container on an engine that works.
func TestContainersMistreated(t *testing.T) {
	b := engineBackend(t, images.Core)
	e, err := b.current(limited(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Run("removed under a run", func(t *testing.T) {
		i := session(t, b, coreBase(), t.TempDir())
		wait := running(t, i)
		if err := i.box.remove(limited(t)); err != nil {
			t.Fatal(err)
		}
		wantLost(t, wait().err, sandbox.Killed)
		closed(t, i)
	})
	t.Run("paused and unpaused", func(t *testing.T) {
		i := session(t, b, coreBase(), t.TempDir())
		o := runUntil(limited(t), i, "print('on', flush=True)\nimport time\nfor _ in range(20): time.sleep(0.05)\nprint('off')", func(text string) {
			if text == "on\n" {
				must(t, e.cli.ContainerPause(limited(t), i.box.id))
				must(t, e.cli.ContainerUnpause(limited(t), i.box.id))
			}
		})
		if o.err != nil || o.exit.Outcome != wire.OutcomeOK || o.stdout.String() != "on\noff\n" {
			t.Errorf("%+v, %v, stdout %q", o.exit, o.err, o.stdout.String())
		}
	})
	t.Run("paused for good", func(t *testing.T) {
		i := session(t, b, coreBase(), t.TempDir())
		wait := running(t, i)
		must(t, e.cli.ContainerPause(limited(t), i.box.id))
		for told := limited(t); !i.box.told.isPaused(); time.Sleep(time.Millisecond) {
			must(t, told.Err()) // the engine tells what happened a little later
		}
		closed(t, i)
		o := wait()
		wantLost(t, o.err, sandbox.Cancelled)
		if !strings.Contains(o.err.Error(), "paused") {
			t.Errorf("nothing says that it was paused: %v", o.err)
		}
	})
	t.Run("process limit", func(t *testing.T) {
		base := coreBase()
		base.Limits.Processes = 32
		i := session(t, b, base, t.TempDir())
		const bomb = "import os, time\nprint('on', flush=True)\nwhile True:\n    try:\n        os.fork()\n    except OSError:\n        time.sleep(0.01)"
		on, done := make(chan struct{}), make(chan error, 1)
		var once sync.Once
		go func() {
			_, err := i.Run(limited(t), wire.Run{ID: "bomb", Source: []byte(bomb)}, func(wire.Event) error {
				once.Do(func() { close(on) })
				return nil
			})
			done <- err
		}()
		<-on
		within(t, "ping", 10*time.Second, func() {
			for full := false; !full; {
				if err := i.peer.Ping(limited(t)); err != nil {
					t.Fatalf("the runner does not answer among the processes: %v", err)
				}
				c, _ := i.Counters()
				full = c.ForkFailures > 0
			}
		})
		if err := i.peer.Ping(limited(t)); err != nil {
			t.Errorf("ping at the limit: %v", err)
		}
		must(t, i.Interrupt(limited(t), "bomb", wire.Hard, true))
		must(t, <-done)
		if o := ok(t, i, "import os\npid = os.fork()\nif pid == 0: os._exit(0)\nprint(os.waitpid(pid, 0)[1])"); o.stdout.String() != "0\n" {
			t.Errorf("the next run: %q", o.stdout.String())
		}
	})
	nothingLeft(t, b)
}

// TestEngineFailures is what an engine can do to its containers and to brig, one
// after the other on one engine of the test's own.
func TestEngineFailures(t *testing.T) {
	stuck := filepath.Join(t.TempDir(), "stuck")
	must(t, os.WriteFile(stuck, []byte("#!/bin/sh\nwhile :; do sleep 1; done\n"), 0o755))
	own := startEngine(t, "--add-runtime", "stuck="+stuck)
	for _, step := range []struct {
		name string
		f    func(*testing.T, *ownEngine)
	}{
		{"start wedged", func(t *testing.T, own *ownEngine) { engineStartWedged(t, own, stuck) }},
		{"silent", engineSilent},
		{"pruned", enginePruned},
		{"ends", engineEnds},
		{"restarts with live-restore", engineRestarts},
		{"without images", engineWithoutImages},
	} {
		t.Run(step.name, func(t *testing.T) { step.f(t, own) })
	}
}

// engineSilent stops the engine's process while something waits for a runner.
// The engine does not answer, the stream is still open, and neither says so.
func engineSilent(t *testing.T, own *ownEngine) {
	b := own.backend(t)
	b.patience = patience{beat: 100 * time.Millisecond, ping: 200 * time.Millisecond, engine: 3 * time.Second, runner: time.Minute, start: 3 * time.Second}
	i := session(t, b, coreBase(), t.TempDir())
	idle := session(t, b, coreBase(), t.TempDir())
	wait := running(t, i)

	// A stall that ends in time costs nothing.
	own.signal(syscall.SIGSTOP)
	stalled, cancel := context.WithTimeout(limited(t), time.Second)
	defer cancel()
	if err := i.peer.Ping(stalled); err == nil {
		t.Error("control: the stopped engine passes a ping on")
	}
	own.signal(syscall.SIGCONT)
	if err := i.peer.Ping(limited(t)); err != nil {
		t.Fatalf("after a stall: %v", err)
	}

	own.signal(syscall.SIGSTOP)
	within(t, "to notice a silent engine", 20*time.Second, func() {
		called := make(chan error, 1)
		go func() {
			_, err := idle.Call(limited(t), wire.Control{Op: wire.OpVariables}, nil, nil)
			called <- err
		}()
		within(t, "probe", 5*time.Second, func() {
			var u *sandbox.Unavailable
			if _, err := b.Probe(limited(t)); !errors.As(err, &u) || u.Code != "engine-hung" {
				t.Errorf("probe: %v", err)
			}
		})
		o := wait()
		wantLost(t, o.err, sandbox.BackendLost)
		if !strings.Contains(o.err.Error(), "does not answer") {
			t.Errorf("%v", o.err)
		}
		wantLost(t, <-called, sandbox.BackendLost)
	})
	var closing sync.WaitGroup
	for _, x := range []*instance{i, idle} {
		closing.Go(func() { closed(t, x) })
	}
	closing.Wait()
	own.signal(syscall.SIGCONT)
	usable(t, b)
	nothingLeft(t, b)

	// At any moment of a start: bounded, and what comes of it late is swept.
	times := 1
	if os.Getenv("BRIG_TEST_LONG") != "" {
		times = 8
	}
	for n := range times {
		stopped := make(chan struct{})
		go func() {
			defer close(stopped)
			time.Sleep(time.Duration(10+n*30) * time.Millisecond) // where it lands is not asserted
			own.signal(syscall.SIGSTOP)
		}()
		short, cancel := context.WithTimeout(limited(t), 1500*time.Millisecond)
		within(t, "prepare on an engine that stops", 15*time.Second, func() {
			if p, err := b.Prepare(short, coreBase(), t.TempDir()); err == nil {
				t.Log("it was quicker")
				<-stopped
				own.signal(syscall.SIGCONT)
				must(t, p.Close(limited(t)))
			}
		})
		cancel()
		<-stopped
		own.signal(syscall.SIGCONT)
	}
	usable(t, b)
	nothingLeft(t, b)
}

// engineEnds ends an engine and starts it again, in every way it can.
func engineEnds(t *testing.T, own *ownEngine) {
	b := own.backend(t)
	for _, how := range []struct {
		name     string
		signal   syscall.Signal
		survives bool // live-restore
	}{
		{"SIGTERM", syscall.SIGTERM, false},
		{"SIGKILL", syscall.SIGKILL, false},
		{"SIGTERM with live-restore", syscall.SIGTERM, true},
		{"SIGKILL with live-restore", syscall.SIGKILL, true},
	} {
		t.Run(how.name, func(t *testing.T) {
			if how.survives {
				own.restore(t)
			}
			i := session(t, b, coreBase(), t.TempDir())
			idle := session(t, b, coreBase(), t.TempDir())
			wait := running(t, i)
			within(t, "the engine's end", 20*time.Second, func() { own.finish(how.signal) })
			within(t, "to notice it", 10*time.Second, func() {
				wantLost(t, wait().err, sandbox.BackendLost)
				<-idle.Done()
				if c := idle.Cause(); c.Cause != sandbox.BackendLost {
					t.Errorf("the idle one: %+v", c)
				}
			})
			_, err := b.Prepare(limited(t), coreBase(), t.TempDir())
			var u *sandbox.Unavailable
			if !errors.As(err, &u) || u.Code != "engine-stale-socket" && u.Code != "engine-absent" {
				t.Errorf("prepare on a dead engine: %v", err)
			}
			var left *sandbox.LeftBehind
			if err := i.Close(limited(t)); !errors.As(err, &left) || !strings.Contains(left.Error(), i.box.name) {
				t.Errorf("close on a dead engine: %v", err)
			}
			i.closeErr = nil // said; the cleanup of the helper asks again
			closed(t, idle)
			own.start(t)
			usable(t, b)
			nothingLeft(t, b)
		})
	}
}

// enginePruned removes what a person who wants room removes.
func enginePruned(t *testing.T, own *ownEngine) {
	if _, err := exec.LookPath("docker"); err != nil {
		sandboxtest.Skip(t, "the docker command", err.Error())
	}
	b := own.backend(t)
	docker := func(args ...string) {
		t.Helper()
		command := exec.CommandContext(t.Context(), "docker", append([]string{"--host", own.endpoint}, args...)...)
		if out, err := command.CombinedOutput(); err != nil {
			t.Fatalf("docker %v: %v: %s", args, err, out)
		}
	}
	workspace := t.TempDir()
	p, err := b.Prepare(limited(t), coreBase(), workspace)
	must(t, err)
	i := session(t, b, coreBase(), t.TempDir())
	ok(t, i, "x = 41")
	for _, args := range [][]string{{"system", "prune", "-f"}, {"system", "prune", "-a", "-f"}} {
		docker(args...)
		if o := ok(t, i, "x += 1\nprint(x > 41)"); o.stdout.String() != "True\n" {
			t.Errorf("after %v: %q", args, o.stdout.String())
		}
	}
	bound, err := p.Bind(limited(t), sandbox.Claim{ID: "pruned-1", Session: "pruned", Workspace: workspace})
	must(t, err)
	ok(t, bound, "print('a prepared one')")

	// The image goes while a container of it runs: the container does not, and the next start builds it again.
	copyImages(t, engineBackend(t, images.Core), own.client(t)) // the base, which pruning took
	e, err := b.current(limited(t))
	must(t, err)
	state, err := e.cli.ContainerInspect(limited(t), i.box.id)
	must(t, err)
	remove := func() error {
		_, err := e.cli.ImageRemove(limited(t), state.Image, image.RemoveOptions{Force: true, PruneChildren: true})
		return err
	}
	t.Logf("remove the image while it is used: %v", remove())
	ok(t, i, "print(x)")
	must(t, bound.Close(limited(t)))
	must(t, i.Close(limited(t)))
	awaitNone(t, b, 10*time.Second, anyContainer)
	must(t, remove())
	_, err = b.Prepare(limited(t), coreBase(), t.TempDir())
	var u *sandbox.Unavailable
	if err != nil && (!errors.As(err, &u) || u.Code != "image-not-built") { // it is built again, for which this machine may lack what it needs
		t.Errorf("prepare without the image: %v", err)
	}
	copyImages(t, engineBackend(t, images.Core), own.client(t))
	usable(t, b)
	nothingLeft(t, b)
}

// TestEngineDiskFull gives the engine a small disk and fills it.
func TestEngineDiskFull(t *testing.T) {
	if os.Getuid() != 0 {
		sandboxtest.Skip(t, "root, to mount a file system", "an ordinary user")
	}
	disk := t.TempDir()
	if err := syscall.Mount("brig-test", disk, "tmpfs", 0, "size=900m,mode=0711"); err != nil {
		sandboxtest.Skip(t, "to mount a file system", err.Error())
	}
	t.Cleanup(func() { _ = syscall.Unmount(disk, syscall.MNT_DETACH) })
	own := startEngine(t, "--data-root", filepath.Join(disk, "data"))
	b := own.backend(t)
	i := session(t, b, coreBase(), t.TempDir())
	filler, err := os.Create(filepath.Join(disk, "filler"))
	must(t, err)
	defer filler.Close()
	for piece := make([]byte, 1<<20); ; {
		if _, err := filler.Write(piece); err != nil {
			if !errors.Is(err, syscall.ENOSPC) {
				t.Fatal(err)
			}
			if piece = piece[:len(piece)/2]; len(piece) == 0 {
				break
			}
		}
	}
	_, err = b.Prepare(limited(t), coreBase(), t.TempDir())
	var u *sandbox.Unavailable
	if !errors.As(err, &u) || u.Code != "engine-disk-full" || u.Settings || !strings.Contains(u.Reason, "disk") || u.Remedy == "" {
		t.Errorf("prepare on a full disk: %v", err)
	}
	ok(t, i, "print('a session that lives does not need the disk')")
	must(t, i.Close(limited(t)))
	must(t, filler.Truncate(0))
	usable(t, b)
	nothingLeft(t, b)
}

// engineStartWedged has a runtime that accepts a start and never comes back.
func engineStartWedged(t *testing.T, own *ownEngine, stuck string) {
	b := own.backend(t)
	base := coreBase()
	base.Runtime = "stuck"
	short, cancel := context.WithTimeout(limited(t), 2*time.Second)
	defer cancel()
	within(t, "a start that never comes back", 15*time.Second, func() {
		if _, err := b.Prepare(short, base, t.TempDir()); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("prepare: %v", err)
		}
	})
	usable(t, b) // the others go on beside it
	endAll(t, stuck)
	nothingLeft(t, b)
}

// endAll ends the processes of a runtime that sleeps.
func endAll(t *testing.T, program string) {
	t.Helper()
	entries, err := os.ReadDir("/proc")
	must(t, err)
	for _, entry := range entries {
		line, err := os.ReadFile("/proc/" + entry.Name() + "/cmdline")
		if err == nil && strings.HasPrefix(string(line), "/bin/sh\x00"+program+"\x00") {
			if p, err := os.FindProcess(atoi(entry.Name())); err == nil {
				_ = p.Kill()
			}
		}
	}
}
