package sandboxtest

import (
	"context"
	"fmt"
	"testing"
	"time"

	"brig/orchestrator/sandbox"
	"brig/orchestrator/wire"
)

// Factory tells the suite how to make and observe instances of one backend.
type Factory struct {
	// New makes the backend; the suite closes it.
	New func(t testing.TB) sandbox.Backend
	// Workspace makes an empty directory with the ownership that the backend
	// needs, gone at the end of t. Nil means t.TempDir.
	Workspace func(t testing.TB) string
	// Base is used for every instance; cases that need tight limits change a copy.
	Base sandbox.Base
	// Python says that programs run in a real interpreter on a real kernel. Cases
	// about what only those can show are left out without it.
	Python bool
	// ListsDescriptors says that the kernel lets a program list the numbers of a
	// protected process's descriptors, though open none of them. gVisor does.
	ListsDescriptors bool
	// Tree lists the living processes of an instance as an observer outside of it
	// sees them. It is called while the instance lives.
	Tree func(t testing.TB, i sandbox.Instance) []Process
	// Alive tells whether a process that Tree listed still lives; it is called
	// after the instance was closed, too.
	Alive func(t testing.TB, i sandbox.Instance, p Process) bool
	// Lose kills a living instance from outside, behind the backend's back.
	Lose func(t testing.TB, i sandbox.Instance)
	// Owner is whose instances the backend makes, for Sweep.
	Owner string
	// Later makes the backend of a later brig of the same owner on the same machine,
	// as after a restart; the suite closes it. A backend that is a sandbox.Adopter
	// needs it.
	Later func(t testing.TB, earlier sandbox.Backend) sandbox.Backend
	// LosePrepared does the same to one that no session has yet.
	LosePrepared func(t testing.TB, p sandbox.Prepared)
	// Count tells how many instances the backend has now, prepared or bound, seen
	// from outside. Nil leaves out the checks that need it.
	Count func(t testing.TB, b sandbox.Backend) int
}

// patience is how long the suite waits for what must happen promptly. It is no
// assertion about time: it is there so that a hanging backend fails with a
// message instead of a dump of every goroutine.
const patience = 30 * time.Second

// Run is the conformance suite. Every backend passes all of it.
func Run(t *testing.T, f Factory) {
	t.Helper()
	CheckGoroutines(t)
	s := &suite{f: f, t: t}
	s.sharedWorkspace = s.workspace(t)
	s.backend = f.New(t)
	t.Cleanup(s.close)
	if _, ok := s.backend.(sandbox.Adopter); ok && (f.Later == nil || f.Owner == "") {
		t.Fatal("a backend that is a sandbox.Adopter needs Later and Owner in its Factory")
	}
	if f.LosePrepared == nil {
		t.Fatal("the Factory cannot lose what is prepared")
	}
	s.prepareEarly(t)

	for _, group := range []struct {
		name  string
		cases []testCase
	}{
		{"Backend", backendCases()},
		{"Program", programCases()},
		{"Output", outputCases()},
		{"Bounds", boundCases()},
		{"Ends", endCases()},
		{"Interrupt", interruptCases()},
		{"Tree", treeCases()},
		{"Inside", insideCases()},
		{"Files", fileCases()},
		{"State", stateCases()},
		{"Lifecycle", lifecycleCases()},
		{"Loss", lossCases()},
		{"Once", onceCases()},
		{"Keep", keepCases()},
		{"Meter", meterCases()},
		{"Prepared", preparedCases()}, // last: what it binds has waited since the start
	} {
		t.Run(group.name, func(t *testing.T) {
			for _, c := range group.cases {
				t.Run(c.name, func(t *testing.T) {
					if c.python && !f.Python {
						t.Logf("left out: it is about a real interpreter and kernel, which this backend does not have")
						return
					}
					if _, ok := s.backend.(sandbox.Adopter); c.adopter && !ok {
						t.Log("left out: this backend cannot keep an instance beyond its brig")
						return
					}
					c.run(t, s)
				})
			}
		})
	}
}

