package runner

import (
	"context"
	"errors"
	"io"
	"os/exec"
	"slices"
	"testing"
	"time"

	"brig/orchestrator/wire"
)

// bare runs Python to do nothing: what everything else is to be compared with.
func bare(b *testing.B, p interpreter) time.Duration {
	begin := time.Now()
	cmd := exec.Command(p.path, "-I", "-c", "pass")
	cmd.Env = p.env
	if err := cmd.Run(); err != nil {
		b.Fatal(err)
	}
	return time.Since(begin)
}

// bench is a runner for a benchmark; it ends with the returned function.
func bench(b *testing.B, p interpreter) (*wire.Peer, func()) {
	cmd := exec.Command(p.path, "-I", "-u", shared.script)
	cmd.Env = p.env
	stdin, err := cmd.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	peer := wire.NewPeer(stdout, stdin, wire.PeerOptions{Close: func() error { return errors.Join(stdin.Close(), stdout.Close()) }})
	h := hello()
	h.Workspace, h.Scratch = b.TempDir(), b.TempDir()
	if _, err := peer.Hello(context.Background(), h); err != nil {
		b.Fatal(err)
	}
	return peer, func() {
		_ = peer.Close()
		_ = cmd.Wait()
	}
}

func benchRun(b *testing.B, peer *wire.Peer, n int, source string) wire.Exit {
	exit, err := peer.Run(context.Background(), wire.Run{ID: wire.RunID(sprintf("b%d", n)), Source: []byte(source)}, func(wire.Event) error { return nil })
	if err != nil {
		b.Fatal(err)
	}
	return exit
}

func median(d []time.Duration) float64 {
	slices.Sort(d)
	return d[len(d)/2].Seconds() * 1e3
}

func eachBench(b *testing.B, run func(b *testing.B, p interpreter)) {
	for _, p := range shared.interpreters {
		b.Run(p.minor, func(b *testing.B) { run(b, p) })
	}
}

// BenchmarkStart: from the start of the process to ready and to the end of the
// first run, in turns with a Python that does nothing.
func BenchmarkStart(b *testing.B) {
	eachBench(b, func(b *testing.B, p interpreter) {
		var pythons, readies, firsts []time.Duration
		for b.Loop() {
			pythons = append(pythons, bare(b, p))
			begin := time.Now()
			peer, end := bench(b, p)
			readies = append(readies, time.Since(begin))
			benchRun(b, peer, 0, "print(1)")
			firsts = append(firsts, time.Since(begin))
			end()
		}
		b.ReportMetric(median(pythons), "ms-bare-python")
		b.ReportMetric(median(readies), "ms-ready")
		b.ReportMetric(median(firsts), "ms-first-run")
	})
}

// BenchmarkRun: a call into a live interpreter.
func BenchmarkRun(b *testing.B) {
	eachBench(b, func(b *testing.B, p interpreter) {
		peer, end := bench(b, p)
		defer end()
		n := 0
		for b.Loop() {
			n++
			benchRun(b, peer, n, "1")
		}
	})
}

// BenchmarkReplace: an interpreter that dies, and the first run in its successor.
func BenchmarkReplace(b *testing.B) {
	eachBench(b, func(b *testing.B, p interpreter) {
		peer, end := bench(b, p)
		defer end()
		n := 0
		for b.Loop() {
			n += 2
			benchRun(b, peer, n, "import os; os._exit(1)")
			benchRun(b, peer, n+1, "1")
		}
	})
}

// BenchmarkFlood: 512 MiB of output, bounded and logged.
func BenchmarkFlood(b *testing.B) {
	const size = 512 << 20
	eachBench(b, func(b *testing.B, p interpreter) {
		peer, end := bench(b, p)
		defer end()
		b.SetBytes(size)
		n := 0
		for b.Loop() {
			n++
			exit := benchRun(b, peer, n, "import os\nb = b'x' * (1 << 20)\nfor i in range(512):\n  at = 0\n  while at < len(b): at += os.write(1, b[at:])")
			if exit.Stdout.Total != size {
				b.Fatalf("%+v", exit.Stdout)
			}
		}
	})
}

// BenchmarkPut: a large file into the workspace.
func BenchmarkPut(b *testing.B) {
	const size = 64 << 20
	eachBench(b, func(b *testing.B, p interpreter) {
		peer, end := bench(b, p)
		defer end()
		b.SetBytes(size)
		for b.Loop() {
			call := wire.Control{Op: wire.OpPut, Args: wire.ControlArgs{Path: "large"}}
			if _, err := peer.Call(context.Background(), call, io.LimitReader(zeros{}, size), nil); err != nil {
				b.Fatal(err)
			}
		}
	})
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }
