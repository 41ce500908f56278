package hostfallback

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"brig/orchestrator/sandbox"
	"brig/orchestrator/sandbox/sandboxtest"
	"brig/orchestrator/wire"

	"golang.org/x/sys/unix"
)

// warmBackend is a backend with a zygote for base that is ready, and the
// directory for workspaces of its sessions.
func warmBackend(t testing.TB, base sandbox.Base, packages ...string) (*Backend, string) {
	t.Helper()
	b := testBackend(t)
	dir := t.TempDir()
	b.options.Zygotes = ZygoteOptions{Most: 2, Workspaces: dir, Packages: packages}
	t.Cleanup(func() {
		if err := b.Close(testContext(t)); err != nil {
			t.Errorf("close the backend: %v", err)
		}
	})
	first := openIn(t, b, base, workspaceIn(t, dir))
	if first.(*instance).started.Report.Forked != nil {
		t.Fatal("the first instance cannot have been forked")
	}
	b.warm.making.Wait()
	for _, z := range b.warm.all {
		if z.why != "" {
			t.Fatalf("no zygote: %s", z.why)
		}
	}
	if len(b.warm.all) != 1 {
		t.Fatalf("%d zygotes", len(b.warm.all))
	}
	return b, dir
}

func workspaceIn(t testing.TB, dir string) string {
	t.Helper()
	workspace, err := os.MkdirTemp(dir, "session-")
	if err != nil {
		t.Fatal(err)
	}
	return workspace
}

// openForked opens an instance that must have been forked.
func openForked(t testing.TB, b *Backend, base sandbox.Base, dir string) *instance {
	t.Helper()
	i := openIn(t, b, base, workspaceIn(t, dir)).(*instance)
	if i.started.Report.Forked == nil {
		t.Fatalf("it was not forked: %s", i.refused)
	}
	return i
}

func TestZygote(t *testing.T) {
	needWhole(t)
	b, dir := warmBackend(t, testBase())
	i := openForked(t, b, testBase(), dir)
	if out, _ := output(t, i, "r1", "import os; print(6*7, os.getcwd())"); out != "42 "+i.workspace+"\n" {
		t.Errorf("%q", out)
	}
	t.Logf("%+v", i.started.Report)
}

