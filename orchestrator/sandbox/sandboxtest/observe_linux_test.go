//go:build linux

package sandboxtest

import (
	"bufio"
	"os"
	"os/exec"
	"slices"
	"testing"
)

// TestProcTree sees a child and a grandchild come and go.
func TestProcTree(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), "/bin/sh", "-c", "sleep 600 & echo started; wait")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	below := ProcTree(cmd.Process.Pid)
	if len(below) != 2 || !slices.ContainsFunc(below, func(p Process) bool { return p.Command == "sleep" || p.Command == "sh" }) {
		t.Errorf("below the shell: %+v", below)
	}
	if all := ProcTree(os.Getpid()); len(added(all, below)) > 0 {
		t.Errorf("the tree of this process lacks %+v", added(all, below))
	}
	for _, p := range below {
		if !ProcAlive(p) {
			t.Errorf("%+v is dead already", p)
		}
	}
	shell := below[0]
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	await(t, "the shell to be a zombie or gone", func() bool { return !ProcAlive(shell) })
	for _, p := range below[1:] {
		killObserved(t, p)
		await(t, "the sleeper to be gone", func() bool { return !ProcAlive(p) })
	}
	_ = cmd.Wait() // it was killed
	if ProcAlive(Process{ID: "1@0"}) || ProcAlive(Process{ID: "nonsense"}) {
		t.Error("a process with another start time counts as alive")
	}
}

// killObserved kills exactly the process that was observed.
func killObserved(t *testing.T, p Process) {
	t.Helper()
	pid, ok := observedPID(p)
	if !ok {
		t.Fatalf("no process number in %+v", p)
	}
	process, err := os.FindProcess(pid)
	if err != nil {
		t.Fatal(err)
	}
	if err := process.Kill(); err != nil {
		t.Fatal(err)
	}
}
