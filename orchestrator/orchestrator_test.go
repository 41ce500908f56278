package orchestrator

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"brig/orchestrator/config"
	"brig/orchestrator/sandbox"
	. "brig/orchestrator/sandbox/sandboxtest"
	"brig/orchestrator/wire"
)

func engineGone() *sandbox.Unavailable {
	u := &sandbox.Unavailable{}
	if !errors.As(absent(sandbox.Docker).Err, &u) {
		panic("BUG: absent is not unavailable")
	}
	return u
}

func TestDegradesRecoversAndSaysSo(t *testing.T) {
	bubble(t, func(t *testing.T) {
		rig := newRig(t)
		rig.docker.SetUnavailable(engineGone())
		s := rig.open(t, SessionOptions{})
		r, _ := run(t, s, RunRequest{}, Print("hi"))
		want(t, r, sandbox.OK, wire.StateKept)
		if r.Stamp.Backend != sandbox.Host || r.Stamp.Configured != sandbox.Docker || !r.Stamp.Degraded {
			t.Errorf("stamp %+v", r.Stamp)
		}
		if line := r.Stamp.Line(); !strings.HasPrefix(line, "brig: host · degraded: docker engine not reachable at unix:///var/run/docker.sock: nothing listens there · contained") {
			t.Errorf("stamp line %q", line)
		}
		sentences := Warnings(s.Resolution(), s.Posture())
		if len(sentences) != 1 || sentences[0] != "degraded: docker engine not reachable at unix:///var/run/docker.sock: nothing listens there" {
			t.Errorf("warnings %q", sentences)
		}

		// The engine comes back: new sessions use it, the old one stays where it is.
		rig.docker.SetUnavailable(nil)
		time.Sleep(badFor)
		back := rig.open(t, SessionOptions{})
		if got := back.Resolution(); got.Resolved != sandbox.Docker || got.Degraded {
			t.Errorf("after recovery: %+v", got)
		}
		if r, _ := run(t, s, RunRequest{}, Print("hi")); r.Stamp.Backend != sandbox.Host {
			t.Errorf("an open session moved: %+v", r.Stamp)
		}
	})
}

// A session that lost its engine goes on where the resolution now points, and every result says so.
func TestReplacementIsResolvedAnew(t *testing.T) {
	bubble(t, func(t *testing.T) {
		rig := newRig(t)
		s := rig.open(t, SessionOptions{})
		named := rig.open(t, SessionOptions{Backend: sandbox.Docker})
		rig.docker.SetUnavailable(engineGone())
		for _, s := range []*Session{s, named} {
			rig.docker.Lose(s.latest().instance.ID(), sandbox.Ending{Cause: sandbox.BackendLost, Detail: "the engine went away"})
		}
		r, _ := run(t, s, RunRequest{}, Print("hi"))
		want(t, r, sandbox.OK, wire.StateLost)
		if r.Stamp.Backend != sandbox.Host || !r.Stamp.Degraded || !strings.Contains(r.Detail, "the engine went away") {
			t.Errorf("%+v", r)
		}
		// Whoever named the backend gets it or nothing.
		_, err := named.Run(t.Context(), RunRequest{}, nil)
		var refused *RefusedError
		if !errors.As(err, &refused) || refused.Code != "engine-absent" || named.State() != StateLost {
			t.Errorf("got %v in %s", err, named.State())
		}
		rig.docker.SetUnavailable(nil)
		time.Sleep(badFor)
		again(t, named, "the engine went away")
	})
}

