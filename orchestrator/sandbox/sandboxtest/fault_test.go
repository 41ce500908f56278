package sandboxtest

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"testing"

	"brig/orchestrator/sandbox"
	"brig/orchestrator/wire"
)

// faultEnv names the fault that TestFaultyBackend puts into its backend.
const faultEnv = "BRIG_TEST_SUITE_FAULT"

// fault is one way in which a backend can be wrong, and the case that must say so.
type fault struct {
	name, noticed string
	spoil         func(*faulty)
}

func faults() []fault {
	return []fault{
		{name: "none"},
		{"posture without a layer", "Backend/PostureComplete", func(f *faulty) {
			f.posture = func(p sandbox.Posture) sandbox.Posture { p.Layers = p.Layers[1:]; return p }
		}},
		{"binds to any workspace", "Lifecycle/BindCold", func(f *faulty) { f.bindAny = true }},
		{"loses a byte", "Output/RandomBytes", func(f *faulty) {
			f.event = func(e *wire.Event) { e.Data = e.Data[:max(0, len(e.Data)-1)] }
		}},
		{"late output as the next run's", "Output/Late", func(f *faulty) {
			f.event = func(e *wire.Event) {
				if e.Late {
					e.Late, e.Run = false, f.running
				}
			}
		}},
		{"forgets gaps", "Bounds/BothStreams", func(f *faulty) {
			f.event = func(e *wire.Event) { e.Dropped = 0 }
		}},
		{"takes 137 for a signal", "Ends/Exit137IsExit", func(f *faulty) {
			f.exit = func(e *wire.Exit, _ *error) {
				if e.Status > 128 {
					e.Outcome, e.Signal, e.Status = wire.OutcomeSignal, e.Status-128, 0
				}
			}
		}},
		{"success of a lost run", "Loss/DuringARun", func(f *faulty) {
			f.exit = func(e *wire.Exit, err *error) {
				if lost := new(sandbox.Lost); errors.As(*err, &lost) {
					*e, *err = wire.Exit{Run: f.running, Outcome: wire.OutcomeOK, State: wire.StateKept}, nil
				}
			}
		}},
		{"accepts every interrupt", "Interrupt/AfterTheEnd", func(f *faulty) {
			f.interrupt = func(error) error { return nil }
		}},
	}
}

// faulty is a Memory with a fault.
type faulty struct {
	*Memory
	bindAny   bool
	running   wire.RunID
	posture   func(sandbox.Posture) sandbox.Posture
	event     func(*wire.Event)
	exit      func(*wire.Exit, *error)
	interrupt func(error) error
}

type faultyPrepared struct {
	sandbox.Prepared
	f *faulty
}

type faultyInstance struct {
	*memoryInstance
	f *faulty
}

func (f *faulty) Prepare(ctx context.Context, base sandbox.Base, workspace string) (sandbox.Prepared, error) {
	p, err := f.Memory.Prepare(ctx, base, workspace)
	if err != nil {
		return nil, err
	}
	return faultyPrepared{p, f}, nil
}

func (p faultyPrepared) Bind(ctx context.Context, c sandbox.Claim) (sandbox.Instance, error) {
	if p.f.bindAny {
		c.Workspace = p.Prepared.(*memoryPrepared).instance.node.workspace
	}
	i, err := p.Prepared.Bind(ctx, c)
	if err != nil {
		return nil, err
	}
	return faultyInstance{i.(*memoryInstance), p.f}, nil
}

func (i faultyInstance) Posture() sandbox.Posture {
	if i.f.posture == nil {
		return i.memoryInstance.Posture()
	}
	return i.f.posture(i.memoryInstance.Posture())
}

func (i faultyInstance) Run(ctx context.Context, req wire.Run, emit func(wire.Event) error) (wire.Exit, error) {
	i.f.running = req.ID
	exit, err := i.memoryInstance.Run(ctx, req, func(e wire.Event) error {
		if i.f.event != nil {
			i.f.event(&e)
		}
		return emit(e)
	})
	if i.f.exit != nil {
		i.f.exit(&exit, &err)
	}
	return exit, err
}

func (i faultyInstance) Interrupt(ctx context.Context, run wire.RunID, level wire.Level, sweep bool) error {
	err := i.memoryInstance.Interrupt(ctx, run, level, sweep)
	if i.f.interrupt != nil {
		return i.f.interrupt(err)
	}
	return err
}

// TestFaultyBackend is the child of TestSuiteNoticesFaults.
func TestFaultyBackend(t *testing.T) {
	name := os.Getenv(faultEnv)
	if name == "" {
		return
	}
	f := memoryFactory()
	f.New = func(testing.TB) sandbox.Backend {
		b := &faulty{Memory: NewMemory(MemoryOptions{})}
		for _, c := range faults() {
			if c.name == name && c.spoil != nil {
				c.spoil(b)
			}
		}
		return b
	}
	f.Lose = func(_ testing.TB, i sandbox.Instance) {
		i.(faultyInstance).node.lose(sandbox.Ending{Cause: sandbox.Killed, Detail: "killed by the test"})
	}
	Run(t, f)
}

// TestSuiteNoticesFaults runs single cases against backends that are wrong in
// one way: a suite that accepts them would be worth nothing. Each case has as
// its control the same backend without a fault.
func TestSuiteNoticesFaults(t *testing.T) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	run := func(t *testing.T, fault, name string) (passed bool, out []byte) {
		cmd := exec.CommandContext(t.Context(), exe, "-test.run", "^TestFaultyBackend$/^"+name+"$", "-test.v")
		cmd.Env = append(os.Environ(), faultEnv+"="+fault)
		out, err := cmd.CombinedOutput()
		if exit := new(exec.ExitError); err != nil && !errors.As(err, &exit) {
			t.Fatal(err)
		}
		return err == nil, out
	}
	for _, c := range faults() {
		if c.noticed == "" {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			group, name, _ := bytes.Cut([]byte(c.noticed), []byte("/"))
			pattern := string(group) + "$/^" + string(name)
			if passed, out := run(t, "none", pattern); !passed || !bytes.Contains(out, []byte("--- PASS: TestFaultyBackend/"+c.noticed)) {
				t.Fatalf("the control failed:\n%s", out)
			}
			if passed, out := run(t, c.name, pattern); passed || !bytes.Contains(out, []byte("--- FAIL: TestFaultyBackend/"+c.noticed)) {
				t.Errorf("%s did not notice:\n%s", c.noticed, out)
			}
		})
	}
}
