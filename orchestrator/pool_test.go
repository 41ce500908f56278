package orchestrator

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"brig/orchestrator/sandbox"
	. "brig/orchestrator/sandbox/sandboxtest"
	"brig/orchestrator/wire"
)

func warm(o *Options) { o.Warm = true }

// stocked waits until the pool has nothing more to do now.
func stocked(t *testing.T, r *rig, kind sandbox.Kind, ready int) PoolStatus {
	t.Helper()
	time.Sleep(2 * refillDelay)
	synctest.Wait()
	status := r.PoolStatus()
	got := 0
	for _, s := range status.Shelves {
		if s.Kind == kind {
			got += s.Ready
		}
	}
	if got != ready {
		t.Fatalf("%d %s instances are ready, want %d: %+v", got, kind, ready, status)
	}
	return status
}

// homes lists the session directories.
func (r *rig) homes(t *testing.T) []string {
	t.Helper()
	entries, err := os.ReadDir(filepath.Join(r.options.Paths.Data, homesDir))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	var out []string
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return out
}

// A session takes a prepared instance with its directory, nobody else gets it,
// and another one takes its place.
func TestPoolHandsOut(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, warm, func(o *Options) { o.Config.Pool.Docker = 2 })
		stocked(t, r, sandbox.Docker, 2)
		seen := map[string]bool{}
		for n := range 3 {
			s := r.open(t, SessionOptions{Timezone: "Europe/Berlin", Locale: "de_DE.UTF-8"})
			if seen[s.Workspace().Dir()] {
				t.Fatalf("%s was handed out twice", s.Workspace().Dir())
			}
			seen[s.Workspace().Dir()] = true
			result, out := run(t, s, RunRequest{}, WriteFile("mine", "x"), Print("hello"))
			want(t, result, sandbox.OK, wire.StateKept)
			if out != "hello\n" {
				t.Errorf("it printed %q", out)
			}
			if entries, _, err := s.Workspace().List("", 0); err != nil || len(entries) != 1 || entries[0].Path != "mine" {
				t.Errorf("session %d has %v, %v: not a workspace of its own", n, entries, err)
			}
			if result.Stamp.Session != s.spec.claim.Session {
				t.Errorf("the stamp names session %q", result.Stamp.Session)
			}
			status := stocked(t, r, sandbox.Docker, 2)
			if status.Warm != int64(n+1) || status.Cold != 0 {
				t.Errorf("after %d sessions: %+v", n+1, status)
			}
		}
		if got := r.docker.Prepares(); got != 5 {
			t.Errorf("%d instances were prepared for 3 sessions and 2 in reserve", got)
		}
	})
}

// The directory of a closed warm session is removed, or kept where that was asked.
func TestPoolHomes(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, warm)
		stocked(t, r, sandbox.Docker, 1)
		gone := r.open(t, SessionOptions{})
		stocked(t, r, sandbox.Docker, 1)
		kept := r.open(t, SessionOptions{Keep: true})
		for _, s := range []*Session{gone, kept} {
			run(t, s, RunRequest{}, WriteFile("f", "x"))
			shut(t, s)
		}
		if status := r.PoolStatus(); status.Warm != 2 {
			t.Fatalf("control: %+v", status)
		}
		if _, err := os.Stat(gone.Workspace().Dir()); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("the directory of a closed session: %v", err)
		}
		if _, err := os.Stat(filepath.Join(kept.Workspace().Dir(), "f")); err != nil {
			t.Errorf("a kept file: %v", err)
		}
		if err := r.Close(context.Background()); err != nil {
			t.Error(err)
		}
		if left := r.homes(t); len(left) != 1 || filepath.Join(r.options.Paths.Data, homesDir, left[0], filesDir) != kept.Workspace().Dir() {
			t.Errorf("left after Close: %v", left)
		}
		if n := r.docker.Instances(); n != 0 {
			t.Errorf("%d instances are left after Close", n)
		}
	})
}

// Who brings a workspace is launched for it.
func TestPoolNamedWorkspace(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, warm)
		stocked(t, r, sandbox.Docker, 1)
		dir := t.TempDir()
		s := r.open(t, SessionOptions{Workspace: dir})
		run(t, s, RunRequest{}, WriteFile("f", "x"))
		if _, err := os.Stat(filepath.Join(dir, "f")); err != nil {
			t.Error(err)
		}
		if status := stocked(t, r, sandbox.Docker, 1); status.Warm != 0 || status.Cold != 1 {
			t.Errorf("%+v", status)
		}
	})
}

