package orchestrator

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"brig/orchestrator/sandbox"
	. "brig/orchestrator/sandbox/sandboxtest"
	"brig/orchestrator/wire"
)

func TestCloseDuring(t *testing.T) {
	t.Run("a run, with others waiting", func(t *testing.T) {
		bubble(t, func(t *testing.T) {
			rig := newRig(t)
			s := rig.open(t, SessionOptions{})
			home := s.home.dir
			a := start(t.Context(), s, RunRequest{}, Deaf())
			<-a.began
			b := start(t.Context(), s, RunRequest{}, Print("never"))
			synctest.Wait()
			begin := time.Now()
			var wg sync.WaitGroup
			for range 4 {
				wg.Go(func() { shut(t, s) })
			}
			wg.Wait()
			within(t, "closing", time.Since(begin), 0, 100*time.Millisecond)
			want(t, a.wait(t), sandbox.Cancelled, wire.StateLost)
			want(t, b.wait(t), sandbox.Cancelled, wire.StateKept)
			if rig.docker.Instances() != 0 {
				t.Error("the instance is left")
			}
			if _, err := os.Stat(home); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("the workspace is left: %v", err)
			}
			for what, err := range map[string]error{
				"run": second(s.Run(t.Context(), RunRequest{}, nil)), "reset": s.Reset(t.Context(), false), "variables": second(s.Variables(t.Context())),
			} {
				if !errors.Is(err, ErrClosed) {
					t.Errorf("%s after close: %v", what, err)
				}
			}
			if err := s.Interrupt(t.Context()); !errors.Is(err, sandbox.ErrNotRunning) {
				t.Errorf("interrupt after close: %v", err)
			}
		})
	})
	t.Run("an interrupt", func(t *testing.T) {
		bubble(t, func(t *testing.T) {
			s := newRig(t).open(t, SessionOptions{})
			a := start(t.Context(), s, RunRequest{}, Deaf())
			<-a.began
			if err := s.Interrupt(t.Context()); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			shut(t, s)
			r := a.wait(t)
			if r.Cause != sandbox.Interrupted {
				t.Errorf("%+v", r)
			}
		})
	})
	t.Run("a replacement", func(t *testing.T) {
		bubble(t, func(t *testing.T) {
			o := pretended(sandbox.Docker)
			o.PrepareDelay = time.Minute
			backend := NewMemory(o)
			s := newRig(t, func(o *Options) { o.Backends = []sandbox.Backend{backend} }).open(t, SessionOptions{})
			backend.Lose(s.latest().instance.ID(), sandbox.Ending{Cause: sandbox.Killed})
			a := start(t.Context(), s, RunRequest{}, Print("never"))
			synctest.Wait()
			if s.State() != StateReplacing {
				t.Fatalf("session is %s", s.State())
			}
			begin := time.Now()
			shut(t, s)
			within(t, "closing", time.Since(begin), 0, time.Second)
			want(t, a.wait(t), sandbox.Cancelled, wire.StateKept)
			if backend.Instances() != 0 {
				t.Error("an instance is left")
			}
		})
	})
	t.Run("an interrupted replacement", func(t *testing.T) {
		bubble(t, func(t *testing.T) {
			o := pretended(sandbox.Docker)
			o.PrepareDelay = time.Minute
			backend := NewMemory(o)
			s := newRig(t, func(o *Options) { o.Backends = []sandbox.Backend{backend} }).open(t, SessionOptions{})
			backend.Lose(s.latest().instance.ID(), sandbox.Ending{Cause: sandbox.Killed})
			a := start(t.Context(), s, RunRequest{}, Print("never"))
			synctest.Wait()
			if err := s.Interrupt(t.Context()); err != nil {
				t.Fatal(err)
			}
			want(t, a.wait(t), sandbox.Interrupted, wire.StateKept)
			if s.State() != StateLost {
				t.Errorf("session is %s", s.State())
			}
			again(t, s, "its instance had ended")
		})
	})
	t.Run("its opening", func(t *testing.T) {
		bubble(t, func(t *testing.T) {
			o := pretended(sandbox.Docker)
			o.PrepareDelay = time.Minute
			backend := NewMemory(o)
			rig := newRig(t, func(o *Options) { o.Backends = []sandbox.Backend{backend} })
			opened := make(chan error)
			go func() {
				_, err := rig.Open(context.Background(), SessionOptions{})
				opened <- err
			}()
			synctest.Wait()
			begin := time.Now()
			if err := rig.Close(t.Context()); err != nil {
				t.Error(err)
			}
			within(t, "closing", time.Since(begin), 0, time.Second)
			if err := <-opened; err == nil {
				t.Error("a session was opened by a closed orchestrator")
			}
			if backend.Instances() != 0 {
				t.Error("an instance is left")
			}
		})
	})
}