func TestResolveAsksOnlyWhatItNeeds(t *testing.T) {
	bubble(t, func(t *testing.T) {
		rig := newRig(t)
		docker, host := &counting{Backend: rig.docker}, &counting{Backend: rig.host}
		o, err := New(Options{Backends: []sandbox.Backend{docker, host}, Config: rig.options.Config, Paths: rig.options.Paths, Owner: rig.options.Owner})
		if err != nil {
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		for range 20 {
			wg.Go(func() {
				if r, err := o.Resolve(t.Context(), ""); err != nil || r.Resolved != sandbox.Docker {
					t.Errorf("%+v, %v", r, err)
				}
			})
		}
		wg.Wait()
		if docker.n.Load() != 1 || host.n.Load() != 0 {
			t.Errorf("%d and %d probes for 20 questions", docker.n.Load(), host.n.Load())
		}
		time.Sleep(goodFor)
		rig.docker.SetUnavailable(engineGone())
		for range 3 {
			if r, err := o.Resolve(t.Context(), ""); err != nil || !r.Degraded {
				t.Errorf("%+v, %v", r, err)
			}
		}
		if docker.n.Load() != 2 || host.n.Load() != 1 {
			t.Errorf("%d and %d probes", docker.n.Load(), host.n.Load())
		}
		time.Sleep(badFor)
		rig.docker.SetUnavailable(nil)
		if r, err := o.Resolve(t.Context(), ""); err != nil || r.Degraded {
			t.Errorf("a bad answer was believed for too long: %+v, %v", r, err)
		}

		// A slow engine: the other one is asked meanwhile, and one wait is enough.
		time.Sleep(goodFor)
		rig.docker.SetUnavailable(engineGone())
		docker.delay, host.delay = 3*time.Second, 2*time.Second
		begin := time.Now()
		if r, err := o.Resolve(t.Context(), ""); err != nil || !r.Degraded {
			t.Errorf("%+v, %v", r, err)
		}
		within(t, "resolving", time.Since(begin), 3*time.Second, 3*time.Second)

		// One that hangs is given up, and whoever does not want to wait need not.
		time.Sleep(goodFor)
		docker.delay = time.Hour
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		begin = time.Now()
		if _, err := o.Resolve(ctx, ""); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("resolve: %v", err)
		}
		within(t, "giving up", time.Since(begin), time.Second, time.Second)
		if r, err := o.Resolve(t.Context(), ""); err != nil || !r.Degraded || r.Refusals[0].Code != CodeCouldNotTell {
			t.Errorf("%+v, %v", r, err)
		}
		// The other one is asked once more: its first answer is too old by then.
		within(t, "the bound", time.Since(begin), probeBound, probeBound+host.delay)
		if err := o.Close(t.Context()); err != nil {
			t.Error(err)
		}
		if _, err := o.Resolve(t.Context(), ""); !errors.Is(err, ErrClosed) {
			t.Errorf("after close: %v", err)
		}
	})
}

// counting is a backend that counts its probes and can be slow to answer them.
type counting struct {
	sandbox.Backend
	n     atomic.Int32
	delay time.Duration
}

func (c *counting) Probe(ctx context.Context) (sandbox.Facts, error) {
	c.n.Add(1)
	timer := time.NewTimer(c.delay)
	defer timer.Stop()
	select {
	case <-timer.C:
		return c.Backend.Probe(ctx)
	case <-ctx.Done():
		return sandbox.Facts{}, context.Cause(ctx)
	}
}

// believing answers its probe whatever its backend would say, as an engine does
// that goes away right after it.
type believing struct{ *Memory }

func (believing) Probe(context.Context) (sandbox.Facts, error) { return sandbox.Facts{}, nil }