// A base that the settings do not name is pooled once it was asked for, for a while.
func TestPoolAskedBase(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, warm)
		stocked(t, r, sandbox.Docker, 1)
		base := r.options.Config.BaseFor(sandbox.Docker)
		base.Limits.Processes = 17
		shut(t, r.open(t, SessionOptions{Base: &base}))
		stocked(t, r, sandbox.Docker, 2)
		s := r.open(t, SessionOptions{Base: &base})
		if got := s.latest().limits.Processes; got != 17 {
			t.Errorf("it got the limits of another base: %d processes", got)
		}
		if status := stocked(t, r, sandbox.Docker, 2); status.Cold != 1 || status.Warm != 1 {
			t.Errorf("%+v", status)
		}
		time.Sleep(askedFor + 2*poolRhythm)
		stocked(t, r, sandbox.Docker, 1)
	})
}

// A prepared instance that died is never handed out and is replaced.
func TestPoolDeath(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, warm)
		stocked(t, r, sandbox.Docker, 1)
		time.Sleep(young)
		if !r.docker.Lose("", sandbox.Ending{Cause: sandbox.Killed, Detail: "killed by the test"}) {
			t.Fatal("nothing was there to lose")
		}
		status := stocked(t, r, sandbox.Docker, 1)
		if status.Lost != 1 || r.docker.Prepares() != 2 {
			t.Errorf("after a death: %+v, %d prepared", status, r.docker.Prepares())
		}
		result, _ := run(t, r.open(t, SessionOptions{}), RunRequest{}, Print("x"))
		want(t, result, sandbox.OK, wire.StateKept)
		if left := r.homes(t); len(left) != 2 { // the session's and the next one's
			t.Errorf("directories: %v", left)
		}
	})
}

// faulty is a backend whose Prepare or Bind fails while a test says so.
type faulty struct {
	*Memory
	prepare, bind atomic.Pointer[error]
	tried         atomic.Int64
}

func (f *faulty) Prepare(ctx context.Context, base sandbox.Base, workspace string) (sandbox.Prepared, error) {
	f.tried.Add(1)
	if err := f.prepare.Load(); err != nil {
		return nil, *err
	}
	p, err := f.Memory.Prepare(ctx, base, workspace)
	if err != nil {
		return nil, err
	}
	return &faultyPrepared{p, f.bind.Load()}, nil
}

type faultyPrepared struct {
	sandbox.Prepared
	fails *error
}

func (p *faultyPrepared) Bind(ctx context.Context, claim sandbox.Claim) (sandbox.Instance, error) {
	if p.fails != nil {
		return nil, *p.fails
	}
	return p.Prepared.Bind(ctx, claim)
}

// A start that fails is tried again ever more seldom, says why, and is found to work again.
func TestPoolBacksOff(t *testing.T) {
	bubble(t, func(t *testing.T) {
		broken := errors.New("the engine is out of order")
		f := &faulty{Memory: NewMemory(pretended(sandbox.Docker))}
		f.prepare.Store(&broken)
		r := newRig(t, warm, func(o *Options) {
			o.Config.Pool.Docker = 3
			o.Backends = []sandbox.Backend{f, NewMemory(pretended(sandbox.Host))}
		})
		time.Sleep(10 * time.Minute)
		status := stocked(t, r, sandbox.Docker, 0)
		if tried := f.tried.Load(); tried < 10 || tried > 40 || status.Failed != tried {
			t.Errorf("tried %d times in ten minutes: %+v", tried, status)
		}
		if s := status.Shelves; len(s) != 1 || s[0].Reason != broken.Error() || s[0].Retry <= 0 {
			t.Errorf("it does not say what is wrong: %+v", status)
		}
		f.prepare.Store(nil)
		time.Sleep(retryMost + poolRhythm)
		if s := stocked(t, r, sandbox.Docker, 3).Shelves; s[0].Reason != "" || s[0].Retry != 0 {
			t.Errorf("after it works again: %+v", s)
		}
	})
}

// An instance that dies as soon as it is ready is not made in a loop.
func TestPoolDyingAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, warm)
		for end := time.Now().Add(10 * time.Minute); time.Now().Before(end); time.Sleep(time.Second) {
			r.docker.Lose("", sandbox.Ending{Cause: sandbox.Killed, Detail: "killed by the test"})
			synctest.Wait()
		}
		if n := r.docker.Prepares(); n > 40 {
			t.Errorf("%d instances were made in ten minutes", n)
		}
	})
}

// What goes wrong with a prepared instance is nothing the session hears of.
func TestPoolBindFails(t *testing.T) {
	bubble(t, func(t *testing.T) {
		no := errors.New("it does not answer")
		f := &faulty{Memory: NewMemory(pretended(sandbox.Docker))}
		f.bind.Store(&no)
		r := newRig(t, warm, func(o *Options) { o.Backends = []sandbox.Backend{f, NewMemory(pretended(sandbox.Host))} })
		stocked(t, r, sandbox.Docker, 1)
		f.bind.Store(nil)
		result, _ := run(t, r.open(t, SessionOptions{}), RunRequest{}, Print("x"))
		want(t, result, sandbox.OK, wire.StateKept)
		status := r.PoolStatus()
		if status.Unbound != 1 || status.Warm != 0 || status.Cold != 1 {
			t.Errorf("%+v", status)
		}
		stocked(t, r, sandbox.Docker, 1)
		if n := f.Instances(); n != 2 { // the session's, and the next one
			t.Errorf("%d instances live", n)
		}
	})
}

