package wire

import (
	"bytes"
	"fmt"
	"io"
	"testing"
)

func BenchmarkRun(b *testing.B) {
	p, _ := connect(b, PeerOptions{})
	n := 0
	for b.Loop() {
		n++
		if _, err := p.Run(b.Context(), Run{ID: RunID(fmt.Sprint("r", n)), Source: []byte("out hello\n")}, func(Event) error { return nil }); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkPing(b *testing.B) {
	p, _ := connect(b, PeerOptions{})
	for b.Loop() {
		if _, err := p.Call(b.Context(), Control{Op: OpPing}, nil, nil); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkOutput512MiB(b *testing.B) {
	p, _ := connect(b, PeerOptions{})
	const size = 512 << 20
	b.SetBytes(size)
	var dropped int64
	n := 0
	for b.Loop() {
		n++
		if _, err := p.Run(b.Context(), Run{ID: RunID(fmt.Sprint("r", n)), Source: fmt.Appendf(nil, "flood %d\n", size)}, func(e Event) error {
			dropped += e.Dropped
			return nil
		}); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(dropped)/float64(n), "dropped-B/op")
}

func BenchmarkPut32MiB(b *testing.B) {
	p, _ := connect(b, PeerOptions{})
	content := make([]byte, 32<<20)
	b.SetBytes(int64(len(content)))
	for b.Loop() {
		if _, err := p.Call(b.Context(), Control{Op: OpPut, Args: ControlArgs{Path: "f"}}, bytes.NewReader(content), nil); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkGet32MiB(b *testing.B) {
	p, _ := connect(b, PeerOptions{})
	content := make([]byte, 32<<20)
	b.SetBytes(int64(len(content)))
	if _, err := p.Call(b.Context(), Control{Op: OpPut, Args: ControlArgs{Path: "f"}}, bytes.NewReader(content), nil); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, err := p.Call(b.Context(), Control{Op: OpGet, Args: ControlArgs{Path: "f"}}, nil, io.Discard); err != nil {
			b.Fatal(err)
		}
	}
}
