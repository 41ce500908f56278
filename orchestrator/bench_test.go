package orchestrator

import (
	"context"
	"fmt"
	"testing"

	. "brig/orchestrator/sandbox/sandboxtest"
	"brig/orchestrator/wire"
)

// BenchmarkRun is what a session adds to a call into its instance: compare
// Session with Instance, which is the same run without it.
func BenchmarkRun(b *testing.B) {
	for _, size := range []int64{0, 1 << 20} {
		source := Program{Write(Stdout, Numbered, size)}.Source()
		discard := func(wire.Event) error { return nil }
		b.Run(fmt.Sprintf("Instance/%d", size), func(b *testing.B) {
			i := newRig(b).open(b, SessionOptions{}).latest().instance
			b.SetBytes(size)
			n := 0
			for b.Loop() {
				n++
				run := wire.Run{ID: wire.RunID(fmt.Sprint("r", n)), Source: source}
				if _, err := i.Run(context.Background(), run, discard); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(fmt.Sprintf("Session/%d", size), func(b *testing.B) {
			s := newRig(b).open(b, SessionOptions{})
			b.SetBytes(size)
			for b.Loop() {
				if _, err := s.Run(context.Background(), RunRequest{Source: source}, discard); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkOpen is what opening and closing a session costs beside its instance.
func BenchmarkOpen(b *testing.B) {
	rig := newRig(b)
	for b.Loop() {
		s, err := rig.Open(context.Background(), SessionOptions{})
		if err != nil {
			b.Fatal(err)
		}
		if err := s.Close(context.Background()); err != nil {
			b.Fatal(err)
		}
	}
}
