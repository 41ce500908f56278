package service

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"time"

	"brig/orchestrator"
	"brig/orchestrator/api"
	"brig/orchestrator/sandbox"
	"brig/orchestrator/wire"
)

const (
	// recentMost and recentBytes bound what is held in memory of runs that have ended,
	// for who follows them late; everything else of them is in the store.
	recentMost  = 128
	recentBytes = 64 << 20
)

// run is one execution under way, or one that ended lately.
type run struct {
	s       *Service
	session *session
	v       *view // of who asked
	request api.RunRequest
	source  []byte // until it has ended
	id      wire.RunID
	events  *ring
	life    context.Context // ends where it is cancelled
	cancel  context.CancelCauseFunc

	queued chan struct{} // closed when it has its place in the queue
	done   chan struct{} // closed when it has ended and is recorded
	// problem is why it never began, for who waits for it; set before done is closed.
	problem error

	mu   sync.Mutex
	view api.Run // guarded by mu

	// Of the goroutine that runs it alone.
	texts          [2]text // stdout, stderr
	stdout, stderr kept
	shown          displayed
}

func (r *run) now() api.Run {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.view
}

// admit counts a run in, within all bounds.
func (s *Service) admit(r *run) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closing:
		return shutting()
	case r.session.pending >= pendingMost:
		return retry(api.NewProblem(api.CodeBusy, "too many runs wait for this session", ""), 1)
	case s.sources+int64(len(r.source)) > sourcesMost:
		return retry(api.NewProblem(api.CodeTooMany, "the programs of all runs under way are too large together", ""), 1)
	}
	r.session.pending++
	s.sources += int64(len(r.source))
	s.runs[string(r.id)] = r
	s.work.Add(1)
	return nil
}

// dismiss takes a run back that was not begun.
func (s *Service) dismiss(r *run) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r.session.pending--
	s.sources -= int64(len(r.source))
	delete(s.runs, string(r.id))
	s.work.Done()
}

// begin starts a run that is recorded.
func (r *run) begin() {
	r.announce()
	go func() {
		defer r.s.work.Done()
		defer r.cancel(nil)
		result, err := r.execute(r.life)
		r.finish(result, err)
		if r.session.oneShot {
			r.closeShot()
		}
	}()
}

// execute runs it to its end, in its session or in one of its own.
func (r *run) execute(ctx context.Context) (orchestrator.Result, error) {
	if r.session.oneShot {
		if err := r.v.openShot(ctx, r.session, r.request.Session); err != nil {
			return orchestrator.Result{}, err
		}
		// What contains the code is told before any of it runs.
		r.events.publish(held{event: api.Event{Kind: api.EventSession, Data: mustJSON(r.s.inFull(r.session))}})
	}
	if err := r.putFiles(ctx); err != nil {
		return orchestrator.Result{}, err
	}
	return r.session.live.Run(ctx, orchestrator.RunRequest{
		ID: r.id, Source: r.source, Filename: r.request.Filename, Argv: r.request.Argv, Once: r.request.Once,
		Timeout:  time.Duration(r.request.TimeoutMs) * time.Millisecond,
		Accepted: func() { close(r.queued) },
		Began:    r.began,
		Permit:   r.v.permits,
	}, r.collect)
}

// began notes that it has an interpreter.
func (r *run) began() {
	r.mu.Lock()
	r.view.State, r.view.Started = api.RunRunning, moment(time.Now())
	stamp := stampOf(r.session.live.Info().Stamp, r.v.c.Approval)
	r.view.Stamp = &stamp
	view := r.view
	r.mu.Unlock()
	r.s.tally.began()
	r.events.publish(held{event: api.Event{Kind: api.EventStarted, Data: mustJSON(view)}})
	r.announce()
}

// announce tells all who watch how it stands.
func (r *run) announce() {
	r.s.feed.publish(held{about: r.session, event: api.Event{Kind: api.EventRun, Data: mustJSON(brief(r.now()))}})
}

// collect is the emit of the run. It never waits.
func (r *run) collect(e wire.Event) error {
	switch e.Kind {
	case wire.EventStdout, wire.EventStderr:
		r.print(e)
	case wire.EventGap:
		stream, kind, k := 0, string(api.EventStdout), &r.stdout
		if e.Stream == wire.StreamStderr {
			stream, kind, k = 1, string(api.EventStderr), &r.stderr
		}
		r.flush(stream)
		if !e.Late {
			k.gap = true
		}
		r.events.publish(held{event: api.Event{Kind: api.EventGap, Data: mustJSON(api.Gap{Stream: kind, DroppedBytes: e.Dropped, Slow: e.Slow})}})
	case wire.EventDisplay:
		d, ok := r.shown.add(e.Display)
		if ok {
			r.events.publish(held{event: api.Event{Kind: api.EventDisplay, Data: mustJSON(d)}})
		}
	}
	return nil
}

// print passes output on, and keeps what is this run's own.
func (r *run) print(e wire.Event) {
	stream, kind, k := 0, api.EventStdout, &r.stdout
	if e.Kind == wire.EventStderr {
		stream, kind, k = 1, api.EventStderr, &r.stderr
	}
	var c api.Chunk
	ok := true
	if e.Late {
		t := text{}
		if c, ok = t.chunk(e.Data, true); ok {
			c.Late = true
		}
	} else {
		k.add(e.Data)
		c, ok = r.texts[stream].chunk(e.Data, false)
	}
	if ok {
		r.events.publish(held{event: api.Event{Kind: kind, Data: mustJSON(c)}})
	}
}

