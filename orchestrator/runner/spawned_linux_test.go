package runner

import (
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
)

// spawnedVariable makes the tests of this process start every runner as one that
// starts its worker as another program, hears interrupts by a thread and reaches
// files by their paths: the ways that are all there is on Windows.
const spawnedVariable = "BRIG_TEST_RUNNER_SPAWNED"

// forkedOnly are the tests of what a worker has only by being forked, or of what
// a runner does that Windows has not: process 1, leases and their signals. A limit of
// a few hundred milliseconds is over before a worker that is a program has begun.
const forkedOnly = `^(TestInterpreters|TestSpawned|TestLease|TestResume|TestKnock|TestNotResumable|TestEndFromInside|TestEndSignal|` +
	`TestLastWords|TestSignalsToTheSupervisor|TestHash|TestInstall|TestCompiles|TestPrecompile|TestFloodMemory|TestLargeTree|TestDataStack|TestLimit)`

// TestSpawned runs the suite of this package once more, in that way. What only
// Windows itself can show is the plumbing of its handles: see .ci/wine.
func TestSpawned(t *testing.T) {
	if testing.Short() || os.Getenv(spawnedVariable) != "" {
		return
	}
	executable, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	listing, err := exec.Command(executable, "-test.list", ".").Output()
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	other := regexp.MustCompile(forkedOnly)
	for _, name := range strings.Fields(string(listing)) {
		if strings.HasPrefix(name, "Test") && !other.MatchString(name) {
			names = append(names, name)
		}
	}
	if len(names) < 30 {
		t.Fatalf("only %d tests are left: %v", len(names), names)
	}
	cmd := exec.Command(executable, "-test.count=1", "-test.timeout=8m", "-test.run", "^("+strings.Join(names, "|")+")$")
	cmd.Env = append(os.Environ(), spawnedVariable+"=1")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestSpawnedIsSpawned is the control of the above: the worker is a program that was
// started with other arguments than the runner, or a fork with the same.
func TestSpawnedIsSpawned(t *testing.T) {
	each(t, func(t *testing.T, p interpreter) {
		got := start(t, p).ok(`print(open("/proc/self/cmdline").read().replace("\0", " "))`)
		if spawned := strings.Contains(got.out, "--worker"); spawned != (os.Getenv(spawnedVariable) != "") {
			t.Errorf("%q = %q, and the worker was started as %q", spawnedVariable, os.Getenv(spawnedVariable), got.out)
		}
	})
}
