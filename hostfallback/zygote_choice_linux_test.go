package hostfallback

import (
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"brig/hostfallback/confine"
	"brig/orchestrator/sandbox"
	"brig/orchestrator/sandbox/sandboxtest"
)

// TestZygotePosture: a forked instance says so, and names what was looked at.
func TestZygotePosture(t *testing.T) {
	needWhole(t)
	b, dir := warmBackend(t, testBase())
	p := openForked(t, b, testBase(), dir).Posture()
	if !strings.HasSuffix(p.Identity, ", forked from a zygote") {
		t.Errorf("the identity is %q", p.Identity)
	}
	for _, word := range []string{"warmed interpreter", "mnt namespace", "Seccomp_filters", "descriptors"} {
		if !slices.ContainsFunc(p.Notes, func(note string) bool { return strings.Contains(note, word) }) {
			t.Errorf("no note says %q: %q", word, p.Notes)
		}
	}
	if m := p.Layer(sandbox.SyscallFilter).Mechanism; !strings.Contains(m, "on top of the zygote's (2 filters") {
		t.Errorf("the filter: %q", m)
	}
	if m := p.Layer(sandbox.TreeKill).Mechanism; !strings.Contains(m, "the end of the process namespace") {
		t.Errorf("the tree kill: %q", m)
	}
}

// TestZygoteNotUsed: what a fork cannot give is started by itself, and well.
func TestZygoteNotUsed(t *testing.T) {
	needWhole(t)
	b, dir := warmBackend(t, testBase())
	b.options.Zygotes.Most = 10 // others of the cases bring their own
	cases := map[string]struct {
		base      sandbox.Base
		workspace string
	}{
		"off":           {sandbox.Base{Network: sandbox.NetworkDeny, Mode: sandbox.ModeOff}, workspaceIn(t, dir)},
		"network":       {sandbox.Base{Network: sandbox.NetworkAllow, Mode: sandbox.ModeBestEffort}, workspaceIn(t, dir)},
		"loopback":      {sandbox.Base{Network: sandbox.NetworkLoopback, Mode: sandbox.ModeBestEffort}, workspaceIn(t, dir)},
		"elsewhere":     {testBase(), t.TempDir()},
		"all of it":     {testBase(), dir},
		"other limits":  {sandbox.Base{Network: sandbox.NetworkDeny, Mode: sandbox.ModeBestEffort, Limits: sandbox.Limits{Processes: 33}}, workspaceIn(t, dir)},
		"another mode":  {sandbox.Base{Network: sandbox.NetworkDeny, Mode: sandbox.ModeRequire}, workspaceIn(t, dir)},
		"the same base": {testBase(), workspaceIn(t, dir)},
	}
	for name, c := range cases {
		i := openIn(t, b, c.base, c.workspace).(*instance)
		if forked := i.started.Report.Forked != nil; forked != (name == "the same base") || i.refused != "" {
			t.Errorf("%s: forked %v, refused %q", name, forked, i.refused)
		}
		if out, _ := output(t, i, "r1", "print(1)"); out != "1\n" {
			t.Errorf("%s: %q", name, out)
		}
	}
}

// TestZygoteOnPoorKernels: where a layer is missing there is no zygote, with a
// reason that the posture shows, and instances as without it.
func TestZygoteOnPoorKernels(t *testing.T) {
	for _, lacks := range []string{"namespaces", "landlock", "seccomp"} {
		b := poorBackend(t, lacks)
		dir := t.TempDir()
		b.options.Zygotes = ZygoteOptions{Most: 1, Workspaces: dir}
		warmUp(t, b, testBase(), workspaceIn(t, dir))
		i := openIn(t, b, testBase(), workspaceIn(t, dir)).(*instance)
		if i.started.Report.Forked != nil || i.refused != notWhole {
			t.Errorf("without %s: forked %v, refused %q", lacks, i.started.Report.Forked != nil, i.refused)
		}
		if notes := i.Posture().Notes; !slices.ContainsFunc(notes, func(n string) bool { return strings.Contains(n, notWhole) }) {
			t.Errorf("without %s: %q", lacks, notes)
		}
	}
}

