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

// floods write so many bytes to standard output, in one way each. The last is
// bound by what it costs Python to print a line: a system call above all.
var floods = []struct{ name, source string }{
	{"1MiB", "b = b'x' * (1 << 20)\nfor i in range(size >> 20):\n  at = 0\n  while at < len(b): at += os.write(1, b[at:])"},
	{"8KiB", "b = b'x' * (8 << 10)\nfor i in range(size >> 13): os.write(1, b)"},
	{"print", "line = 'x' * 99\nfor i in range(size // 100): print(line)"},
}

// BenchmarkFlood: output, bounded and logged, in turns with a bare Python whose
// pipe is emptied as fast as it fills.
func BenchmarkFlood(b *testing.B) {
	eachBench(b, func(b *testing.B, p interpreter) {
		for _, flood := range floods {
			b.Run(flood.name, func(b *testing.B) {
				size := int64(512 << 20)
				if flood.name == "print" {
					size = 100 << 20 / 100 * 100
				}
				source := sprintf("import os\nsize = %d\n", size) + flood.source
				peer, end := bench(b, p)
				defer end()
				var bares, ours []time.Duration
				n := 0
				for b.Loop() {
					bares = append(bares, bareFlood(b, p, source, size))
					n++
					begin := time.Now()
					if exit := benchRun(b, peer, n, source); exit.Stdout.Total != size {
						b.Fatalf("%+v", exit.Stdout)
					}
					ours = append(ours, time.Since(begin))
				}
				rate := func(d []time.Duration) float64 { return float64(size) / 1e3 / median(d) }
				b.ReportMetric(rate(bares), "MB/s-bare-python")
				b.ReportMetric(rate(ours), "MB/s")
				b.ReportMetric(rate(ours)/rate(bares), "of-bare")
			})
		}
	})
}

func bareFlood(b *testing.B, p interpreter, source string, size int64) time.Duration {
	// A session shows each line when it is printed, and so does the yardstick.
	cmd := exec.Command(p.path, "-I", "-c", "import sys\nsys.stdout.reconfigure(line_buffering=True)\n"+source)
	cmd.Env = p.env
	out, err := cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	begin := time.Now()
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	n, _ := io.CopyBuffer(struct{ io.Writer }{io.Discard}, out, make([]byte, 1<<20))
	if err := cmd.Wait(); err != nil || n != size {
		b.Fatalf("%d bytes, %v", n, err)
	}
	return time.Since(begin)
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
