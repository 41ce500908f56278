package docker

import (
	"errors"
	"strings"
	"testing"
	"time"

	"brig/orchestrator/docker/enginetest"
	"brig/orchestrator/sandbox"
)

// runFailure is what happens to an engine or a container while code runs.
type runFailure struct {
	name    string
	options enginetest.Options
	fault   *enginetest.Fault // in force from before the start
	strike  func(t *testing.T, e *enginetest.Engine, c enginetest.Container)
	mend    func(t *testing.T, e *enginetest.Engine) // what brings the engine back
	cause   sandbox.Cause
	says    string        // part of the detail
	bound   time.Duration // from the strike to the end of the run; zero: five seconds
}

func runFailures() []runFailure {
	type (
		E = enginetest.Engine
		C = enginetest.Container
	)
	restart := func(t *testing.T, e *E) { e.Restart(t) }
	live := enginetest.Options{LiveRestore: true}
	new29 := enginetest.Options{Flavor: enginetest.Docker29()}
	heard := func(d time.Duration) time.Duration { // by the heartbeat: two looks, each with its questions
		p := shortPatience()
		return d + 3*(p.beat+p.ping+2*askTimeout)
	}
	return []runFailure{
		{
			name: "the daemon is killed", cause: sandbox.BackendLost, says: "went away", mend: restart,
			strike: func(_ *testing.T, e *E, _ C) { e.Kill() },
		},
		{ // the runner ends at its SIGTERM at once, so nobody waits for the daemon's ten seconds
			name: "the daemon ends", cause: sandbox.BackendLost, mend: restart,
			strike: func(_ *testing.T, e *E, _ C) { e.Terminate() },
		},
		{
			name: "the daemon is killed, with live-restore", options: live, cause: sandbox.BackendLost, says: "went away", mend: restart,
			strike: func(_ *testing.T, e *E, _ C) { e.Kill() },
		},
		{
			name: "the daemon ends, with live-restore", options: live, cause: sandbox.BackendLost, says: "went away", mend: restart,
			strike: func(_ *testing.T, e *E, _ C) { e.Terminate() },
		},
		{
			name: "the daemon restarts at once", cause: sandbox.BackendLost, mend: func(*testing.T, *E) {},
			strike: func(t *testing.T, e *E, _ C) { e.Restart(t) },
		},
		{
			name: "the daemon hangs", cause: sandbox.BackendLost, says: "does not answer", bound: heard(shortPatience().engine),
			strike: func(_ *testing.T, e *E, _ C) { e.Hang() },
			mend:   func(_ *testing.T, e *E) { e.Resume() },
		},
		{
			name: "the connection ends and the container runs", cause: sandbox.BackendLost, says: "the connection to the container ended",
			strike: func(_ *testing.T, _ *E, c C) { c.EndStreams() },
		},
		{
			name: "half a frame", cause: sandbox.BackendLost, says: "the connection to the container ended",
			strike: func(_ *testing.T, _ *E, c C) {
				c.Send(1, 4096, []byte("half"))
				c.EndStreams()
			},
		},
		{
			name: "a frame that is none", cause: sandbox.BackendLost, says: "the connection to the container ended",
			strike: func(_ *testing.T, _ *E, c C) { c.Send(9, 4, []byte("what")) },
		},
		{
			name: "the daemon's own words", cause: sandbox.BackendLost, says: "the connection to the container ended",
			strike: func(_ *testing.T, _ *E, c C) { c.Send(3, 20, []byte("error attaching: gone")[:20]) },
		},
		{
			name: "killed without the engine", cause: sandbox.Killed, says: "does not know by whom",
			strike: func(_ *testing.T, _ *E, c C) { c.Kill() },
		},
		{
			name: "removed from outside", cause: sandbox.Killed,
			strike: func(_ *testing.T, _ *E, c C) { c.Remove() },
		},
		{
			name: "the first process runs out of memory", cause: sandbox.MemoryOut, says: "memory limit",
			strike: func(_ *testing.T, _ *E, c C) { c.RunOut() },
		},
		{
			name: "the first process runs out of memory, flag of 29", options: new29, cause: sandbox.MemoryOut, says: "memory limit",
			strike: func(_ *testing.T, _ *E, c C) { c.RunOut() },
		},
		{
			name: "podman: the first process runs out of memory", options: enginetest.Options{Flavor: enginetest.Podman4()}, cause: sandbox.MemoryOut,
			strike: func(_ *testing.T, _ *E, c C) { c.RunOut() },
		},
		{
			name: "podman: killed from outside", options: enginetest.Options{Flavor: enginetest.Podman4()}, cause: sandbox.Killed,
			strike: func(_ *testing.T, _ *E, c C) { c.Kill() },
		},
		{
			name: "killed, and nobody tells how", fault: &enginetest.Fault{Op: enginetest.Events, Status: 500, Message: "oops"}, cause: sandbox.Killed,
			strike: func(_ *testing.T, _ *E, c C) { c.Kill() },
		},
		{
			name: "killed, and the wait was lost", fault: &enginetest.Fault{Op: enginetest.Wait, Status: 500, Message: "oops"}, cause: sandbox.Killed,
			strike: func(_ *testing.T, _ *E, c C) { c.Kill() },
		},
		{
			name: "the stream of an ended container stays open", fault: &enginetest.Fault{Op: enginetest.Attach, NoEnd: true}, cause: sandbox.Killed, bound: heard(0),
			strike: func(_ *testing.T, _ *E, c C) { c.Kill() },
		},
	}
}

// shortPatience is the heartbeat of an impatient brig, so that nobody waits for it here.
func shortPatience() patience {
	return patience{beat: 100 * time.Millisecond, ping: 200 * time.Millisecond, engine: time.Second, runner: 5 * time.Second, start: time.Second}
}

// TestFailuresOfARun: each ends the run with its cause and within its bound, what is
// left can be swept, and the next session works.
func TestFailuresOfARun(t *testing.T) {
	built := builtEngine(t)
	for _, f := range runFailures() {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			f.options.Images = built
			e := fakeEngine(t, f.options)
			b := fakeBackend(t, e)
			b.patience = shortPatience()
			var injected *enginetest.Injected
			if f.fault != nil {
				injected = e.Inject(*f.fault)
			}
			p, err := b.Prepare(limited(t), coreBase(), t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			i, err := p.Bind(limited(t), sandbox.Claim{ID: "run-1", Session: "run", Workspace: p.(*prepared).directory})
			if err != nil {
				t.Fatal(err)
			}
			c := fakeContainer(t, e, i.(*instance).box.id)
			var began time.Time
			struck := make(chan struct{})
			o := runUntil(limited(t), i, "print('on', flush=True)\nimport time\ntime.sleep(600)", func(string) {
				began = time.Now()
				go func() { // the stream must not wait for it
					defer close(struck)
					f.strike(t, e, c)
				}()
			})
			if took, bound := time.Since(began), max(f.bound, 5*time.Second); took > bound {
				t.Errorf("it took %s, more than %s", took, bound)
			}
			var lost *sandbox.Lost
			if !errors.As(o.err, &lost) {
				t.Fatalf("want a lost instance, got %v, %+v", o.err, o.exit)
			}
			if lost.Ending.Cause != f.cause || !strings.Contains(lost.Ending.Detail, f.says) {
				t.Errorf("lost because of %q (%s), want %q (%s)", lost.Ending.Cause, lost.Ending.Detail, f.cause, f.says)
			}
			if o.stdout.String() != "on\n" {
				t.Errorf("stdout %q", o.stdout.String())
			}
			<-i.Done()
			<-struck
			if injected != nil {
				injected.Clear()
			}
			if f.mend != nil {
				f.mend(t, e)
			}
			var left *sandbox.LeftBehind
			if err := i.Close(limited(t)); err != nil && !errors.As(err, &left) {
				t.Errorf("close: %v", err)
			}
			if f.mend != nil {
				sweepAll(t, b)
			} else if left != nil {
				t.Errorf("close: %v", left)
			}
			awaitGoneFrom(t, e)
			nextWorks(t, b)
			awaitGoneFrom(t, e)
		})
	}
}

// TestWhatARunOutlives: what happens around a session that does not end it.
func TestWhatARunOutlives(t *testing.T) {
	built := builtEngine(t)
	for name, happens := range map[string]func(e *enginetest.Engine, c enginetest.Container){
		"the image is removed":               func(e *enginetest.Engine, _ enginetest.Container) { e.RemoveImages() },
		"a child is killed at the limit":     func(_ *enginetest.Engine, c enginetest.Container) { c.RunOutChild() },
		"it is paused and goes on":           func(_ *enginetest.Engine, c enginetest.Container) { c.Pause(); c.Unpause() },
		"what does not run is pruned":        func(e *enginetest.Engine, _ enginetest.Container) { e.Prune() },
		"the daemon hangs for a little time": func(e *enginetest.Engine, _ enginetest.Container) { e.Hang(); e.Resume() },
	} {
		for version, flavor := range map[string]enginetest.Flavor{"20": enginetest.Docker20(), "29": enginetest.Docker29()} {
			t.Run(name+" on "+version, func(t *testing.T) {
				t.Parallel()
				e := fakeEngine(t, enginetest.Options{Flavor: flavor, Images: built})
				b := fakeBackend(t, e)
				i := session(t, b, coreBase(), t.TempDir())
				ok(t, i, "x = 41")
				happens(e, fakeContainer(t, e, i.box.id))
				if o := ok(t, i, "print(x + 1)"); o.stdout.String() != "42\n" {
					t.Errorf("stdout %q", o.stdout.String())
				}
				if err := i.Close(limited(t)); err != nil {
					t.Error(err)
				}
				if c := i.Cause(); c.Cause != sandbox.Cancelled {
					t.Errorf("ended because of %+v", c)
				}
				nextWorks(t, b)
				awaitGoneFrom(t, e)
			})
		}
	}
}

// TestPausedRun: nothing is heard of a paused container, and that is no loss.
func TestPausedRun(t *testing.T) {
	e := fakeEngine(t, enginetest.Options{})
	b := fakeBackend(t, e)
	b.patience = patience{beat: 20 * time.Millisecond, ping: 20 * time.Millisecond, engine: 100 * time.Millisecond, runner: 100 * time.Millisecond, start: time.Second}
	i := session(t, b, coreBase(), t.TempDir())
	c := fakeContainer(t, e, i.box.id)
	done := make(chan *outcome, 1)
	go func() {
		done <- runUntil(limited(t), i, "print('on', flush=True)\nimport time\ntime.sleep(0.2)\nprint('off')", func(s string) {
			if s == "on\n" {
				c.Pause()
			}
		})
	}()
	select {
	case o := <-done:
		t.Fatalf("it ended while it was paused: %v, %+v", o.err, o.exit)
	case <-time.After(time.Second): // ten times what silence is borne when it is none of a pause
	}
	c.Unpause()
	if o := <-done; o.err != nil || o.stdout.String() != "on\noff\n" {
		t.Errorf("%v, %+v, stdout %q", o.err, o.exit, o.stdout.String())
	}
}
