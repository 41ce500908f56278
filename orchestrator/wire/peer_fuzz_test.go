package wire

import (
	"bytes"
	"io"
	"sync"
	"testing"
)

// FuzzPeer lets a runner say anything after a good beginning: the run ends, and
// it ends well only where an exit was said.
func FuzzPeer(f *testing.F) {
	var b bytes.Buffer
	w := NewWriter(&b)
	text := func(s string) RawFrame { return RawFrame{Kind: KindControl, Payload: []byte(s)} }
	for _, frame := range []RawFrame{
		text(`{"type":"started","run":"r1"}`),
		{KindData, StreamStdout, []byte("a")},
		text(`{"type":"gap","run":"r1","name":"stdout","bytes":4}`),
		text(display("figure", "image/png", 3, 4)),
		{KindData, 4, []byte("abc")},
		{KindCredit, 3, []byte{0, 0, 1, 0}},
		{KindReset, 3, []byte("enough")},
		{KindEnd, 4, nil},
		text(exitOf("r1")),
		{KindData, StreamStderr, []byte("late")},
		text(`{"type":"reply","id":"c1"}`),
	} {
		if err := w.Write(frame); err != nil {
			f.Fatal(err)
		}
		f.Add(bytes.Clone(b.Bytes()))
	}
	greeting, err := EncodeMessage(testReady())
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, said []byte) {
		r, fromRunner := io.Pipe()
		hello, running := make(chan struct{}), make(chan struct{})
		toRunner := writerFunc(func(p []byte) (int, error) {
			switch {
			case bytes.Contains(p, []byte(`"type":"hello"`)):
				close(hello)
			case bytes.Contains(p, []byte(`"type":"run"`)):
				close(running)
			}
			return len(p), nil
		})
		var runner sync.WaitGroup
		runner.Go(func() {
			<-hello
			_ = WriteFrame(fromRunner, RawFrame{Kind: KindControl, Payload: greeting})
			<-running
			_, _ = fromRunner.Write(said)
			_ = fromRunner.Close()
		})
		p := NewPeer(r, toRunner, PeerOptions{Close: r.Close})
		if _, err := p.Hello(t.Context(), testHello()); err != nil {
			t.Fatal(err)
		}
		exit, err := p.Run(t.Context(), Run{ID: "r1", Source: []byte("x")}, func(Event) error { return nil })
		if err == nil && (exit.Run != "r1" || !saysExit(said)) {
			t.Fatalf("a success: %+v", exit)
		}
		if err := p.Close(); err != nil {
			t.Fatal(err)
		}
		runner.Wait()
	})
}

// saysExit reports whether b holds the exit of r1 in a whole frame.
func saysExit(b []byte) bool {
	d := NewReader(bytes.NewReader(b))
	for {
		f, err := d.Next()
		if err != nil {
			return false
		}
		if m, err := DecodeMessage(f.Payload, RoleRunner); err == nil {
			if exit, ok := m.(Exit); ok && exit.Run == "r1" {
				return true
			}
		}
	}
}