// testCase is one subtest. python marks what a fake cannot show, adopter what
// only a sandbox.Adopter can.
type testCase struct {
	name    string
	python  bool
	adopter bool
	run     func(t *testing.T, s *suite)
}

// suite is what the cases share: the backend, and one instance for all cases
// that do not need one of their own.
type suite struct {
	f               Factory
	t               *testing.T
	backend         sandbox.Backend
	shared          *box
	sharedWorkspace string // outlives every case
	made            int
	early           *waiting // nil: it was bound
}

func (s *suite) close() {
	t := s.t
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if s.early != nil {
		if err := s.early.Close(ctx); err != nil {
			t.Errorf("close the instance that waited: %v", err)
		}
	}
	if s.shared != nil {
		if err := s.shared.Close(ctx); err != nil {
			t.Errorf("close the shared instance: %v", err)
		}
	}
	if err := s.backend.Close(ctx); err != nil {
		t.Errorf("close the backend: %v", err)
	}
}

func (s *suite) workspace(t testing.TB) string {
	if s.f.Workspace == nil {
		return t.TempDir()
	}
	return s.f.Workspace(t)
}

// box is an instance under test with its workspace.
type box struct {
	sandbox.Instance
	workspace string
	runs      int
}

// nextID is a run id that was not used yet on this instance.
func (b *box) nextID() wire.RunID {
	b.runs++
	return wire.RunID(fmt.Sprintf("run-%d", b.runs))
}

// prepare starts an instance and binds it; the caller closes it.
func (s *suite) prepare(ctx context.Context, base sandbox.Base, workspace string, id sandbox.InstanceID) (*box, error) {
	p, err := s.backend.Prepare(ctx, base, workspace)
	if err != nil {
		return nil, fmt.Errorf("prepare: %w", err)
	}
	i, err := p.Bind(ctx, sandbox.Claim{ID: id, Session: string(id), Workspace: workspace})
	if err != nil {
		return nil, fmt.Errorf("bind: %w", joinClose(ctx, err, p))
	}
	return &box{Instance: i, workspace: workspace}, nil
}

// joinClose closes what err left behind and keeps err.
func joinClose(ctx context.Context, err error, p sandbox.Prepared) error {
	if cerr := p.Close(ctx); cerr != nil {
		return fmt.Errorf("%w (and close: %v)", err, cerr)
	}
	return err
}

func (s *suite) newID() sandbox.InstanceID {
	s.made++
	return sandbox.InstanceID(fmt.Sprintf("suite%x-%d", time.Now().UnixNano(), s.made))
}

// own gives the case an instance of its own, closed when the case ends.
func (s *suite) own(t *testing.T) *box {
	t.Helper()
	return s.ownWith(t, s.f.Base)
}

func (s *suite) ownWith(t *testing.T, base sandbox.Base) *box {
	t.Helper()
	ctx := limited(t)
	b, err := s.prepare(ctx, base, s.workspace(t), s.newID())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.mustClose(t) })
	return b
}

func (b *box) mustClose(t testing.TB) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := b.Close(ctx); err != nil {
		t.Errorf("close: %v", err)
	}
}

// any gives the case the shared instance, or a new one if the last was lost.
func (s *suite) any(t *testing.T) *box {
	t.Helper()
	if s.shared != nil {
		select {
		case <-s.shared.Done():
			t.Logf("the shared instance is gone: %+v", s.shared.Cause())
			s.shared.mustClose(t)
			s.shared, s.sharedWorkspace = nil, s.workspace(s.t)
		default:
		}
	}
	if s.shared == nil {
		b, err := s.prepare(limited(t), s.f.Base, s.sharedWorkspace, s.newID())
		if err != nil {
			t.Fatal(err)
		}
		s.shared = b
	}
	return s.shared
}

// limited is a context that ends with the test or when patience is over.
func limited(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}
