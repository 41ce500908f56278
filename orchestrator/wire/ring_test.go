package wire

import (
	"bytes"
	"strings"
	"testing"
)

// drain takes all events that are there now.
func drain(r *ring) *record {
	var got record
	for {
		r.mu.Lock()
		empty := len(r.events) == 0
		r.mu.Unlock()
		if empty {
			return &got
		}
		e, _ := r.next()
		_ = got.emit(e)
	}
}

func TestRingJoinsSmallWrites(t *testing.T) {
	r := newRing(0)
	for range 200_000 {
		r.output("r1", StreamStdout, nil)
		r.output("r1", StreamStdout, []byte("x"))
	}
	r.output("r1", StreamStderr, []byte("e"))
	r.output("r1", StreamStdout, []byte("o"))
	got := drain(r)
	want := (200_000+MaxPayload-1)/MaxPayload + 2
	if len(got.events) != want {
		t.Errorf("%d events, want %d", len(got.events), want)
	}
	if tail := (&record{got.events[want-2:]}).String(); tail != "err(r1) \"e\"\nout(r1) \"o\"\n" {
		t.Errorf("order: %s", tail)
	}
	if r.bytes != 0 {
		t.Errorf("%d bytes are charged to an empty ring", r.bytes)
	}
}

func TestRingDropsOutputOnly(t *testing.T) {
	r := newRing(1000)
	r.output("r1", StreamStdout, []byte("kept"))
	r.output("r1", StreamStdout, bytes.Repeat([]byte("x"), 1001)) // dropped
	r.output("r1", StreamStderr, []byte("ee"))                    // the ring is nearly empty: on it goes, after the gap
	if got, want := drain(r).String(), "out(r1) \"kept\"\ngap(r1) 1 1001 true\nerr(r1) \"ee\"\n"; got != want {
		t.Errorf("got %swant %s", got, want)
	}

	for range 5 {
		r.output("r1", StreamStdout, bytes.Repeat([]byte("x"), 100))
		r.output("r1", StreamStderr, bytes.Repeat([]byte("y"), 100))
	}
	r.gap("r1", StreamStdout, 5)
	r.gap("r1", StreamStdout, 1<<62)
	r.gap("r1", StreamStdout, 1<<62)
	r.add(Event{Kind: EventDisplay, Run: "r1", Display: &Display{Role: "result"}})
	r.close("r1")
	r.output("r1", StreamStdout, []byte("after the end"))
	got := drain(r).String()
	if !strings.Contains(got, "display(r1) result\n") || strings.Contains(got, "after") {
		t.Errorf("got %s", got)
	}
	if !strings.HasSuffix(got, "gap(r1) 1 9223372036854775806 false\ngap(r1) 1 300 true\ngap(r1) 2 300 true\n") {
		t.Errorf("got %s", got)
	}
	if _, ok := r.next(); ok {
		t.Error("an event after the end")
	}
}

func TestLateOutputIsBounded(t *testing.T) {
	var l lateOutput
	for range 200_000 {
		l.output(StreamStdout, []byte("o"))
		l.output(StreamStderr, []byte("e"))
	}
	l.gap(StreamStderr, 7)
	events := l.take()
	if len(events) != maxLateEvents+2 {
		t.Errorf("%d events", len(events))
	}
	var total int64
	for _, e := range events {
		total += int64(len(e.Data)) + e.Dropped
	}
	if total != 400_007 {
		t.Errorf("%d bytes are accounted for", total)
	}
}
