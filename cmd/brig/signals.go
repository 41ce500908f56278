package main

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"sync"
	"syscall"
)

var (
	errInterrupted = errors.New("interrupted")
	errTerminated  = errors.New("told to terminate")
	errQuit        = errors.New("told to quit")
)

// signals turns what the system tells brig into the end of what it is doing. The
// first Ctrl-C asks the running code to stop, if code is running; the second
// ends it; the third ends brig itself and leaves the rest to what ends sessions
// whose brig died. To terminate or to quit (Ctrl-\) is to end at once, but in order.
type signals struct {
	ctx    context.Context
	cancel context.CancelCauseFunc
	got    chan os.Signal
	done   chan struct{}

	mu   sync.Mutex
	soft func() // asks the running code to stop; nil while none runs
}

func watchSignals(parent context.Context) *signals {
	s := &signals{got: make(chan os.Signal, 4), done: make(chan struct{})}
	s.ctx, s.cancel = context.WithCancelCause(parent)
	// A closed standard output must come back as a write error, so that the
	// session is closed in order: hence SIGPIPE, which is caught and not ignored
	// because what brig starts would inherit the latter.
	for _, sig := range []os.Signal{os.Interrupt, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGPIPE} {
		if !signal.Ignored(sig) { // as nohup, and shells for jobs in the background, want it
			signal.Notify(s.got, sig)
		}
	}
	go s.loop()
	return s
}

func (s *signals) loop() {
	defer close(s.done)
	interrupts := 0
	for sig := range s.got {
		switch sig {
		case syscall.SIGPIPE:
		case os.Interrupt:
			interrupts++
			if interrupts == 3 {
				os.Exit(int(exitInterrupted))
			}
			if soft := s.running(); interrupts > 1 || soft == nil {
				s.cancel(errInterrupted)
			} else {
				soft()
			}
		case syscall.SIGQUIT:
			s.cancel(errQuit)
		default:
			s.cancel(errTerminated)
		}
	}
}

func (s *signals) running() func() {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.soft
}

// whileRunning sets what the first Ctrl-C does; nil: nothing runs.
func (s *signals) whileRunning(soft func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.soft = soft
}

// close gives the signals back and waits for the loop.
func (s *signals) close() {
	signal.Stop(s.got)
	close(s.got)
	<-s.done
	s.cancel(nil)
}

// exit is the exit code that a cancelled context asks for.
func (s *signals) exit() (exitCode, bool) {
	switch cause := context.Cause(s.ctx); {
	case errors.Is(cause, errTerminated):
		return exitTerminated, true
	case errors.Is(cause, errQuit):
		return exitQuit, true
	case errors.Is(cause, errInterrupted):
		return exitInterrupted, true
	default:
		return exitOK, false
	}
}
