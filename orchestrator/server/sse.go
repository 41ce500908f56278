package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"brig/orchestrator/api"
)

const (
	// eventStream is the media type of server-sent events.
	eventStream = "text/event-stream"
	// openAfter is when a stream on which nothing has happened is begun, so that its
	// reader sees that it is open. Until the beginning a problem has its own status.
	openAfter = 250 * time.Millisecond
	// reconnect is what a client is told to wait before it connects anew, in milliseconds.
	reconnect = 2000
)

// ResumePart says where a stream goes on.
type ResumePart struct {
	LastEventID string `header:"Last-Event-ID" maxLength:"20" pattern:"^[0-9]+$" doc:"the last event that was seen; counts more than after" example:"0"`
	After       uint64 `query:"after" maximum:"9007199254740991" doc:"the last event that was seen; 0: all that are still held"`
}

func (in ResumePart) from() (uint64, error) {
	if in.LastEventID == "" {
		return in.After, nil
	}
	after, err := strconv.ParseUint(in.LastEventID, 10, 64)
	if err != nil {
		p := api.NewProblem(api.CodeInvalid, "Last-Event-ID is not the id of an event", "leave it out")
		p.Errors = []api.FieldError{{Location: "header.Last-Event-ID", Message: "too large a number"}}
		return 0, p
	}
	return after, nil
}

type inRunEvents struct {
	RunPart
	ResumePart
}

func (s *surface) registerEvents(a huma.API) {
	tags := []string{"events"}
	add(a, huma.Operation{
		OperationID: "follow-run", Method: http.MethodGet, Path: "/v1/runs/{run}/events", Tags: tags,
		Summary:     "Follow a run",
		Description: "Its events from after the one named, until its end, which is the last. Closing the stream does not cancel the run.",
		Responses:   events(),
	}, aStream, func(ctx context.Context, in *inRunEvents) (*huma.StreamResponse, error) {
		after, err := in.from()
		if err != nil {
			return nil, err
		}
		return s.streamed(ctx, func(ctx context.Context, emit func(api.Event) error) error {
			return s.brigOf(ctx).Follow(ctx, in.Run, after, emit)
		})
	})
	add(a, huma.Operation{
		OperationID: "watch", Method: http.MethodGet, Path: "/v1/events", Tags: tags,
		Summary:     "Watch what happens in this brig",
		Description: "Changes of sessions, runs, self-tests and of where code would run, as far as this credential may see them. It ends when brig ends or the client closes it.",
		Responses:   events(),
	}, aStream, func(ctx context.Context, in *ResumePart) (*huma.StreamResponse, error) {
		after, err := in.from()
		if err != nil {
			return nil, err
		}
		return s.streamed(ctx, func(ctx context.Context, emit func(api.Event) error) error {
			return s.brigOf(ctx).Watch(ctx, after, emit)
		})
	})
}

// streamed answers with the events that source passes on. It ends when brig begins to end.
func (s *surface) streamed(ctx context.Context, source func(context.Context, func(api.Event) error) error) (*huma.StreamResponse, error) {
	return s.streamedUntil(ctx, s.ending, source)
}

// streamedRun does so for a run that the end of the stream would cancel by force: when
// brig ends it ends the run as its session needs it, and the stream tells of that.
func (s *surface) streamedRun(ctx context.Context, source func(context.Context, func(api.Event) error) error) (*huma.StreamResponse, error) {
	return s.streamedUntil(ctx, nil, source)
}

func (s *surface) streamedUntil(ctx context.Context, ending <-chan struct{}, source func(context.Context, func(api.Event) error) error) (*huma.StreamResponse, error) {
	release, err := s.streams.take(s.who(ctx), s.root(ctx))
	if err != nil {
		return nil, err
	}
	return &huma.StreamResponse{Body: func(c huma.Context) {
		defer release()
		r, w := humago.Unwrap(c)
		s.stream(c.Context(), ending, w, r, source)
	}}, nil
}

