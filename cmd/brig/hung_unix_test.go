//go:build unix

package main

import (
	"bytes"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// hungEngine is a socket that accepts and never answers, and brig as an ordinary
// user who is told to use it. asked is a connection for each time brig tried.
func hungEngine(t *testing.T) (home string, environ []string, asked chan struct{}) {
	t.Helper()
	home = ordinaryDir(t)
	if err := giveToOrdinary(home); err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(home, "engine.sock")
	l, err := net.Listen("unix", name)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(name, 0o777); err != nil {
		t.Fatal(err)
	}
	asked = make(chan struct{}, 100)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			defer conn.Close()
			asked <- struct{}{}
		}
	}()
	t.Cleanup(func() { l.Close(); <-done })
	return home, []string{"PATH=" + os.Getenv("PATH"), "HOME=" + home, "DOCKER_HOST=unix://" + name}, asked
}

// TestCtrlCWhileTheEngineHangs: nothing runs yet, and brig is waiting.
func TestCtrlCWhileTheEngineHangs(t *testing.T) {
	home, environ, asked := hungEngine(t)
	var stderr bytes.Buffer
	cmd := exec.CommandContext(t.Context(), copyOfTest(t), "run", "-c", "1")
	cmd.Dir, cmd.Env, cmd.Stderr, cmd.SysProcAttr = home, environ, &stderr, credential()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	<-asked
	if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	err := cmd.Wait()
	if code := cmd.ProcessState.ExitCode(); code != int(exitInterrupted) {
		t.Errorf("brig ended with %v, want exit code %d", err, exitInterrupted)
	}
	if got, want := stderr.String(), "brig: error: interrupted before it was done\n"; got != want {
		t.Errorf("standard error is %q, want %q", got, want)
	}
}

// TestLooksWithAHungEngine: what only looks never hangs with an engine that does.
func TestLooksWithAHungEngine(t *testing.T) {
	home, environ, _ := hungEngine(t)
	for _, c := range []struct {
		verb []string
		code exitCode
	}{
		{[]string{"status"}, exitOK},
		{[]string{"doctor"}, exitFound},
		{[]string{"image", "status"}, exitFailed},
	} {
		begun := time.Now()
		cmd := exec.CommandContext(t.Context(), copyOfTest(t), c.verb...)
		cmd.Dir, cmd.Env, cmd.SysProcAttr = home, environ, credential()
		out, err := cmd.CombinedOutput()
		if took := time.Since(begun); took > lookTimeout+5*time.Second {
			t.Errorf("%v took %s", c.verb, took)
		}
		if code := cmd.ProcessState.ExitCode(); code != int(c.code) {
			t.Errorf("%v ended with %v, want exit code %d\n%s", c.verb, err, c.code, out)
		}
		if !strings.Contains(string(out), "it accepts connections and does not answer") {
			t.Errorf("%v says nothing of an engine that hangs:\n%s", c.verb, out)
		}
	}
}

func credential() *syscall.SysProcAttr {
	attr := &syscall.SysProcAttr{}
	if os.Geteuid() == 0 {
		attr.Credential = &syscall.Credential{Uid: ordinary, Gid: ordinary}
	}
	return attr
}
