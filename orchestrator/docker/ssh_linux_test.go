package docker

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"

	"brig/orchestrator/docker/enginetest"
	"brig/orchestrator/sandbox"
)

// sshTo puts a program that forwards to an engine where ssh would be. before is done
// first, in its shell; every one notes its process in the directory that is returned.
func sshTo(t *testing.T, e *enginetest.Engine, before string) (processes string) {
	t.Helper()
	processes = t.TempDir()
	socket := strings.TrimPrefix(e.Endpoint(), "unix://")
	fakeSSH(t, fmt.Sprintf("touch %s/$$; %s\nexport %s=dial-stdio BRIG_DOCKER_TEST_SOCKET=%s; exec %s", processes, before, verb, socket, os.Args[0]))
	return processes
}

// TestSSHSaysSomethingFirst: what a login shell prints comes before the engine's
// answer and is shown, because whoever reads it knows where it is from.
func TestSSHSaysSomethingFirst(t *testing.T) {
	e := fakeEngine(t, enginetest.Options{})
	sshTo(t, e, "echo Welcome aboard")
	u := unreachable(t, env("DOCKER_HOST", "ssh://somebody@somewhere"))
	if u.Code != "engine-ssh" || !strings.Contains(u.Reason, "aboard") || u.Remedy != "docker -H ssh://somebody@somewhere version" {
		t.Errorf("%s (%s): %s", u.Code, u.Remedy, u.Reason)
	}
}

// TestSSHDies: a session is lost with its connection, and the next one works.
func TestSSHDies(t *testing.T) {
	e := fakeEngine(t, enginetest.Options{})
	processes := sshTo(t, e, "")
	b := fakeBackend(t, e, func(o *Options) { o.Endpoint = "ssh://somebody@somewhere" })
	i := session(t, b, coreBase(), t.TempDir())
	o := runUntil(limited(t), i, "print('on', flush=True)\nimport time\ntime.sleep(600)", func(string) {
		entries, err := os.ReadDir(processes)
		if err != nil {
			t.Error(err)
		}
		for _, entry := range entries {
			line, err := os.ReadFile("/proc/" + entry.Name() + "/cmdline")
			if err == nil && strings.HasPrefix(string(line), os.Args[0]+"\x00") { // and not another of its number
				_ = syscall.Kill(atoi(entry.Name()), syscall.SIGKILL)
			}
		}
	})
	var lost *sandbox.Lost
	if !errors.As(o.err, &lost) || lost.Ending.Cause != sandbox.BackendLost {
		t.Errorf("%v", o.err)
	}
	if err := i.Close(limited(t)); err != nil {
		t.Errorf("close: %v", err)
	}
	awaitGoneFrom(t, e)
	nextWorks(t, b)
}
