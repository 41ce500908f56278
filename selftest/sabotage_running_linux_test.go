package selftest_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"brig/orchestrator/api"
	"brig/orchestrator/sandbox"
)

// TestRunningBrig: what runs code cannot be reached by it: neither its sockets, nor its
// tokens and what tells where it listens, nor its port. A brig that leaves out what
// stands before them shows that each is tried for what it is.
func TestRunningBrig(t *testing.T) {
	b := buildSabotaged(t)
	ways := []string{"unix-brig-running", "brig-read-tokens", "net-brig-running"}
	t.Run("host", func(t *testing.T) {
		b.beside(t, "host", []sabotage{
			{names: "", held: map[string]string{ways[0]: "", ways[1]: ownRoot, ways[2]: ""}},
			{names: "seccomp,root", through: ways[:1], held: map[string]string{ways[1]: landlock, ways[2]: ""}},
			{names: "landlock,root", through: ways[1:2], held: map[string]string{ways[0]: filter, ways[2]: filter}},
			{names: "landlock,seccomp,namespaces", through: ways},
		})
	})
	t.Run("docker", func(t *testing.T) {
		b.engine(t)
		b.beside(t, "docker", []sabotage{
			{names: "", held: map[string]string{ways[0]: "files of its own", ways[1]: ownRoot, ways[2]: "loopback of its own"}},
			{names: "network-host", through: ways[2:], held: map[string]string{ways[0]: "files of its own", ways[1]: ownRoot}},
			{names: "bind=HOME", through: ways[:2], held: map[string]string{ways[2]: "loopback of its own"}},
		})
	})
}

// beside makes each self-test through a brig that stays, and so against that.
func (b sabotagedBrig) beside(t *testing.T, backend string, table []sabotage) {
	for _, s := range table {
		t.Run(strings.ReplaceAll("whole "+s.names, "/", "_"), func(t *testing.T) {
			home := b.home(t)
			runtime := b.up(t, home, s)
			report := b.run(t, backend, home, s)
			for _, p := range s.differences(report) {
				t.Error(p)
			}
			for _, r := range report.Probes {
				if !slices.Contains(s.through, r.Probe) || r.Verdict != sandbox.Allowed {
					continue
				}
				for _, a := range r.Attempts {
					// The real ones were reached, not their stand-ins.
					if got := a.Outcome.Detail; !strings.Contains(got, runtime) && !strings.HasPrefix(got, "HTTP/1") {
						t.Errorf("%s in %s brought %q", r.Probe, a.In, got)
					}
				}
			}
		})
	}
}

// up starts a brig that stays until the test is over, and returns its runtime directory.
func (b sabotagedBrig) up(t *testing.T, home string, s sabotage) string {
	t.Helper()
	cmd := exec.Command(b.path, "up", "--headless")
	cmd.Dir, cmd.Env = home, environOf(home, s)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: b.user}
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() { _ = cmd.Wait(); close(ended) }()
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		select {
		case <-ended:
		case <-time.After(time.Minute):
			_ = cmd.Process.Kill()
			t.Errorf("brig up does not end\n%s", said.Bytes())
			<-ended
		}
	})
	for {
		found, err := filepath.Glob(filepath.Join(home, ".local", "state", "brig", "run-*", api.EndpointFile))
		if err != nil {
			t.Fatal(err)
		}
		if len(found) == 1 {
			if _, err := os.Stat(filepath.Join(filepath.Dir(found[0]), api.OperatorSocket)); err == nil {
				return filepath.Dir(found[0])
			}
		}
		select {
		case <-ended:
			t.Fatalf("brig up ended\n%s", said.Bytes())
		case <-time.After(20 * time.Millisecond):
		}
	}
}