// BenchmarkZygote is everything from the claim to the first result in a session
// that is forked, beside a bare interpreter that prints the same, in turns.
func BenchmarkZygote(b *testing.B) {
	backend, dir := warmBackend(b, testBase())
	in, _, err := backend.interpreter(b.Context(), testBase())
	if err != nil {
		b.Fatal(err)
	}
	var bare, prepare, bind, run, all samples
	for b.Loop() {
		bare.time(func() {
			if out, err := exec.Command(in.About.Executable, "-I", "-c", "print(1)").Output(); err != nil || string(out) != "1\n" {
				b.Fatalf("%s %v", out, err)
			}
		})
		workspace := workspaceIn(b, dir)
		var p sandbox.Prepared
		var i sandbox.Instance
		all.time(func() {
			prepare.time(func() { p, err = backend.Prepare(b.Context(), testBase(), workspace) })
			if err != nil {
				b.Fatal(err)
			}
			bind.time(func() {
				i, err = p.Bind(b.Context(), sandbox.Claim{ID: "bench-1", Session: "bench", Workspace: workspace})
			})
			if err != nil {
				b.Fatal(err)
			}
			run.time(func() {
				if out, _ := output(b, i, "r1", "print(1)"); out != "1\n" {
					b.Fatal(out)
				}
			})
		})
		if i.(*instance).started.Report.Forked == nil {
			b.Fatalf("it was not forked: %s", i.(*instance).refused)
		}
		if err := i.Close(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
	bare.report(b, "bare")
	prepare.report(b, "prepare")
	bind.report(b, "bind")
	run.report(b, "run")
	all.report(b, "zygote")
	b.ReportMetric(all.median()/bare.median(), "ratio")
}

// TestZygoteGivesAll: a forked session reports every layer as one does that was
// started by itself, and its posture differs in nothing but that it was forked.
func TestZygoteGivesAll(t *testing.T) {
	needWhole(t)
	b, dir := warmBackend(t, testBase())
	forked := openForked(t, b, testBase(), dir)
	b.options.Zygotes.Most = 0
	spawned := openIn(t, b, testBase(), workspaceIn(t, dir)).(*instance)
	if spawned.started.Report.Forked != nil {
		t.Fatal("the control was forked")
	}
	f, s := forked.started.Report, spawned.started.Report
	for what, pair := range map[string][2]any{
		"namespace": {f.Namespace, s.Namespace}, "namespaces": {fmt.Sprint(f.Namespaces), fmt.Sprint(s.Namespaces)}, "landlock": {fmt.Sprint(f.Landlock), fmt.Sprint(s.Landlock)},
		"seccomp": {f.Seccomp, s.Seccomp}, "limits": {fmt.Sprint(f.Limits), fmt.Sprint(s.Limits)}, "capabilities": {f.CapEff, s.CapEff},
		"no new privileges": {f.NoNewPrivs, s.NoNewPrivs}, "shared memory": {f.PrivateShm, s.PrivateShm}, "variables": {fmt.Sprint(f.Variables), fmt.Sprint(s.Variables)},
		"descriptors": {fmt.Sprint(f.Kept), fmt.Sprint(s.Kept)}, "processors": {f.CPUs, s.CPUs}, "group": {f.Cgroup.Applied, s.Cgroup.Applied}, "why no group": {f.Cgroup.Code, s.Cgroup.Code},
	} {
		if pair[0] != pair[1] {
			t.Errorf("%s: forked %v, spawned %v", what, pair[0], pair[1])
		}
	}
	const hidden = `
import os
print([n for n in ("locks", "interrupts", "keys", "partitions", "timer_list") if os.path.exists("/proc/" + n) and open("/proc/" + n, "rb").read(1)],
      os.statvfs("/tmp").f_files, bool(open("/proc/meminfo").read()))`
	for name, i := range map[string]*instance{"forked": forked, "spawned": spawned} {
		if out, _ := output(t, i, "hidden", hidden); out != fmt.Sprintf("[] %d True\n", sandbox.DefaultLimits().Memory>>14) {
			t.Errorf("%s: %s", name, out)
		}
	}
	if f.Forked.Filters < 2 || len(f.Forked.Packages) > 0 {
		t.Errorf("forked: %+v", f.Forked)
	}
	for n, l := range forked.posture.Layers {
		if other := spawned.posture.Layers[n]; l.State != other.State {
			t.Errorf("%s is %s in a fork and %s otherwise: %s", l.ID, l.State, other.State, l.Reason)
		}
	}
	if again := openForked2(t, b, dir); again.Posture().Digest() != forked.Posture().Digest() {
		t.Error("two forks have different digests")
	}
}

func openForked2(t *testing.T, b *Backend, dir string) sandbox.Instance {
	b.options.Zygotes.Most = 2
	return openForked(t, b, testBase(), dir)
}

// TestZygoteConformance is the suite of every backend, with instances that are
// forked. They are lost by the end of their first process: with a zygote or its
// supervisor all would be lost, and the suite has some that it shares.
func TestZygoteConformance(t *testing.T) { zygoteConformance(t) }

// TestRootZygoteConformance is the same as root.
func TestRootZygoteConformance(t *testing.T) { zygoteConformance(t) }

func zygoteConformance(t *testing.T) {
	needWhole(t)
	lose := func(t testing.TB, i *instance) {
		if i.started.Report.Forked == nil {
			t.Fatalf("it was not forked: %s", i.refused)
		}
		if err := unix.Kill(i.started.PID, unix.SIGKILL); err != nil {
			t.Fatal(err)
		}
	}
	var forks, others atomic.Int64
	sandboxtest.Run(t, sandboxtest.Factory{
		New: func(t testing.TB) sandbox.Backend {
			// The suite's workspaces are in the temporary directory, where nothing else may be.
			dir, err := os.MkdirTemp(os.Getenv("HOME"), "zygote-")
			if err != nil {
				t.Fatal(err)
			}
			b := inDirectory(t, dir)
			b.options.Zygotes = ZygoteOptions{Most: 2, Workspaces: os.TempDir()}
			t.Cleanup(func() {
				if err := errors.Join(b.Close(testContext(t)), os.RemoveAll(dir)); err != nil {
					t.Error(err)
				}
			})
			warmUp(t, b, testBase(), t.TempDir())
			return counting{b, &forks, &others}
		},
		Base:   testBase(),
		Python: true,
		// Those of process 1, which are root's where everything is.
		ListsDescriptors: os.Getuid() == 0,
		Tree: func(t testing.TB, i sandbox.Instance) []sandboxtest.Process {
			return sandboxtest.ProcTree(i.(*instance).started.PID)
		},
		Alive:        func(t testing.TB, i sandbox.Instance, p sandboxtest.Process) bool { return sandboxtest.ProcAlive(p) },
		Lose:         func(t testing.TB, i sandbox.Instance) { lose(t, i.(*instance)) },
		LosePrepared: func(t testing.TB, p sandbox.Prepared) { lose(t, p.(*prepared).instance) },
		Count: func(t testing.TB, b sandbox.Backend) int {
			entries, err := os.ReadDir(b.(counting).options.instances())
			if err != nil && !os.IsNotExist(err) {
				t.Fatal(err)
			}
			return len(entries)
		},
	})
	t.Logf("%d forked, %d started by themselves", forks.Load(), others.Load())
	if forks.Load() < 10 || others.Load() > forks.Load() {
		t.Error("too few instances were forked for this to say something")
	}
}

// counting counts how instances came about.
type counting struct {
	*Backend
	forks, others *atomic.Int64
}

func (c counting) Prepare(ctx context.Context, base sandbox.Base, workspace string) (sandbox.Prepared, error) {
	p, err := c.Backend.Prepare(ctx, base, workspace)
	if err == nil && p.(*prepared).started.Report.Forked != nil {
		c.forks.Add(1)
	} else if err == nil {
		c.others.Add(1)
	}
	return p, err
}

// warmUp has a zygote made for base.
func warmUp(t testing.TB, b *Backend, base sandbox.Base, workspace string) {
	t.Helper()
	p, err := b.Prepare(testContext(t), base, workspace)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Close(testContext(t)); err != nil {
		t.Fatal(err)
	}
	b.warm.making.Wait()
}

// zygoteOf are a session's first process, the zygote and the supervisor of both.
func zygoteOf(t testing.TB, pid int) [3]int {
	t.Helper()
	var all [3]int
	for n := range all {
		all[n] = pid
		raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			t.Fatal(err)
		}
		fields := strings.Fields(string(raw[bytes.LastIndexByte(raw, ')')+1:]))
		if pid, err = strconv.Atoi(fields[1]); err != nil {
			t.Fatal(err)
		}
	}
	return all
}

// BenchmarkZygotePackages is the same with numpy and pandas, from a zygote that
// imported both, beside a bare interpreter that does.
func BenchmarkZygotePackages(b *testing.B) {
	base := testBase()
	base.Python = "/usr/bin/python3"
	const program = "import numpy, pandas; print(1)"
	if exec.Command(base.Python, "-I", "-c", program).Run() != nil {
		sandboxtest.Skip(b, "numpy and pandas for /usr/bin/python3", "none")
	}
	backend, dir := warmBackend(b, base, "numpy", "pandas")
	var bare, all samples
	for b.Loop() {
		bare.time(func() {
			if err := exec.Command(base.Python, "-I", "-c", program).Run(); err != nil {
				b.Fatal(err)
			}
		})
		workspace := workspaceIn(b, dir)
		var i sandbox.Instance
		all.time(func() {
			p, err := backend.Prepare(b.Context(), base, workspace)
			if err != nil {
				b.Fatal(err)
			}
			if i, err = p.Bind(b.Context(), sandbox.Claim{ID: "bench-1", Session: "bench", Workspace: workspace}); err != nil {
				b.Fatal(err)
			}
			if out, _ := output(b, i, "r1", program); out != "1\n" {
				b.Fatal(out)
			}
		})
		if i.(*instance).started.Report.Forked == nil {
			b.Fatalf("it was not forked: %s", i.(*instance).refused)
		}
		if err := i.Close(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
	bare.report(b, "bare")
	all.report(b, "zygote")
	b.ReportMetric(all.median()/bare.median(), "ratio")
}

// TestZygoteCrowd: sessions that are asked for at the same time all come about,
// by forks, each with what is its own.
func TestZygoteCrowd(t *testing.T) {
	needWhole(t)
	b, dir := warmBackend(t, testBase())
	var group sync.WaitGroup
	for n := range 12 {
		workspace := workspaceIn(t, dir)
		group.Go(func() {
			p, err := b.Prepare(testContext(t), testBase(), workspace)
			if err != nil {
				t.Errorf("session %d: %v", n, err)
				return
			}
			i, err := p.Bind(testContext(t), sandbox.Claim{ID: sandbox.InstanceID(strconv.Itoa(n)), Session: "crowd", Workspace: workspace})
			if err != nil {
				t.Errorf("session %d: %v", n, err)
				return
			}
			var out []byte
			_, err = i.Run(testContext(t), wire.Run{ID: "r1", Source: []byte("import os; print(os.getcwd())")}, func(e wire.Event) error {
				out = append(out, e.Data...)
				return nil
			})
			if err != nil || string(out) != workspace+"\n" || i.(*instance).started.Report.Forked == nil {
				t.Errorf("session %d: %v, %q, %q", n, err, out, i.(*instance).refused)
			}
			if err := i.Close(testContext(t)); err != nil {
				t.Errorf("close session %d: %v", n, err)
			}
		})
	}
	group.Wait()
}