func second[T any](_ T, err error) error { return err }

// stubborn is an instance that takes its time to close, like an engine under load.
type stubborn struct {
	sandbox.Instance
	delay time.Duration
}

func (i stubborn) Close(ctx context.Context) error {
	timer := time.NewTimer(i.delay)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
	return i.Instance.Close(ctx)
}

func TestCloseIsBoundedByItsContext(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newRig(t).open(t, SessionOptions{})
		s.bound.instance = stubborn{s.bound.instance, 5 * time.Second}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		begin := time.Now()
		if err := s.Close(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("close: %v", err)
		}
		within(t, "the first close", time.Since(begin), time.Second, time.Second)
		shut(t, s) // the rest went on, and can be waited for
		within(t, "both", time.Since(begin), 5*time.Second, 6*time.Second)
	})
}

// A backend that closes slowly must not delay the answer of a timeout.
func TestTimeoutDoesNotWaitForTheBackend(t *testing.T) {
	bubble(t, func(t *testing.T) {
		o := pretended(sandbox.Docker)
		o.Stuck = true
		s := newRig(t, with(o)).open(t, SessionOptions{})
		s.bound.instance = stubborn{s.bound.instance, 5 * time.Second}
		r, out := run(t, s, RunRequest{Timeout: time.Second}, Print("so far"), Spin())
		want(t, r, sandbox.Timeout, wire.StateLost)
		within(t, "the answer", r.Elapsed, time.Second, time.Second+answerBound)
		if out != "so far\n" || r.Stdout.Kept != 7 {
			t.Errorf("output %q, %+v", out, r)
		}
		// The next one waits until the workspace has no other instance.
		begin := time.Now()
		if r, _ := run(t, s, RunRequest{}, Print("x")); r.Cause != sandbox.OK {
			t.Errorf("%+v", r)
		}
		within(t, "the replacement", time.Since(begin), 4*time.Second, 6*time.Second)
	})
}

func TestHomes(t *testing.T) {
	rig := newRig(t)
	own := t.TempDir()
	given := rig.open(t, SessionOptions{Workspace: own})
	fresh := rig.open(t, SessionOptions{})
	kept := rig.open(t, SessionOptions{Keep: true})
	for _, s := range []*Session{given, fresh, kept} {
		run(t, s, RunRequest{}, WriteFile("a.txt", "x"))
		if entries, _, err := s.Workspace().List("", 10); err != nil || len(entries) == 0 {
			t.Errorf("workspace: %+v, %v", entries, err)
		}
	}
	freshDir, keptDir := fresh.home.workspace, kept.home.workspace
	if filepath.Dir(filepath.Dir(freshDir)) != filepath.Join(rig.options.Paths.Data, homesDir) {
		t.Errorf("a fresh workspace is at %s", freshDir)
	}
	for _, s := range []*Session{given, fresh, kept} {
		shut(t, s)
	}
	for path, stays := range map[string]bool{
		filepath.Join(own, "a.txt"): true, filepath.Join(keptDir, "a.txt"): true, filepath.Dir(freshDir): false,
	} {
		if _, err := os.Stat(path); (err == nil) != stays {
			t.Errorf("%s: %v, want it to stay: %v", path, err, stays)
		}
	}
	for _, bad := range []string{filepath.Join(own, "missing"), filepath.Join(own, "a.txt")} {
		if s, err := rig.Open(t.Context(), SessionOptions{Workspace: bad}); err == nil {
			t.Errorf("opened in %s", bad)
			shut(t, s)
		}
	}
}