func TestPoolAge(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, warm)
		stocked(t, r, sandbox.Docker, 1)
		time.Sleep(spareAge - time.Second)
		if stocked(t, r, sandbox.Docker, 1); r.docker.Prepares() != 1 {
			t.Errorf("replaced too early")
		}
		time.Sleep(2 * time.Second)
		if status := stocked(t, r, sandbox.Docker, 1); status.Expired != 1 || r.docker.Prepares() != 2 {
			t.Errorf("%+v", status)
		}
	})
}

// Another configuration drains what was prepared for the one before.
func TestPoolReconfigure(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, warm)
		stocked(t, r, sandbox.Docker, 1)
		c := r.options.Config
		c.Limits.Memory, c.Pool.Docker = 2<<30, 2
		if err := r.Reconfigure(c); err != nil {
			t.Fatal(err)
		}
		if status := stocked(t, r, sandbox.Docker, 2); status.Drained != 1 || len(status.Shelves) != 1 {
			t.Errorf("%+v", status)
		}
		if got := r.open(t, SessionOptions{}).latest().limits.Memory; got != 2<<30 {
			t.Errorf("a session got %d bytes of memory", got)
		}
		stocked(t, r, sandbox.Docker, 2)
		c.Pool.Docker = 0
		if err := r.Reconfigure(c); err != nil {
			t.Fatal(err)
		}
		stocked(t, r, sandbox.Docker, 0)
		c.Limits.Memory = 1
		if err := r.Reconfigure(c); err == nil {
			t.Error("an invalid configuration was put in force")
		}
	})
}

// With the engine goes what was prepared on it; the step down is warmed, and the
// engine again when it is back.
func TestPoolEngineLost(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, warm)
		stocked(t, r, sandbox.Docker, 1)
		r.docker.SetUnavailable(&sandbox.Unavailable{Backend: sandbox.Docker, Code: "engine-absent", Reason: "gone for a test"})
		time.Sleep(2 * poolRhythm)
		stocked(t, r, sandbox.Docker, 0)
		stocked(t, r, sandbox.Host, 1)
		if s := r.open(t, SessionOptions{}); s.Posture().Backend != sandbox.Host {
			t.Errorf("it runs on %s", s.Posture().Backend)
		}
		r.docker.SetUnavailable(nil)
		time.Sleep(2 * poolRhythm)
		stocked(t, r, sandbox.Docker, 1)
		stocked(t, r, sandbox.Host, 0)
	})
}

// A prepared instance is judged when it is handed out, not when it was made.
func TestPoolJudges(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var accepted atomic.Bool
		accepted.Store(true)
		open := []sandbox.LayerID{sandbox.FSWrite, sandbox.FSRead, sandbox.SyscallFilter}
		docker := hopeful{NewMemory(pretended(sandbox.Docker, open...))}
		r := newRig(t, warm, func(o *Options) {
			o.Acknowledged = accepted.Load
			o.Backends = []sandbox.Backend{docker, NewMemory(pretended(sandbox.Host))}
		})
		stocked(t, r, sandbox.Docker, 1)
		shut(t, r.open(t, SessionOptions{})) // the control
		if status := stocked(t, r, sandbox.Docker, 1); status.Warm != 1 {
			t.Fatalf("control: %+v", status)
		}
		accepted.Store(false)
		var refused *RefusedError
		if _, err := r.Open(context.Background(), SessionOptions{}); !errors.As(err, &refused) || refused.Code != CodeUnacknowledged {
			t.Errorf("without the acceptance: %v", err)
		}
		if status := stocked(t, r, sandbox.Docker, 1); status.Warm != 1 || docker.Instances() != 1 {
			t.Errorf("after the refusal: %+v, %d instances", status, docker.Instances())
		}
	})
}

// hopeful forecasts more than its instances enforce.
type hopeful struct{ *Memory }

func (hopeful) Capabilities(context.Context, sandbox.Base) ([]sandbox.Layer, error) {
	return EnforcedLayers(), nil
}

// Without Options.Warm nothing is prepared ahead.
func TestPoolOff(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t)
		shut(t, r.open(t, SessionOptions{}))
		time.Sleep(time.Hour)
		if n := r.docker.Prepares(); n != 1 || r.PoolStatus().On {
			t.Errorf("%d instances were prepared", n)
		}
	})
}