func TestBackendThatGoesAwayWhileOpening(t *testing.T) {
	bubble(t, func(t *testing.T) {
		rig := newRig(t)
		rig.docker.SetUnavailable(engineGone())
		// It still answers, but makes no instance: the next one is used, for that reason.
		o, err := New(Options{Backends: []sandbox.Backend{believing{rig.docker}, rig.host}, Config: rig.options.Config, Paths: rig.options.Paths, Owner: rig.options.Owner})
		if err != nil {
			t.Fatal(err)
		}
		stepped, err := o.Open(t.Context(), SessionOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if r := stepped.Resolution(); r.Resolved != sandbox.Host || !r.Degraded || r.Refusals[0].Code != "engine-absent" {
			t.Errorf("%+v", r)
		}
		if err := stepped.Close(t.Context()); err != nil {
			t.Error(err)
		}
		// A backend that was asked for by name is used or nothing is.
		_, err = o.Open(t.Context(), SessionOptions{Backend: sandbox.Docker})
		var gone *sandbox.Unavailable
		var refused *RefusedError
		if !errors.As(err, &gone) && !errors.As(err, &refused) {
			t.Errorf("got %v", err)
		}
		if err := o.Close(t.Context()); err != nil {
			t.Error(err)
		}

		// It does not: the probe of a moment ago is not held against it.
		rig.docker.SetUnavailable(nil)
		if r, err := rig.Resolve(t.Context(), ""); err != nil || r.Resolved != sandbox.Docker {
			t.Fatalf("%+v, %v", r, err)
		}
		rig.docker.SetUnavailable(engineGone())
		s := rig.open(t, SessionOptions{})
		if r := s.Resolution(); r.Resolved != sandbox.Host || !r.Degraded {
			t.Errorf("%+v", r)
		}
		left, err := os.ReadDir(filepath.Join(rig.options.Paths.Data, homesDir))
		if err != nil || len(left) != 1 {
			t.Errorf("%d session directories, %v", len(left), err)
		}
	})
}

// unready is a backend whose forecast or whose start fails.
type unready struct {
	*Memory
	forecast, start error
}

func (u unready) Capabilities(ctx context.Context, base sandbox.Base) ([]sandbox.Layer, error) {
	if u.forecast != nil {
		return nil, u.forecast
	}
	return u.Memory.Capabilities(ctx, base)
}

func (u unready) Prepare(ctx context.Context, base sandbox.Base, workspace string) (sandbox.Prepared, error) {
	if u.start != nil {
		return nil, u.start
	}
	return u.Memory.Prepare(ctx, base, workspace)
}

// What a page says before a run and what the run then does is the same, and a
// mistake in the settings never moves code to another backend.
func TestPagesAndRunsAgree(t *testing.T) {
	docker, host := func() *Memory { return NewMemory(pretended(sandbox.Docker)) }, func() *Memory { return NewMemory(pretended(sandbox.Host)) }
	mistake := misset().Err
	loopback := &sandbox.Unavailable{Backend: sandbox.Host, Code: "host-network-loopback", Reason: "host.network is loopback", Remedy: "brig config show host.network"}
	noImage := &sandbox.Unavailable{Backend: sandbox.Docker, Code: "image-not-built", Reason: "the runner image could not be built", Remedy: "brig image build"}
	gone := NewMemory(pretended(sandbox.Docker))
	gone.SetUnavailable(engineGone())
	for _, c := range []struct {
		name         string
		docker, host sandbox.Backend
		forecast     string // code of the refusal that Resolve makes; empty: none
		kind         sandbox.Kind
		opens        string // the same of Open
		met          int
	}{
		{"control", docker(), host(), "", sandbox.Docker, "", 0},
		{"a mistake that the forecast finds", unready{docker(), mistake, nil}, host(), "runtime-missing", "", "runtime-missing", 1},
		{"a mistake that the start finds", unready{docker(), nil, mistake}, host(), "", sandbox.Docker, "runtime-missing", 1},
		{"an image that the start cannot make", unready{docker(), nil, noImage}, host(), "", sandbox.Docker, "", 0},
		{"an image that the forecast misses", unready{docker(), noImage, nil}, host(), "", sandbox.Host, "", 0},
		{"a host that cannot do what the settings ask for", gone, unready{host(), loopback, nil}, "host-network-loopback", "", "host-network-loopback", 2},
		{"a host that could not be asked", gone, unready{host(), errNoSpace, nil}, CodeCouldNotTell, "", CodeCouldNotTell, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			rig := newRig(t, func(o *Options) { o.Backends = []sandbox.Backend{c.docker, c.host} })
			code := func(e *RefusedError) string {
				if e == nil {
					return ""
				}
				return e.Code
			}
			r, err := rig.Resolve(t.Context(), "")
			if err != nil || code(r.Err) != c.forecast || r.Resolved != c.kind {
				t.Fatalf("resolve: %+v, %v", r, err)
			}
			s, err := rig.Open(t.Context(), SessionOptions{})
			var refused *RefusedError
			if errors.As(err, &refused); code(refused) != c.opens || (err == nil) != (c.opens == "") {
				t.Fatalf("open: %v", err)
			}
			if err != nil {
				if len(refused.Met) != c.met || refused.Remedy != refused.Met[c.met-1].Remedy || !strings.Contains(refused.Reason, refused.Met[0].Reason) {
					t.Errorf("refused: %+v", refused)
				}
				return
			}
			shut(t, s)
		})
	}
}