// flush passes on what waited for the rest of a character that does not come.
func (r *run) flush(stream int) {
	if c, ok := r.texts[stream].chunk(nil, true); ok {
		r.events.publish(held{event: api.Event{Kind: []api.EventKind{api.EventStdout, api.EventStderr}[stream], Data: mustJSON(c)}})
	}
}

// finish puts the run's end together, records it, and then tells of it.
func (r *run) finish(result orchestrator.Result, err error) {
	r.flush(0)
	r.flush(1)
	final := r.final(result, err)
	if recordErr := r.s.recordEnd(r, &final, result.Stamp); recordErr != nil {
		final.Detail = join(final.Detail, "the record of this run could not be written: "+recordErr.Error())
	}
	r.mu.Lock()
	begun := r.view.Started != nil
	r.view = final
	r.mu.Unlock()
	r.texts, r.stdout, r.stderr = [2]text{}, kept{}, kept{}
	r.s.tally.ended(final, result, begun)
	line := r.s.options.Log.Info()
	if final.Cause == string(sandbox.Internal) {
		line = r.s.options.Log.Error().Err(err)
	}
	line.Str("run", final.ID).Str("session", final.Session).Str("cause", final.Cause).Float64("ms", final.ElapsedMs).Msg("run ended")
	r.events.publish(held{event: api.Event{Kind: api.EventEnd}, data: func(*view) json.RawMessage { return mustJSON(r.now()) }})
	r.events.end()
	r.announce()
	r.s.retain(r)
	close(r.done)
}

// final is the run as it ended. One that never began has a cause as well.
func (r *run) final(result orchestrator.Result, err error) api.Run {
	out := r.now()
	out.State, out.Ended = api.RunEnded, moment(time.Now())
	if err != nil && result.Run == "" {
		out.Stamp = r.s.stamped(r.s.nothing(r.session.name), r.v.c.Approval)
		if r.life.Err() != nil { // as one that was cancelled in the queue
			out.Cause, out.Detail = string(sandbox.Cancelled), orchestrator.CancelledBy(r.life, " before it began")
			if r.cut() {
				out.Cause = string(sandbox.BackendLost)
			}
			return out
		}
		r.problem = r.s.problem(err)
		out.Cause, out.Detail = string(sandbox.Refused), "it never began: "+r.problem.Error()
		if errors.Is(r.problem, &api.Problem{Code: api.CodeInternal}) {
			out.Cause = string(sandbox.Internal)
		}
		return out
	}
	out.Cause, out.RunnerReported, out.Detail = string(result.Cause), result.RunnerReported, result.Detail
	if result.Cause == sandbox.Cancelled && r.cut() {
		out.Cause = string(sandbox.BackendLost) // as where brig had no time to say so
	}
	if result.Cause == sandbox.Exit {
		status := result.Status
		out.ExitStatus = &status
	}
	out.Signal, out.Exception, out.Log = result.Signal, exceptionOf(result.Exception), logOf(result.Log)
	out.Stdout, out.Stderr = r.stdout.output(result.Stdout), r.stderr.output(result.Stderr)
	out.Displays, out.DisplaysDropped = notNil(r.shown.all), r.shown.dropped
	out.Variables, out.NotCarried = string(result.State), result.NotCarried
	out.NotBrought = result.NotBrought
	out.ElapsedMs, out.QueuedMs = milliseconds(result.Elapsed), milliseconds(result.Queued)
	out.Stamp = r.s.stamped(result.Stamp, r.v.c.Approval)
	return out
}

// brigEnded is the cause where nobody but the end of brig ended a run.
const brigEnded = orchestrator.CancelCause("brig ended")

// cut says that the end of brig ended a run which nobody had cancelled.
func (r *run) cut() bool {
	cause := context.Cause(r.life)
	return cause == error(brigEnded) || cause == nil && r.s.life.Err() != nil
}

// neverRan stands for the containment of what was not executed.
const neverRan = "nothing ran"

func (s *Service) nothing(session string) orchestrator.Stamp {
	return orchestrator.Stamp{
		Session: session, Guard: "none", Containment: neverRan, Configured: s.options.Config().Config.Execution.Backend,
	}
}

func (s *Service) stamped(st orchestrator.Stamp, by api.Approval) *api.Stamp {
	out := stampOf(st, by)
	if st.Containment == neverRan {
		out.Line = "brig: " + neverRan
	}
	return &out
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

func join(a, b string) string {
	if a == "" {
		return b
	}
	return a + "; " + b
}

// retain keeps a run that has ended for a while, and forgets older ones.
func (s *Service) retain(r *run) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r.session.pending--
	s.sources -= int64(len(r.source))
	r.source, r.request = nil, api.RunRequest{}
	s.recent = append(s.recent, r)
	s.held += r.weight()
	for len(s.recent) > 1 && (len(s.recent) > recentMost || s.held > recentBytes) {
		old := s.recent[0]
		s.recent[0] = nil
		s.recent = s.recent[1:]
		s.held -= old.weight()
		delete(s.runs, string(old.id))
	}
}

// weight is what a run that has ended takes in memory, in bytes.
func (r *run) weight() int {
	w := r.events.size() + 4096 + len(r.view.Stdout.Text) + len(r.view.Stdout.Tail) + len(r.view.Stdout.Base64) +
		len(r.view.Stderr.Text) + len(r.view.Stderr.Tail) + len(r.view.Stderr.Base64) + r.shown.bytes
	return w
}
