//go:build unix

package main

import (
	"errors"
	"io"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"brig/orchestrator/api"
	"brig/orchestrator/sandbox/sandboxtest"
)

// staying is a brig that stays, of an ordinary user without an engine.
type staying struct {
	*started
	home string
	gone chan error
}

func startStaying(t *testing.T, home string) *staying {
	t.Helper()
	if _, err := exec.LookPath("python3"); err != nil {
		sandboxtest.Skip(t, "python3 on PATH", "none")
	}
	b := &staying{started: inHome(t, home, "up", "--headless"), home: home, gone: make(chan error, 1)}
	if err := b.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { b.gone <- b.Wait() }()
	t.Cleanup(func() {
		_ = b.Process.Signal(syscall.SIGCONT)
		_ = b.Process.Signal(syscall.SIGTERM)
		<-b.gone
	})
	for {
		_, err := api.Find(t.Context(), filepath.Join(home, "run", "brig"), api.Operator)
		if bound, told := api.ReadBound(filepath.Join(home, "run", "brig")); err == nil && told == nil && bound.PID == b.Process.Pid {
			return b // it says which process it is after it listens
		}
		select {
		case ended := <-b.gone:
			b.gone <- ended
			t.Fatalf("brig up ended: %v\n%s", ended, b.stderr.String())
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// kill ends it as a power cut does.
func (b *staying) kill(t *testing.T) {
	t.Helper()
	b.signal(t, syscall.SIGKILL)
	b.gone <- <-b.gone
}

func (b *staying) run(t *testing.T, flags ...string) *started {
	t.Helper()
	s := inHome(t, b.home, append([]string{"run"}, flags...)...)
	s.begin(t)
	return s
}

// ended waits for a command and returns what it still printed.
func (s *started) ended(t *testing.T, code exitCode) string {
	t.Helper()
	out, _ := io.ReadAll(s.stdout) // a pipe that the test closed itself
	err := s.Wait()
	var exit *exec.ExitError
	if got := 0; errors.As(err, &exit) {
		if got = exit.ExitCode(); got != int(code) {
			t.Errorf("brig ended with %d, want %d\n%s", got, code, s.stderr.String())
		}
	} else if err != nil || code != 0 {
		t.Errorf("brig ended with %v, want exit code %d\n%s", err, code, s.stderr.String())
	}
	return string(out)
}

func (s *started) says(t *testing.T, want string) {
	t.Helper()
	if !strings.Contains(s.stderr.String(), want) {
		t.Errorf("standard error lacks %q:\n%s", want, s.stderr.String())
	}
}

// TestSignalsThroughBrig ends a run in the brig that stays as it ends one here.
func TestSignalsThroughBrig(t *testing.T) {
	b := startStaying(t, newHome(t))
	for name, x := range map[string]struct {
		sig  syscall.Signal
		code exitCode
		says string
	}{
		"interrupt": {syscall.SIGINT, exitInterrupted, "brig: interrupted\n"},
		"terminate": {syscall.SIGTERM, exitTerminated, "brig: cancelled: told to terminate\n"},
		"quit":      {syscall.SIGQUIT, exitQuit, "brig: cancelled: told to quit\n"},
	} {
		for _, flags := range [][]string{nil, {"--out", "out"}, {"--session", "mine"}} {
			t.Run(strings.Join(append([]string{name}, flags...), " "), func(t *testing.T) {
				s := b.run(t, append(flags, "-c", sleeper)...)
				s.signal(t, x.sig)
				s.ended(t, x.code)
				s.says(t, x.says)
				s.says(t, "brig: host · ")
			})
		}
	}
	t.Run("reader gone", func(t *testing.T) {
		s := b.run(t, "-c", "print('ready', flush=True)\nwhile True: print('more', flush=True)")
		s.pipe.Close()
		s.ended(t, exitPipe)
	})
	// The variables of a session are there after all of that.
	s := b.run(t, "--session", "mine", "-c", "print('ready')")
	s.ended(t, exitOK)
}

// TestInterruptOfWaiting interrupts who waits, never the run that is waited for.
func TestInterruptOfWaiting(t *testing.T) {
	b := startStaying(t, newHome(t))
	first := b.run(t, "--session", "mine", "-c", "import time\nprint('ready', flush=True)\ntime.sleep(3)\nprint('done')")
	second := inHome(t, b.home, "run", "--session", "mine", "-c", "print('never')")
	if err := second.Start(); err != nil {
		t.Fatal(err)
	}
	for waits := false; !waits; {
		out, err := inHome(t, b.home, "session", "show", "--json", "mine").Output()
		if err != nil {
			t.Fatal(err)
		}
		waits = strings.Contains(string(out), `"queued": 1,`)
	}
	second.signal(t, syscall.SIGINT)
	if err := second.Wait(); err == nil {
		t.Error("the second run was not interrupted")
	}
	second.says(t, "interrupted before it was done")
	if out := first.ended(t, exitOK); out != "done\n" {
		t.Errorf("the first run printed %q", out)
	}
}

// TestBrigDiesInRun: the code is not run again, neither there nor here.
func TestBrigDiesInRun(t *testing.T) {
	b := startStaying(t, newHome(t))
	for _, flags := range [][]string{nil, {"--out", "out"}} {
		s := b.run(t, append(flags, "-c", sleeper)...)
		b.kill(t)
		if out := s.ended(t, exitFailed); out != "" {
			t.Errorf("it printed %q after its end", out)
		}
		s.says(t, "the code had begun, and how it ended is not known; it was not run again")
		b = startStaying(t, b.home)
	}
	// And one that was killed is none: then everything is done here.
	b.kill(t)
	s := b.run(t, "-c", "print('ready')")
	s.ended(t, exitOK)
}

// TestBrigHangs: one that does not answer is waited for, but not for long, and nothing
// is done beside it.
func TestBrigHangs(t *testing.T) {
	b := startStaying(t, newHome(t))
	b.signal(t, syscall.SIGSTOP)
	for _, args := range [][]string{{"run", "-c", "print('never')"}, {"status"}, {"session", "list"}, {"files", "ls", "s"}} {
		s := inHome(t, b.home, args...)
		out, err := s.Output()
		var exit *exec.ExitError
		if !errors.As(err, &exit) || exit.ExitCode() != int(exitFailed) || len(out) > 0 {
			t.Errorf("%v: %v, %q", args, err, out)
		}
		s.says(t, "the brig that runs does not answer as it should: no answer within 2s\nhint: kill ")
	}
}
