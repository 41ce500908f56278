package api

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strconv"
	"time"
)

const eventStream = "text/event-stream"

// maxEvent bounds one event, in bytes: figures travel in them.
const maxEvent = 128 << 20

// patience is how long a stream that broke is tried again without an answer, and
// pause how long the first attempt waits, unless brig asks for something else.
const (
	patience = 15 * time.Second
	pause    = 200 * time.Millisecond
	maxPause = 5 * time.Second
)

func isEventStream(answer *http.Response) bool {
	kind, _, _ := mime.ParseMediaType(answer.Header.Get("Content-Type"))
	return kind == eventStream
}

// emitError is an error of the caller's own emit.
type emitError struct{ err error }

func (e *emitError) Error() string { return e.err.Error() }
func (e *emitError) Unwrap() error { return e.err }

// follow reads an event stream to the event of kind last and takes it up again where
// it broke. It never repeats an event.
func (c *Client) follow(ctx context.Context, path string, after uint64, last EventKind, emit func(Event) error) error {
	wait, lost := pause, time.Time{}
	for {
		seen := after
		done, err := c.followOnce(ctx, path, &after, &wait, last, emit)
		var own *emitError
		switch {
		case done:
			return nil
		case errors.As(err, &own):
			return own.err
		case ctx.Err() != nil:
			return ended(ctx)
		case !again(err):
			return err
		}
		if after != seen || lost.IsZero() {
			lost = time.Now()
		}
		if time.Since(lost) > patience {
			return err
		}
		var p *Problem
		if errors.As(err, &p) && p.RetryAfter > 0 {
			wait = time.Duration(min(p.RetryAfter, int(patience/time.Second))) * time.Second
		}
		select {
		case <-ctx.Done():
			return ended(ctx)
		case <-time.After(wait):
		}
		wait = min(2*wait, maxPause)
	}
}

// again tells whether asking again for a stream can help: the connection broke, or brig
// has too many streams now.
func again(err error) bool {
	var p *Problem
	if !errors.As(err, &p) {
		return err == nil // it ended without its last event
	}
	switch p.Code {
	case CodeInterruptedIO, CodeUnreachable, CodeTooMany, CodeRate:
		return true
	default:
		return false
	}
}

func (c *Client) followOnce(ctx context.Context, path string, after *uint64, wait *time.Duration, last EventKind, emit func(Event) error) (done bool, err error) {
	header := http.Header{"Accept": {eventStream}}
	if *after > 0 {
		header.Set("Last-Event-ID", strconv.FormatUint(*after, 10))
	}
	answer, err := c.send(ctx, call{method: http.MethodGet, path: path, header: header})
	if err != nil {
		return false, err
	}
	defer answer.Body.Close()
	if !isEventStream(answer) {
		return false, NewProblem(CodeNotAccepted, "brig answered with something else than a stream of events", "brig status")
	}
	s := newEvents(answer.Body)
	for {
		e, err := s.next()
		if s.retry > 0 {
			*wait = s.retry
		}
		if err != nil {
			return false, broke(ctx, err)
		}
		if e.ID != 0 && e.ID <= *after {
			continue
		}
		if e.ID != 0 {
			*after = e.ID
		}
		if emit != nil {
			if err := emit(e); err != nil {
				return false, &emitError{err}
			}
		}
		if e.Kind == last {
			return true, nil
		}
	}
}

// events reads server-sent events.
type events struct {
	r     *bufio.Reader
	retry time.Duration // what brig asked to wait before a reconnection; 0: nothing
}

func newEvents(r io.Reader) *events { return &events{r: bufio.NewReaderSize(r, 64<<10)} }

// next returns the next event; io.EOF where the stream ended between two.
func (s *events) next() (Event, error) {
	var kind, id string
	var data []byte
	size := 0
	for {
		line, err := s.line(maxEvent - size)
		if err != nil {
			return Event{}, err
		}
		size += len(line)
		if len(line) == 0 {
			if kind == "" && data == nil {
				size = 0
				continue
			}
			return readEvent(id, kind, data)
		}
		field, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimPrefix(value, []byte(" "))
		switch string(field) {
		case "event":
			kind = string(value)
		case "id":
			id = string(value)
		case "data":
			if data != nil {
				data = append(data, '\n')
			}
			data = append(data, value...)
		case "retry":
			if ms, err := strconv.Atoi(string(value)); err == nil && ms > 0 {
				s.retry = min(time.Duration(ms)*time.Millisecond, maxPause)
			}
		}
	}
}

// line reads one without its end. A comment is an empty field name and passes as one.
func (s *events) line(most int) ([]byte, error) {
	var line []byte
	for {
		part, err := s.r.ReadSlice('\n')
		if len(line)+len(part) > most {
			return nil, fmt.Errorf("one event has more than %d bytes", maxEvent)
		}
		line = append(line, part...)
		switch {
		case err == nil:
			return bytes.TrimRight(line, "\r\n"), nil
		case errors.Is(err, bufio.ErrBufferFull):
		case errors.Is(err, io.EOF) && len(line) > 0:
			return nil, io.ErrUnexpectedEOF
		default:
			return nil, err
		}
	}
}

// readEvent takes an event as brig writes it: its data is the whole Event. The one
// that says why the stream cannot go on is its error.
func readEvent(id, kind string, data []byte) (Event, error) {
	var e Event
	if err := json.Unmarshal(data, &e); err != nil {
		return e, fmt.Errorf("read an event: %w", err)
	}
	if kind == string(EventProblem) && e.Data == nil {
		e.Data = data
	}
	if id != "" {
		n, err := strconv.ParseUint(id, 10, 64)
		if err != nil {
			return e, fmt.Errorf("read an event: its id is no number")
		}
		e.ID = n
	}
	if kind != "" {
		e.Kind = EventKind(kind)
	}
	if e.Kind == EventProblem {
		return e, problemIn(e.Data)
	}
	return e, nil
}

// problemIn is the problem that an event tells of.
func problemIn(data []byte) error {
	p := &Problem{}
	if err := json.Unmarshal(data, p); err != nil || p.Code == "" {
		return NewProblem(CodeInterruptedIO, "brig broke the stream off and did not say why", "brig status")
	}
	return p
}
