package orchestrator

import (
	"bytes"
	"context"
	"testing"
	"testing/synctest"
	"time"

	"brig/orchestrator/config"
	"brig/orchestrator/owner"
	"brig/orchestrator/sandbox"
	"brig/orchestrator/sandbox/sandboxtest"
	"brig/orchestrator/wire"
)

// rig is an orchestrator over in-memory backends, in directories of its own.
type rig struct {
	*Orchestrator
	options Options
	docker  *sandboxtest.Memory
	host    *sandboxtest.Memory
}

// pretended is a backend that claims to enforce everything but some layers.
func pretended(kind sandbox.Kind, except ...sandbox.LayerID) sandboxtest.MemoryOptions {
	return sandboxtest.MemoryOptions{Kind: kind, Layers: sandboxtest.EnforcedLayers(except...), Promised: CorePromise()}
}

// newRig makes docker and host available; edit may change the options before New.
func newRig(t testing.TB, edit ...func(*Options)) *rig {
	t.Helper()
	dir := t.TempDir()
	own, err := owner.Open(dir + "/state")
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{
		docker: sandboxtest.NewMemory(pretended(sandbox.Docker)),
		host:   sandboxtest.NewMemory(pretended(sandbox.Host)),
	}
	r.options = Options{
		Config: config.Default(), Owner: own,
		Paths: config.Paths{State: dir + "/state", Data: dir + "/data"},
	}
	for _, f := range edit {
		f(&r.options)
	}
	if r.options.Backends == nil {
		r.options.Backends = []sandbox.Backend{r.docker, r.host}
	}
	if r.Orchestrator, err = New(r.options); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Close(context.Background()); err != nil {
			t.Errorf("close the orchestrator: %v", err)
		}
		if n := r.docker.Instances() + r.host.Instances(); n != 0 {
			t.Errorf("%d instances are left", n)
		}
		if err := own.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
}

// with replaces the docker backend by one of these options.
func with(o sandboxtest.MemoryOptions) func(*Options) {
	return func(options *Options) {
		options.Backends = []sandbox.Backend{sandboxtest.NewMemory(o), sandboxtest.NewMemory(pretended(sandbox.Host))}
	}
}

func (r *rig) open(t testing.TB, so SessionOptions) *Session {
	t.Helper()
	s, err := r.Open(context.Background(), so)
	if err != nil {
		t.Fatalf("open a session: %v", err)
	}
	t.Cleanup(func() { shut(t, s) })
	return s
}

func shut(t testing.TB, s *Session) {
	t.Helper()
	if err := s.Close(context.Background()); err != nil {
		t.Errorf("close a session: %v", err)
	}
	if got := s.State(); got != StateClosed {
		t.Errorf("closed session is %s", got)
	}
}

// output keeps what a run printed.
type output struct {
	stdout, stderr bytes.Buffer
	displays       int
}

func (o *output) emit(e wire.Event) error {
	switch e.Kind {
	case wire.EventStdout:
		o.stdout.Write(e.Data)
	case wire.EventStderr:
		o.stderr.Write(e.Data)
	case wire.EventDisplay:
		o.displays++
	}
	return nil
}

// run runs a program to its end and gives its standard output.
func run(t testing.TB, s *Session, req RunRequest, steps ...sandboxtest.Step) (Result, string) {
	t.Helper()
	req.Source = sandboxtest.Program(steps).Source()
	var out output
	r, err := s.Run(context.Background(), req, out.emit)
	if err != nil {
		t.Fatalf("run: %v", err)
	}
	return r, out.stdout.String()
}

// started is a run under way on a goroutine of its own.
type started struct {
	began  chan struct{} // closed with the first output
	result chan Result
	out    output
	err    error // set before result
}

func start(ctx context.Context, s *Session, req RunRequest, steps ...sandboxtest.Step) *started {
	a := &started{began: make(chan struct{}), result: make(chan Result, 1)}
	req.Source = sandboxtest.Program(append([]sandboxtest.Step{sandboxtest.Print("began")}, steps...)).Source()
	go func() {
		first := true
		r, err := s.Run(ctx, req, func(e wire.Event) error {
			if first {
				first = false
				close(a.began)
			}
			return a.out.emit(e)
		})
		a.err = err
		a.result <- r
	}()
	return a
}

func (a *started) wait(t testing.TB) Result {
	t.Helper()
	r := <-a.result
	if a.err != nil {
		t.Errorf("run: %v", a.err)
	}
	return r
}

// bubble runs a test in simulated time.
func bubble(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, f)
}

func want(t testing.TB, r Result, cause sandbox.Cause, state wire.State) {
	t.Helper()
	if r.Cause != cause || r.State != state {
		t.Errorf("cause %s (%s), state %s; want %s, %s", r.Cause, r.Detail, r.State, cause, state)
	}
	if r.Run == "" || r.Stamp.Backend == "" || r.Stamp.Session == "" || r.Stamp.Guard != "none" {
		t.Errorf("incomplete: %+v", r)
	}
}

// within checks a duration that only simulated time makes exact.
func within(t testing.TB, what string, got, least, most time.Duration) {
	t.Helper()
	if got < least || got > most {
		t.Errorf("%s took %s, want %s to %s", what, got, least, most)
	}
}