// TestZygoteChance: siblings share no chance, also not of a package that was
// imported in advance; and what the packages could have done is said.
func TestZygoteChance(t *testing.T) {
	needWhole(t)
	if exec.Command("/usr/bin/python3", "-I", "-c", "import numpy").Run() != nil {
		sandboxtest.Skip(t, "numpy for /usr/bin/python3", "none")
	}
	base := testBase()
	base.Python = "/usr/bin/python3"
	b, dir := warmBackend(t, base, "numpy", "random", "uuid", "no_such_package")
	const program = `
import os, random, sys, tempfile, time, uuid
begin = time.monotonic()
import numpy
print(time.monotonic() - begin < 0.02)
print(random.random(), numpy.random.rand(), numpy.random.default_rng().random(), uuid.uuid4(), uuid.uuid1(), os.urandom(8), tempfile.mktemp(), sep="\n")
`
	seen := make(map[string]bool)
	for range 3 {
		i := openForked(t, b, base, dir)
		out, _ := output(t, i, "r1", program)
		lines := strings.Split(strings.TrimSpace(out), "\n")
		if len(lines) != 8 || lines[0] != "True" {
			t.Fatalf("%q", out)
		}
		for _, line := range lines[1:] {
			if seen[line] {
				t.Errorf("two siblings have %s", line)
			}
			seen[line] = true
		}
		p := i.Posture()
		if !strings.HasSuffix(p.Identity, ", forked from a zygote with numpy, random, uuid") {
			t.Errorf("the identity is %q", p.Identity)
		}
		if !slices.ContainsFunc(p.Notes, func(n string) bool { return strings.Contains(n, "installed packages had run before") }) {
			t.Errorf("the packages are not mentioned: %q", p.Notes)
		}
	}
	plan := openForked(t, b, base, dir).process.plan
	plan.Mode = confine.ModeRequire
	if key, ok := b.zygoteKey(base, interpreter{}, plan); !ok || key.packages != "" {
		t.Errorf("require has packages %q, %v", key.packages, ok)
	}
}

// TestZygotesMakeWay: no more are kept than was said, the one that was used last
// stays, and one that nobody uses ends.
func TestZygotesMakeWay(t *testing.T) {
	needWhole(t)
	sandboxtest.CheckGoroutines(t)
	b := testBackend(t)
	dir := t.TempDir()
	b.options.Zygotes = ZygoteOptions{Most: 1, Workspaces: dir}
	other := testBase()
	other.Limits.Processes = 99
	warmUp(t, b, testBase(), workspaceIn(t, dir))
	warmUp(t, b, other, workspaceIn(t, dir))
	eventually(t, "one of two zygotes to end", func() bool { return count(t, b.options.zygoteHomes()) == 1 })
	if i := openIn(t, b, other, workspaceIn(t, dir)).(*instance); i.started.Report.Forked == nil {
		t.Errorf("the newer one is not there: %s", i.refused)
	} else if err := i.Close(testContext(t)); err != nil {
		t.Error(err)
	}
	b.options.Zygotes.Idle = time.Millisecond
	warmUp(t, b, testBase(), workspaceIn(t, dir))
	eventually(t, "zygotes that nobody uses to end", func() bool { return count(t, b.options.zygoteHomes()) == 0 })
	if err := b.Close(testContext(t)); err != nil {
		t.Error(err)
	}
}

func count(t *testing.T, dir string) int {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}

// TestZygoteIsAnInterpreter: what a start does that the zygote leaves out is made
// up for in the session, and also in an instance that was started by itself, which
// leaves the module site to its worker.
func TestZygoteIsAnInterpreter(t *testing.T) {
	needWhole(t)
	b, dir := warmBackend(t, testBase())
	const program = `
import multiprocessing, os, subprocess, sys
print("exit" in dir(__builtins__) or hasattr(__builtins__, "exit"), any("packages" in p for p in sys.path), subprocess._args_from_interpreter_flags())
print(os.getpid() != 1, os.getppid() == 1, os.environ["HOME"] != os.environ["TMPDIR"])
p = multiprocessing.get_context("spawn").Process(target=os.getpid)
p.start()
p.join()
print(p.exitcode, subprocess.run([sys.executable, "-c", "import sys; print(sys.flags.no_site)"], capture_output=True, text=True).stdout.strip())
with multiprocessing.Pool(2) as pool:
    print(pool.map(abs, [-1, -2]))
`
	want := "True True ['-I']\nTrue True True\n0 0\n[1, 2]\n"
	for name, i := range map[string]*instance{"forked": openForked(t, b, testBase(), dir), "by itself": openInstance(t, testBackend(t), testBase()).(*instance)} {
		if out, _ := output(t, i, "r1", program); out != want {
			t.Errorf("%s: %q, want %q", name, out, want)
		}
	}
}
