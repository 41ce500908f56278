package hostfallback

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"brig/orchestrator/sandbox/sandboxtest"
)

//go:embed testdata/sibling.py
var siblingProgram string

// TestZygoteSiblings: nothing of a session can be reached from another one that
// was forked from the same zygote. The control is the session itself, where each
// attempt on the same things works.
func TestZygoteSiblings(t *testing.T) { zygoteSiblings(t) }

// TestRootZygoteSiblings is the same as root.
func TestRootZygoteSiblings(t *testing.T) { zygoteSiblings(t) }

func zygoteSiblings(t *testing.T) {
	needWhole(t)
	b, dir := warmBackend(t, testBase())
	victim, attacker := openForked(t, b, testBase(), dir), openForked(t, b, testBase(), dir)
	setting := `
import os, socket
for d in (".", %q, "/dev/shm", "/tmp"):
    with open(d + "/secret", "w") as f:
        f.write("the sibling's")
s = socket.socket(socket.AF_UNIX)
s.bind("\0brig-sibling")
s.listen(8)
print("there")
`
	if out, _ := output(t, victim, "r1", fmt.Sprintf(setting, victim.process.plan.Scratch)); out != "there\n" {
		t.Fatal(out)
	}
	var outside []int
	for _, p := range sandboxtest.ProcTree(victim.started.PID) {
		var pid int
		if _, err := fmt.Sscanf(p.ID, "%d@", &pid); err != nil {
			t.Fatal(err)
		}
		outside = append(outside, pid)
	}
	if len(outside) < 2 {
		t.Fatalf("the victim's processes: %v", outside)
	}
	targets := map[string]any{
		"workspace": victim.workspace, "scratch": victim.process.plan.Scratch, "abstract": "brig-sibling",
		"beside": map[string]string{"workspace": filepath.Base(victim.workspace), "scratch": "scratch"}, "pids": outside,
	}
	program := func(targets map[string]any) string {
		text, err := json.Marshal(targets)
		if err != nil {
			t.Fatal(err)
		}
		return "TARGETS = " + string(text) + "\n" + siblingProgram
	}
	for name, said := range siblingAttempts(t, attacker, program(targets)) {
		if said == "ok" {
			t.Errorf("a sibling: %s worked", name)
		}
	}
	for _, at := range []string{victim.workspace, victim.process.plan.Scratch} {
		info, err := os.Stat(filepath.Join(at, "secret"))
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("seen from outside: %v, %v", info, err)
		}
		if exists(filepath.Join(at, "planted")) {
			t.Errorf("something was planted in %s", at)
		}
	}
	// The control: what a session does to itself, by its own numbers.
	targets["pids"] = []int{0}
	own := siblingAttempts(t, victim, strings.Replace(program(targets), `for pid in TARGETS["pids"]`, `for pid in [os.getpid()]`, 1))
	for name, said := range own {
		switch strings.Fields(name)[0] {
		case "ptrace", "prlimit", "inherited", "mount", "namespaces", "the": // refused to everybody, or of nobody
		case "link", "rename": // the first was renamed, then
		case "fd/0", "root":
		default:
			if said != "ok" && !strings.HasPrefix(name, "mem ") {
				t.Errorf("the control: %s of its own said %s", name, said)
			}
		}
	}
}

// siblingAttempts runs a program that prints what came of each of its attempts.
func siblingAttempts(t *testing.T, i *instance, source string) map[string]string {
	t.Helper()
	out, _ := output(t, i, "attack", source)
	said := make(map[string]string)
	for line := range strings.Lines(out) {
		var row [2]string
		if err := json.Unmarshal([]byte(line), &row); err != nil {
			t.Fatalf("%v in %q", err, out)
		}
		said[row[0]] = row[1]
	}
	if len(said) < 20 {
		t.Fatalf("few attempts: %q", out)
	}
	return said
}
