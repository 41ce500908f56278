package workspace_test

import (
	"bytes"
	"fmt"
	"io"
	"testing"

	"brig/orchestrator/workspace"
)

func BenchmarkPut(b *testing.B) {
	for _, files := range []int{0, 1000} {
		b.Run(fmt.Sprintf("64KiB-among-%d", files), func(b *testing.B) {
			s := newStage(b, workspace.Limits{})
			for i := range files {
				s.write(b, fmt.Sprintf("d%d/f%d", i%10, i), "x")
			}
			data := make([]byte, 64<<10)
			b.SetBytes(int64(len(data)))
			for b.Loop() {
				if _, err := s.Put("f", bytes.NewReader(data), 0); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkGet(b *testing.B) {
	s := newStage(b, workspace.Limits{})
	s.write(b, "d/f", string(make([]byte, 64<<10)))
	b.SetBytes(64 << 10)
	for b.Loop() {
		r, _, err := s.Get("d/f", 0)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, r); err != nil {
			b.Fatal(err)
		}
		_ = r.Close()
	}
}

func BenchmarkUsage(b *testing.B) {
	s := newStage(b, workspace.Limits{})
	for i := range 10_000 {
		s.write(b, fmt.Sprintf("d%d/f%d", i%100, i), "x")
	}
	for b.Loop() {
		if _, _, err := s.Usage(); err != nil {
			b.Fatal(err)
		}
	}
}