// A start that fails for no reason of the backend's own still says how it came there.
func TestStepDownIsInTheError(t *testing.T) {
	gone := NewMemory(pretended(sandbox.Docker))
	gone.SetUnavailable(engineGone())
	rig := newRig(t, func(o *Options) {
		o.Backends = []sandbox.Backend{gone, unready{NewMemory(pretended(sandbox.Host)), nil, errNoSpace}}
	})
	_, err := rig.Open(t.Context(), SessionOptions{})
	if !errors.Is(err, errNoSpace) || !strings.HasPrefix(err.Error(), "start the host sandbox, used because docker engine not reachable at ") {
		t.Errorf("got %v", err)
	}
}

// overstating forecasts more than its instances enforce.
type overstating struct{ *Memory }

func (overstating) Capabilities(context.Context, sandbox.Base) ([]sandbox.Layer, error) {
	return EnforcedLayers(), nil
}

func TestEvidenceDecidesOverForecast(t *testing.T) {
	bare := []sandbox.LayerID{sandbox.FSWrite, sandbox.FSRead, sandbox.SyscallFilter}
	for _, c := range []struct {
		name         string
		mode         sandbox.Mode
		except       []sandbox.LayerID
		acknowledged bool
		code         string
	}{
		{"whole", sandbox.ModeRequire, nil, false, ""},
		{"a gap in best-effort", sandbox.ModeBestEffort, []sandbox.LayerID{sandbox.TreeKill}, false, ""},
		{"a gap in require", sandbox.ModeRequire, []sandbox.LayerID{sandbox.TreeKill}, false, CodeIncomplete},
		{"nothing", sandbox.ModeBestEffort, bare, false, CodeUnacknowledged},
		{"nothing, acknowledged", sandbox.ModeBestEffort, bare, true, ""},
		{"off", sandbox.ModeOff, bare, false, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			backend := NewMemory(pretended(sandbox.Host, c.except...))
			rig := newRig(t, func(o *Options) {
				o.Backends = []sandbox.Backend{overstating{backend}}
				o.Config.Execution.Backend, o.Config.Host.Sandbox = sandbox.Host, c.mode
				o.Acknowledged = func() bool { return c.acknowledged }
			})
			if r, err := rig.Resolve(t.Context(), ""); err != nil || r.Err != nil || r.Weakened != (c.mode == sandbox.ModeOff) {
				t.Fatalf("control, the forecast: %+v, %v", r, err)
			}
			s, err := rig.Open(t.Context(), SessionOptions{})
			if c.code != "" {
				var refused *RefusedError
				if !errors.As(err, &refused) || refused.Code != c.code {
					t.Fatalf("got %v, want %s", err, c.code)
				}
				if backend.Prepares() == 0 || backend.Instances() != 0 {
					t.Errorf("%d instances of %d are left", backend.Instances(), backend.Prepares())
				}
				left, err := os.ReadDir(filepath.Join(rig.options.Paths.Data, homesDir))
				if err != nil || len(left) != 0 {
					t.Errorf("%d session directories are left, %v", len(left), err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			defer shut(t, s)
			r, _ := run(t, s, RunRequest{}, Print("hi"))
			if weak := len(c.except) > 0; s.Resolution().Weakened != (weak || c.mode == sandbox.ModeOff) || (len(r.Stamp.Weakened) > 0) != weak {
				t.Errorf("resolution %+v, stamp %+v", s.Resolution(), r.Stamp)
			}
			if exposed := c.mode == sandbox.ModeOff || c.acknowledged; r.Stamp.Uncontained != exposed {
				t.Errorf("stamp %+v", r.Stamp)
			}
		})
	}
}

func TestRefusalStartsNothing(t *testing.T) {
	rig := newRig(t, func(o *Options) { o.Config.Execution.Fallback = config.None })
	rig.docker.SetUnavailable(engineGone())
	_, err := rig.Open(t.Context(), SessionOptions{})
	var refused *RefusedError
	if !errors.As(err, &refused) || !strings.HasSuffix(err.Error(), "execution.fallback is none; try: sudo systemctl start docker") {
		t.Errorf("got %v", err)
	}
	if _, err := os.Stat(rig.options.Paths.Data); err == nil {
		t.Error("a refusal left something on disk")
	}
	if rig.docker.Prepares()+rig.host.Prepares() != 0 {
		t.Error("a refusal started an instance")
	}
}

func TestSessionsAreLimitedAndParallel(t *testing.T) {
	bubble(t, func(t *testing.T) {
		rig := newRig(t, func(o *Options) { o.Config.Limits.Sessions = 2 })
		a, b := rig.open(t, SessionOptions{Name: "a"}), rig.open(t, SessionOptions{Name: "b"})
		if _, err := rig.Open(t.Context(), SessionOptions{}); !errors.Is(err, ErrTooMany) {
			t.Errorf("a third: %v", err)
		}
		begin := time.Now()
		one := start(t.Context(), a, RunRequest{}, Set("x", 1), Sleep(time.Second))
		two := start(t.Context(), b, RunRequest{}, Set("x", 2), Sleep(time.Second))
		for _, r := range []Result{one.wait(t), two.wait(t)} {
			want(t, r, sandbox.OK, wire.StateKept)
		}
		within(t, "both", time.Since(begin), time.Second, time.Second)
		for s, x := range map[*Session]string{a: "1\n", b: "2\n"} {
			if _, out := run(t, s, RunRequest{}, Show("x")); out != x {
				t.Errorf("x is %q, want %q", out, x)
			}
		}
		if a.home.workspace == b.home.workspace {
			t.Error("two sessions share a workspace")
		}
		shut(t, a)
		rig.open(t, SessionOptions{})
	})
}

func TestNewRefusesNonsense(t *testing.T) {
	rig := newRig(t)
	if _, err := New(Options{}); err == nil {
		t.Error("made without an owner")
	}
	if _, err := New(Options{Owner: rig.options.Owner, Backends: []sandbox.Backend{rig.host, rig.host}}); err == nil {
		t.Error("made with two of a kind")
	}
}

func TestColdInstanceIsReplacedOnce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		warm := &warming{Memory: NewMemory(pretended(sandbox.Docker)), cold: 1, dir: t.TempDir()}
		rig := newRig(t, func(o *Options) { o.Backends = []sandbox.Backend{warm} })
		s := rig.open(t, SessionOptions{})
		run(t, s, RunRequest{}, WriteFile("here", "x"))
		if _, err := os.Stat(filepath.Join(s.home.workspace, "here")); err != nil {
			t.Errorf("the instance has another workspace: %v", err)
		}
		warm.cold = 2
		if _, err := rig.Open(t.Context(), SessionOptions{}); !errors.Is(err, sandbox.ErrCold) {
			t.Errorf("a backend that never fits: %v", err)
		}
		synctest.Wait()
		if warm.Instances() != 1 {
			t.Errorf("%d instances", warm.Instances())
		}
	})
}

// warming hands out instances of its own first, like a pool.
type warming struct {
	*Memory
	cold int
	dir  string
}

func (w *warming) Prepare(ctx context.Context, base sandbox.Base, workspace string) (sandbox.Prepared, error) {
	if w.cold > 0 {
		w.cold--
		workspace = w.dir
	}
	return w.Memory.Prepare(ctx, base, workspace)
}
