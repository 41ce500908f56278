package selftest_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"brig/hostfallback"
	"brig/images"
	"brig/orchestrator"
	"brig/orchestrator/config"
	"brig/orchestrator/docker"
	"brig/orchestrator/owner"
	"brig/orchestrator/sandbox"
	"brig/orchestrator/sandbox/sandboxtest"
	"brig/selftest"
)

// live makes a subject of a real backend, as cmd does, in directories of its own.
func live(t *testing.T, kind sandbox.Kind) (selftest.Subject, selftest.Options) {
	t.Helper()
	return liveWith(t, kind, 0)
}

// liveWith does so with a host sandbox that keeps so many zygotes.
func liveWith(t *testing.T, kind sandbox.Kind, zygotes int) (selftest.Subject, selftest.Options) {
	t.Helper()
	python, err := exec.LookPath("python3")
	if err != nil {
		sandboxtest.Skip(t, "python3 on PATH", "none")
	}
	if kind == sandbox.Docker {
		if out, err := exec.CommandContext(t.Context(), "docker", "version", "--format", "{{.Server.Version}}").CombinedOutput(); err != nil {
			sandboxtest.Skip(t, "a container engine and its command", strings.TrimSpace(string(out)))
		}
	}
	dir := t.TempDir()
	ours := map[string]string{}
	for _, name := range []string{"state", "config", "runtime", "data", "cache"} {
		ours[name] = filepath.Join(dir, name)
		must(t, os.Mkdir(ours[name], 0o700))
	}
	own, err := owner.Open(ours["state"])
	must(t, err)
	engine, err := docker.New(docker.Options{
		Env: os.LookupEnv, Owner: own.ID(), Process: own.Token(), Images: images.New(images.Options{Env: os.LookupEnv}),
	})
	must(t, err)
	host, err := hostfallback.New(hostfallback.Options{
		Env: os.LookupEnv, Cache: ours["cache"], Runtime: ours["runtime"], Owner: own.ID(),
		Protected: []string{ours["config"], ours["state"], ours["data"], ours["cache"], ours["runtime"]},
		Zygotes:   hostfallback.ZygoteOptions{Most: zygotes, Workspaces: filepath.Join(ours["data"], "sessions")},
	})
	must(t, err)
	settings := config.Default()
	settings.Execution.Backend, settings.Execution.Fallback = kind, config.None
	settings.Docker.Tier = config.TierCore
	settings.Limits.Sessions = 32
	settings.Host.Python, _, _ = strings.Cut(os.Getenv("BRIG_TEST_PYTHONS"), string(os.PathListSeparator))
	orc, err := orchestrator.New(orchestrator.Options{
		Backends: []sandbox.Backend{engine, host}, Config: settings, Owner: own,
		Paths: config.Paths{State: ours["state"], Data: ours["data"], Runtime: ours["runtime"]},
	})
	must(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := errors.Join(orc.Close(ctx), engine.Close(ctx), host.Close(ctx), own.Close()); err != nil {
			t.Error(err)
		}
	})
	s := selftest.Subject{Kind: kind, Base: settings.BaseFor(kind)}
	var backend sandbox.Backend = engine
	if kind == sandbox.Host {
		backend = host
	}
	s.Forecast, err = backend.Capabilities(t.Context(), s.Base)
	must(t, err)
	s.Open = func(ctx context.Context, o selftest.Opening) (*orchestrator.Session, error) {
		return orc.Open(ctx, orchestrator.SessionOptions{
			Backend: kind, Base: &o.Base, Workspace: o.Workspace, Trial: true, Prepared: o.Warm,
		})
	}
	home, err := os.UserHomeDir()
	must(t, err)
	return s, selftest.Options{
		Root: filepath.Join(ours["runtime"], "selftest"), Own: ours, Home: home, Python: python,
		Environ: os.Environ(), Version: "test",
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestRun tries the whole catalogue on real sessions. What the machine cannot show
// may be open; nothing that is promised may get through, and nothing may stay.
func TestRun(t *testing.T) {
	for _, kind := range []sandbox.Kind{sandbox.Host, sandbox.Docker} {
		t.Run(string(kind), func(t *testing.T) {
			subject, o := live(t, kind)
			began := time.Now()
			var inTurn sync.Mutex
			results := 0
			o.Progress = func(p selftest.Progress) {
				if !inTurn.TryLock() {
					t.Error("two goroutines tell of progress at once")
					return
				}
				defer inTurn.Unlock()
				if p.Result != nil {
					results++
					return
				}
				t.Logf("%6.2f s  %s", time.Since(began).Seconds(), p.Stage)
			}
			r, err := selftest.Run(t.Context(), subject, o)
			must(t, err)
			t.Logf("%s, %s, notes %q", r.Line, r.Took, r.Notes)
			if r.Holds == selftest.Weaker {
				t.Errorf("weaker: %s", r.Line)
			}
			if all := selftest.Catalogue(); len(r.Probes) != len(all) || results != len(all) {
				t.Errorf("%d results, %d told, of %d probes", len(r.Probes), results, len(all))
			}
			decided := 0
			for _, p := range r.Probes {
				switch p.Verdict {
				case sandbox.Blocked:
					decided++
				case sandbox.Allowed:
					if !p.Expected {
						t.Errorf("%s got through: %+v", p.Probe, p.Attempts)
					}
				default:
					t.Logf("%s is %s: %s", p.Probe, p.Verdict, p.Reason)
				}
				for _, a := range p.Attempts {
					if !a.Outcome.Ran {
						t.Errorf("%s was not attempted in the %s session: %s", p.Probe, a.In, a.Outcome.Detail)
					}
				}
			}
			if decided < 45 {
				t.Errorf("only %d probes were blocked", decided)
			}
			nothingStays(t, o.Root)
			dir := filepath.Join(t.TempDir(), "kept")
			must(t, selftest.Save(dir, r))
			kept := selftest.Load(dir)
			if len(kept) != 1 || kept[0].ID != r.ID || kept[0].Posture.Digest() != r.Posture.Digest() {
				t.Errorf("kept %d reports", len(kept))
			}
			if why := selftest.Due(kept, kind, "", selftest.ThisMachine(), "test", selftest.Policy(kind, subject.Identity, subject.Forecast)); why != "" && r.Holds == selftest.Held {
				t.Errorf("due at once: %s", why)
			}
		})
	}
}

// TestRunForked attempts everything in sessions that are forked from a zygote: they
// hold what sessions hold that were started by themselves.
func TestRunForked(t *testing.T) {
	const forked = "forked from a zygote"
	subject, o := liveWith(t, sandbox.Host, 2)
	identity := ""
	for deadline := time.Now().Add(30 * time.Second); !strings.Contains(identity, forked) && time.Now().Before(deadline); time.Sleep(100 * time.Millisecond) {
		s, err := subject.Open(t.Context(), selftest.Opening{Base: subject.Base})
		must(t, err)
		identity = s.Posture().Identity
		must(t, s.Close(t.Context()))
	}
	if !strings.Contains(identity, forked) {
		sandboxtest.Skip(t, "namespaces and Landlock, for a zygote", "sessions of "+identity)
	}
	r, err := selftest.Run(t.Context(), subject, o)
	must(t, err)
	t.Logf("%s, %s, notes %q", r.Line, r.Took, r.Notes)
	if !strings.Contains(r.Posture.Identity, forked) {
		t.Errorf("the sessions were of %s", r.Posture.Identity)
	}
	if r.Holds == selftest.Weaker {
		t.Errorf("weaker: %s", r.Line)
	}
	for _, p := range r.Probes {
		if p.Verdict == sandbox.Allowed && !p.Expected {
			t.Errorf("%s got through: %+v", p.Probe, p.Attempts)
		}
	}
	nothingStays(t, o.Root)
}

// TestTwoRunsAtOnce: neither sees the other's decoys, nor sweeps them away.
func TestTwoRunsAtOnce(t *testing.T) {
	subject, o := live(t, sandbox.Host)
	o.Only = []string{string(sandbox.FSRead), string(sandbox.Signals), string(sandbox.NetLoopback)}
	reports := make([]selftest.Report, 2)
	var wg sync.WaitGroup
	for i := range reports {
		wg.Go(func() {
			var err error
			if reports[i], err = selftest.Run(t.Context(), subject, o); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	for i, p := range reports[0].Probes {
		if other := reports[1].Probes[i]; p.Verdict != sandbox.Blocked || other.Verdict != sandbox.Blocked {
			t.Errorf("%s: %s (%s) and %s (%s)", p.Probe, p.Verdict, p.Reason, other.Verdict, other.Reason)
		}
	}
	nothingStays(t, o.Root)
}

// TestGentle gives the same, one thing at a time.
func TestGentle(t *testing.T) {
	subject, o := live(t, sandbox.Host)
	o.Gentle, o.Only = true, []string{"files-read"}
	r, err := selftest.Run(t.Context(), subject, o)
	must(t, err)
	if len(r.Probes) != 1 || r.Probes[0].Verdict != sandbox.Blocked || len(r.Probes[0].Attempts) != 2 {
		t.Errorf("got %+v", r.Probes)
	}
}

// TestNoPython: without a control nothing is proven, and nothing is said to be blocked.
func TestNoPython(t *testing.T) {
	subject, o := live(t, sandbox.Host)
	o.Python, o.NoPython, o.Only = "", "there is no interpreter", []string{"files-read"}
	r, err := selftest.Run(t.Context(), subject, o)
	must(t, err)
	if p := r.Probes[0]; p.Verdict != sandbox.Inconclusive || !strings.Contains(p.Reason, "there is no interpreter") {
		t.Errorf("%s: %s", p.Verdict, p.Reason)
	}
	if err := selftest.Save(t.TempDir(), r); err == nil {
		t.Error("a report on one probe was kept as if it were on all")
	}
}

func nothingStays(t *testing.T, root string) {
	t.Helper()
	entries, err := os.ReadDir(root)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	for _, e := range entries {
		if e.IsDir() {
			t.Errorf("%s stays", e.Name())
		}
	}
}
