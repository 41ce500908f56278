package sandboxtest

import (
	"bytes"
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
		{"binds a dead instance", "Prepared/DiesBeforeBind", func(f *faulty) { f.bindDead = true }},
		{"forgets the time zone", "Prepared/Place", func(f *faulty) { f.claim = func(c *sandbox.Claim) { c.Timezone = "" } }},
		{"gives a used instance away", "Prepared/BindAfterARun", func(f *faulty) {
			f.call = func(op wire.Op, err error) error {
				if op == wire.OpBind {
					return nil
				}
				return err
			}
		}},
		{"keeps without a lease", "Keep/NoLease", func(f *faulty) { f.keepAny = true }},
		{"adopts with any secret", "Keep/WrongOne", func(f *faulty) {
			f.adopt = func(a *sandbox.Adoption) {
				if n := f.machine.named(a.Handle.Name); n != nil {
					a.Handle.Secret = n.secret
				}
			}
		}},
		{"adopts another workspace", "Keep/WrongOne", func(f *faulty) {
			f.adopt = func(a *sandbox.Adoption) {
				if n := f.machine.named(a.Handle.Name); n != nil {
					a.Workspace = n.workspace
				}
			}
		}},
		{"loses the variables of what it adopts", "Keep/StateSurvives", func(f *faulty) { f.reset = true }},
		{"loses an instance that was let go", "Keep/Detach", func(f *faulty) { f.closeKept = true }},
		{"sweeps what is to be kept", "Keep/Sweep", func(f *faulty) { f.sweepAll = true }},
		{"counts nothing", "Meter/OOMKill", func(f *faulty) { f.counters = func(c *sandbox.Counters) { c.OOMKills = 0 } }},
		{"counts back", "Meter/OOMKill", func(f *faulty) { f.counters = func(c *sandbox.Counters) { c.ForkFailures = 9 - c.OOMKills } }},
	}
}

// TestFaultyBackend is the child of TestSuiteNoticesFaults.
func TestFaultyBackend(t *testing.T) {
	name := os.Getenv(faultEnv)
	if name == "" {
		return
	}
	spoilt := func(m *Memory) sandbox.Backend {
		b := &faulty{Memory: m}
		for _, c := range faults() {
			if c.name == name && c.spoil != nil {
				c.spoil(b)
			}
		}
		return b
	}
	f := memoryFactory()
	f.New = func(testing.TB) sandbox.Backend { return spoilt(NewMemory(MemoryOptions{Owner: f.Owner})) }
	f.Later = func(_ testing.TB, b sandbox.Backend) sandbox.Backend { return spoilt(b.(*faulty).Successor()) }
	f.Lose = func(_ testing.TB, i sandbox.Instance) {
		memoryOf(i).node.lose(sandbox.Ending{Cause: sandbox.Killed, Detail: "killed by the test"})
	}
	f.LosePrepared = func(_ testing.TB, p sandbox.Prepared) {
		p.(faultyPrepared).lose(sandbox.Ending{Cause: sandbox.Killed, Detail: "killed by the test"})
	}
	f.Count = func(_ testing.TB, b sandbox.Backend) int { return b.(*faulty).Instances() }
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