// stream writes events until source returns, the client is gone or ending is closed. The
// context of source ends with the stream.
func (s *surface) stream(ctx context.Context, ending <-chan struct{}, w http.ResponseWriter, r *http.Request, source func(context.Context, func(api.Event) error) error) {
	if r.Method == http.MethodHead { // there is nothing to follow without a body
		w.Header().Set("Content-Type", eventStream)
		w.WriteHeader(http.StatusOK)
		return
	}
	ctx, cancel := context.WithCancelCause(ctx)
	out := &eventWriter{w: w, control: http.NewResponseController(w)}
	var beating sync.WaitGroup
	defer beating.Wait() // whatever source does: nothing may write when the handler is gone
	defer cancel(nil)
	beating.Go(func() { s.keepAlive(ctx, ending, cancel, out) })
	err := source(ctx, func(e api.Event) error {
		if err := out.event(e); err != nil {
			cancel(err)
			return err
		}
		return nil
	})
	if cause := context.Cause(ctx); cause != nil && errors.Is(err, context.Canceled) {
		err = cause
	}
	cancel(nil)
	beating.Wait()
	switch {
	case err == nil || errors.Is(err, errStreamBroken) || r.Context().Err() != nil:
		_ = out.open() // a stream without events is a stream all the same
	case !out.opened:
		s.fail(w, r, err)
	default:
		s.breakOff(r.Context(), out, err)
	}
}

// breakOff tells of a problem when the status was already sent.
func (s *surface) breakOff(ctx context.Context, out *eventWriter, err error) {
	data, _ := json.Marshal(s.stamped(ctx, asProblem(ctx, err), err)) // plain strings and numbers
	_ = out.event(api.Event{Kind: api.EventProblem, Time: time.Now().UTC(), Data: data})
}

// keepAlive writes a comment now and then, so that either side sees when the other is
// gone, and ends the stream when ending is closed.
func (s *surface) keepAlive(ctx context.Context, ending <-chan struct{}, cancel context.CancelCauseFunc, out *eventWriter) {
	wait := time.NewTimer(openAfter)
	defer wait.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ending:
			cancel(api.NewProblem(api.CodeShuttingDown, "brig ends", "start it again with brig up"))
			return
		case <-wait.C:
			if err := out.beat(); err != nil {
				cancel(err)
				return
			}
			wait.Reset(s.beat)
		}
	}
}

// errStreamBroken says that the reader of a stream is gone or too slow.
var errStreamBroken = errors.New("the stream's reader is gone")

// eventWriter writes server-sent events. A reader that does not keep up breaks its
// connection, whose writes have deadlines.
type eventWriter struct {
	w       http.ResponseWriter
	control *http.ResponseController

	mu     sync.Mutex
	opened bool
	broken bool
}

func (o *eventWriter) open() error { return o.write("") }

func (o *eventWriter) beat() error { return o.write(": \n\n") }

func (o *eventWriter) event(e api.Event) error {
	data, err := json.Marshal(e)
	if err != nil {
		return fmt.Errorf("write event %d: %w", e.ID, err)
	}
	id := ""
	if e.ID > 0 { // one of a reset or a problem would become the client's last
		id = "id: " + strconv.FormatUint(e.ID, 10) + "\n"
	}
	return o.write(id + "event: " + string(e.Kind) + "\ndata: " + string(data) + "\n\n")
}

// write sends text at once. After an error nothing more is written.
func (o *eventWriter) write(text string) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.broken {
		return errStreamBroken
	}
	if !o.opened {
		o.opened = true
		h := o.w.Header()
		h.Set("Content-Type", eventStream)
		h.Set("Cache-Control", "no-store")
		h.Set("X-Accel-Buffering", "no") // a proxy must not hold events back
		o.w.WriteHeader(http.StatusOK)
		text = "retry: " + strconv.Itoa(reconnect) + "\n\n" + text
	}
	if _, err := o.w.Write([]byte(text)); err != nil {
		o.broken = true
		return fmt.Errorf("%w: %w", errStreamBroken, err)
	}
	if err := o.control.Flush(); err != nil && !errors.Is(err, http.ErrNotSupported) {
		o.broken = true
		return fmt.Errorf("%w: %w", errStreamBroken, err)
	}
	return nil
}

// streamCaps bounds event streams, which are cheap for those who open and forget them.
type streamCaps struct {
	total, agents, each int

	mu       sync.Mutex
	all      int
	ofAgents int
	of       map[string]int
}

// take counts a stream of who, whose credential is root's, until release is called.
func (c *streamCaps) take(who, root string) (release func(), err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	agent := root != operatorID
	if c.all >= c.total || agent && c.ofAgents >= c.agents || c.of[who] >= c.each {
		p := api.NewProblem(api.CodeTooMany, "too many event streams are open", "close one, or ask without a stream")
		p.RetryAfter = 5
		return nil, p
	}
	c.all++
	if agent {
		c.ofAgents++
	}
	c.of[who]++
	return sync.OnceFunc(func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.all--
		if agent {
			c.ofAgents--
		}
		if c.of[who]--; c.of[who] == 0 {
			delete(c.of, who)
		}
	}), nil
}
