package orchestrator

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"brig/orchestrator/sandbox"
	"brig/orchestrator/wire"
)

// taken is an instance whose runner user code has taken over: it says what it likes.
type taken struct {
	sandbox.Instance
	run func(ctx context.Context, req wire.Run, emit func(wire.Event) error) (wire.Exit, error)
}

func (i taken) Run(ctx context.Context, req wire.Run, emit func(wire.Event) error) (wire.Exit, error) {
	return i.run(ctx, req, emit)
}

func TestFloodEndsTheRun(t *testing.T) {
	display := func(run wire.RunID) wire.Event {
		return wire.Event{Kind: wire.EventDisplay, Run: run, Display: &wire.Display{Data: []wire.Part{{MIME: "image/png", Data: make([]byte, 1<<20)}}}}
	}
	for _, c := range []struct {
		name  string
		event func(run wire.RunID) wire.Event
		most  int64 // bytes of it that may pass
	}{
		{"standard output", func(run wire.RunID) wire.Event {
			return wire.Event{Kind: wire.EventStdout, Run: run, Data: make([]byte, 64<<10)}
		}, 2 << 20},
		{"standard error in pieces", func(run wire.RunID) wire.Event {
			return wire.Event{Kind: wire.EventStderr, Run: run, Data: []byte("0123456789abcdef")}
		}, 2 << 20},
		{"output it calls late", func(wire.RunID) wire.Event {
			return wire.Event{Kind: wire.EventStdout, Run: "earlier", Late: true, Data: make([]byte, 64<<10)}
		}, 2 << 20},
		{"displays", display, wire.MaxBundle + outputSlack},
		{"gaps", func(run wire.RunID) wire.Event {
			return wire.Event{Kind: wire.EventGap, Run: run, Stream: wire.StreamStdout, Dropped: 1}
		}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				s := newRig(t).open(t, SessionOptions{})
				s.bound.instance = taken{s.bound.instance, func(_ context.Context, req wire.Run, emit func(wire.Event) error) (wire.Exit, error) {
					for {
						if err := emit(c.event(req.ID)); err != nil {
							return wire.Exit{Run: req.ID, Outcome: wire.OutcomeOK, State: wire.StateKept}, err
						}
					}
				}}
				var passed int64
				r, err := s.Run(t.Context(), RunRequest{}, func(e wire.Event) error {
					passed += int64(len(e.Data))
					if e.Display != nil {
						passed += int64(len(e.Display.Data[0].Data))
					}
					return nil
				})
				if err != nil {
					t.Fatal(err)
				}
				want(t, r, sandbox.OutputOut, wire.StateKept)
				if passed > c.most || c.most > 0 && passed < c.most-1<<20-64<<10 {
					t.Errorf("%d bytes passed, at most %d may", passed, c.most)
				}
				if late := c.name == "output it calls late"; !late && c.most == 2<<20 && r.Stdout.Kept+r.Stderr.Kept != passed || late && r.Stdout.Total != 0 {
					t.Errorf("counts %+v %+v of %d", r.Stdout, r.Stderr, passed)
				}
			})
		})
	}
}

func TestRunnerThatLies(t *testing.T) {
	for _, c := range []struct {
		name string
		exit wire.Exit
		err  error
	}{
		{"about which run ended", wire.Exit{Run: "another", Outcome: wire.OutcomeOK, State: wire.StateKept}, nil},
		{"with an end beside a loss", wire.Exit{Outcome: wire.OutcomeOK, State: wire.StateKept}, &sandbox.Lost{}},
		{"with an outcome nobody knows", wire.Exit{Outcome: "splendid", State: wire.StateKept}, nil},
		{"with an error of its own", wire.Exit{}, errors.New("oh")},
		{"about being busy", wire.Exit{}, wire.ErrBusy},
		{"about being closed", wire.Exit{}, sandbox.ErrClosed},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				s := newRig(t).open(t, SessionOptions{})
				s.bound.instance = taken{s.bound.instance, func(_ context.Context, req wire.Run, _ func(wire.Event) error) (wire.Exit, error) {
					if c.exit.Run == "" && c.exit.Outcome != "" {
						c.exit.Run = req.ID
					}
					return c.exit, c.err
				}}
				r, err := s.Run(t.Context(), RunRequest{}, nil)
				if err != nil || r.Cause != sandbox.Internal && r.Cause != sandbox.BackendLost || r.RunnerReported {
					t.Errorf("%+v, %v", r, err)
				}
				if r.Detail == "" {
					t.Error("without a word")
				}
			})
		})
	}
}

// An instance whose Run never comes back costs a goroutine, not an answer.
func TestInstanceThatNeverAnswers(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s, err := newRig(t).Open(t.Context(), SessionOptions{})
		if err != nil {
			t.Fatal(err)
		}
		release := make(chan struct{})
		s.bound.instance = taken{s.bound.instance, func(context.Context, wire.Run, func(wire.Event) error) (wire.Exit, error) {
			<-release
			return wire.Exit{}, &sandbox.Lost{}
		}}
		r, err := s.Run(t.Context(), RunRequest{Timeout: time.Second}, nil)
		if err != nil {
			t.Fatal(err)
		}
		want(t, r, sandbox.Timeout, wire.StateLost)
		within(t, "the answer", r.Elapsed, time.Second, time.Second+answerBound)
		again(t, s, "did not answer")
		begin := time.Now()
		if err := s.Close(t.Context()); err == nil || !strings.Contains(err.Error(), "wait for the session's run") {
			t.Errorf("close: %v", err)
		}
		within(t, "closing", time.Since(begin), sessionBound, sessionBound+time.Second)
		close(release)
	})
}
