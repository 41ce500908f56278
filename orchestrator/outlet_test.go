package orchestrator

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"brig/orchestrator/wire"
)

func TestOutletKeepsOrderAndMerges(t *testing.T) {
	o := newOutlet("r", 1<<20)
	buf := []byte("x") // the instance uses its buffer again
	put := func(kind wire.EventKind, late bool, text string) {
		t.Helper()
		buf = append(buf[:0], text...)
		if err := o.put(wire.Event{Kind: kind, Run: "r", Late: late, Data: buf}); err != nil {
			t.Fatal(err)
		}
	}
	put(wire.EventStdout, true, "late;")
	put(wire.EventStdout, false, "a")
	put(wire.EventStdout, false, "b")
	put(wire.EventStderr, false, "c")
	put(wire.EventStdout, false, "d")
	for _, e := range []wire.Event{
		{Kind: wire.EventGap, Run: "r", Stream: wire.StreamStderr, Dropped: 5},
		{Kind: wire.EventDisplay, Run: "r", Display: &wire.Display{Role: "result"}},
	} {
		if err := o.put(e); err != nil {
			t.Fatal(err)
		}
	}
	put(wire.EventStdout, false, "e")
	o.end()
	var got []string
	err := o.deliver(context.Background(), func(e wire.Event) error {
		got = append(got, fmt.Sprintf("%d:%s", e.Kind, e.Data))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if text := strings.Join(got, " "); text != "1:late; 1:ab 2:c 1:d 3: 4: 1:e" {
		t.Errorf("got %s", text)
	}
	if o.stdout != (wire.Count{Total: 4, Kept: 4}) || o.stderr != (wire.Count{Total: 6, Kept: 1, Dropped: 5}) || o.displays != 1 {
		t.Errorf("counts %+v %+v %d", o.stdout, o.stderr, o.displays)
	}
	if err := o.put(wire.Event{Kind: wire.EventStdout, Run: "r"}); err == nil {
		t.Error("something passed after the end")
	}
}

func TestOutletAccountsForWhatACancelledCallerMissed(t *testing.T) {
	o := newOutlet("r", 1<<20)
	ctx, cancel := context.WithCancel(t.Context())
	for _, kind := range []wire.EventKind{wire.EventStdout, wire.EventStderr} {
		if err := o.put(wire.Event{Kind: kind, Run: "r", Data: []byte("12345")}); err != nil {
			t.Fatal(err)
		}
	}
	o.end()
	if err := o.deliver(ctx, func(wire.Event) error { cancel(); return nil }); err != nil {
		t.Fatal(err)
	}
	if o.stdout != (wire.Count{Total: 5, Kept: 5}) || o.stderr != (wire.Count{Total: 5, Dropped: 5}) {
		t.Errorf("counts %+v %+v", o.stdout, o.stderr)
	}
}
