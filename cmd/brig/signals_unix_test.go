//go:build unix

package main

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"brig/orchestrator/sandbox/sandboxtest"
)

// started is a brig in the middle of a run: the code has printed "ready".
type started struct {
	*exec.Cmd
	stdout *bufio.Reader
	pipe   io.ReadCloser
	stderr bytes.Buffer
}

// startRun starts brig as an ordinary user without an engine and waits until the code runs.
func startRun(t *testing.T, code string, flags ...string) *started {
	t.Helper()
	if _, err := exec.LookPath("python3"); err != nil {
		sandboxtest.Skip(t, "python3 on PATH", "none")
	}
	s := inHome(t, newHome(t), append(append([]string{"run"}, flags...), "-c", code)...)
	s.begin(t)
	return s
}

// newHome is the home directory of an ordinary user.
func newHome(t *testing.T) string {
	t.Helper()
	home := ordinaryDir(t)
	if err := os.Mkdir(filepath.Join(home, "run"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := giveToOrdinary(home); err != nil {
		t.Fatal(err)
	}
	return home
}

// inHome is a brig of that user without an engine, not started yet.
func inHome(t *testing.T, home string, args ...string) *started {
	t.Helper()
	s := &started{Cmd: exec.CommandContext(t.Context(), copyOfTest(t), args...)}
	s.Dir = home
	s.Env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + home, "XDG_RUNTIME_DIR=" + filepath.Join(home, "run"),
		"DOCKER_HOST=unix:///nonexistent/docker.sock", "BRIG_SERVER_LISTEN=127.0.0.1:0",
	}
	s.SysProcAttr = credential()
	s.Stderr = &s.stderr
	return s
}

// begin starts it and waits until the code runs.
func (s *started) begin(t *testing.T) {
	t.Helper()
	pipe, err := s.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	s.pipe, s.stdout = pipe, bufio.NewReader(pipe)
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	if line, err := s.stdout.ReadString('\n'); line != "ready\n" {
		t.Fatalf("the run began with %q, %v\n%s", line, err, s.stderr.String())
	}
}

// end waits for brig and checks its exit code, that it took no longer than most,
// and that nothing of the session is left on disk.
func (s *started) end(t *testing.T, code exitCode, most time.Duration) {
	t.Helper()
	begun := time.Now()
	_, _ = io.Copy(io.Discard, s.stdout) // a pipe that the test closed itself
	err := s.Wait()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != int(code) {
		t.Errorf("brig ended with %v, want exit code %d\n%s", err, code, s.stderr.String())
	}
	if took := time.Since(begun); took > most {
		t.Errorf("it took %s, at most %s are allowed", took, most)
	}
	left, err := filepath.Glob(filepath.Join(s.Dir, ".local/share/brig/sessions/*"))
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func (s *started) signal(t *testing.T, sig syscall.Signal) {
	t.Helper()
	if err := s.Process.Signal(sig); err != nil {
		t.Fatal(err)
	}
}

const sleeper = "import time\nprint('ready', flush=True)\ntime.sleep(60)"

// stubborn says every time that it heard an interrupt and goes on.
const stubborn = `
import time
said = False
while True:
    try:
        if not said:
            said = True
            print('ready', flush=True)
        time.sleep(60)
    except KeyboardInterrupt:
        print('heard', flush=True)
`

func TestCtrlCInterrupts(t *testing.T) {
	s := startRun(t, sleeper)
	s.signal(t, syscall.SIGINT)
	s.end(t, exitInterrupted, 20*time.Second)
	for _, want := range []string{"KeyboardInterrupt", "brig: interrupted\n", "brig: host · "} {
		if !strings.Contains(s.stderr.String(), want) {
			t.Errorf("standard error lacks %q:\n%s", want, s.stderr.String())
		}
	}
}

// TestForceIsTold: what the detail of a result says beyond its cause is not kept
// from a person.
func TestForceIsTold(t *testing.T) {
	s := startRun(t, stubborn)
	s.signal(t, syscall.SIGINT)
	s.end(t, exitInterrupted, 20*time.Second)
	if got := s.stderr.String(); !strings.Contains(got, "brig: interrupted\n") || !strings.Contains(got, "by force") {
		t.Errorf("standard error is:\n%s", got)
	}
}

func TestSecondCtrlCEnds(t *testing.T) {
	s := startRun(t, stubborn)
	s.signal(t, syscall.SIGINT)
	if line, err := s.stdout.ReadString('\n'); line != "heard\n" {
		t.Fatalf("after the first Ctrl-C: %q, %v", line, err)
	}
	s.signal(t, syscall.SIGINT)
	s.end(t, exitInterrupted, 20*time.Second)
}

func TestTerminateEndsInOrder(t *testing.T) {
	for _, c := range []struct {
		sig  syscall.Signal
		code exitCode
		says string
	}{
		{syscall.SIGTERM, exitTerminated, "brig: cancelled: told to terminate"},
		{syscall.SIGHUP, exitTerminated, "brig: cancelled: told to terminate"},
		{syscall.SIGQUIT, exitQuit, "brig: cancelled: told to quit"},
	} {
		s := startRun(t, stubborn)
		s.signal(t, c.sig)
		s.end(t, c.code, 20*time.Second)
		if got := s.stderr.String(); !strings.Contains(got, c.says) || strings.Contains(got, "goroutine") {
			t.Errorf("after %s, standard error is:\n%s", c.sig, got)
		}
	}
}

// TestClosedOutputEndsTheRun: "brig run … | head -1" ends the run, in order and
// without a word about it.
func TestClosedOutputEndsTheRun(t *testing.T) {
	s := startRun(t, "print('ready', flush=True)\nwhile True: print('more')")
	if err := s.pipe.Close(); err != nil {
		t.Fatal(err)
	}
	s.end(t, exitPipe, 20*time.Second)
	if got := s.stderr.String(); strings.Contains(got, "error") {
		t.Errorf("standard error: %s", got)
	}
}
