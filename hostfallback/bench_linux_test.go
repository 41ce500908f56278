package hostfallback

import (
	"fmt"
	"os/exec"
	"testing"

	"brig/orchestrator/sandbox"
	"brig/orchestrator/wire"
)

// BenchmarkCold is everything from nothing to the first result, beside a bare
// interpreter that prints the same, in turns, so that both see the same machine.
func BenchmarkCold(b *testing.B) {
	backend := testBackend(b)
	in, _, err := backend.interpreter(b.Context(), testBase())
	if err != nil {
		b.Fatal(err)
	}
	workspace := b.TempDir()
	var bare, host samples
	for b.Loop() {
		bare.time(func() {
			if out, err := exec.Command(in.About.Executable, "-I", "-c", "print(1)").Output(); err != nil || string(out) != "1\n" {
				b.Fatalf("%s %v", out, err)
			}
		})
		var i sandbox.Instance
		host.time(func() {
			p, err := backend.Prepare(b.Context(), testBase(), workspace)
			if err != nil {
				b.Fatal(err)
			}
			if i, err = p.Bind(b.Context(), sandbox.Claim{ID: "bench-1", Session: "bench", Workspace: workspace}); err != nil {
				b.Fatal(err)
			}
			if out, _ := output(b, i, "r1", "print(1)"); out != "1\n" {
				b.Fatal(out)
			}
		})
		if err := i.Close(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
	bare.report(b, "bare")
	host.report(b, "host")
	b.ReportMetric(host.median()/bare.median(), "ratio")
}

// BenchmarkWarm is one call into a living instance.
func BenchmarkWarm(b *testing.B) {
	i := openInstance(b, testBackend(b), testBase())
	var run samples
	n := 0
	for b.Loop() {
		n++
		run.time(func() {
			if out, _ := output(b, i, wire.RunID(fmt.Sprintf("r%d", n)), "print(1)"); out != "1\n" {
				b.Fatal(out)
			}
		})
	}
	run.report(b, "run")
}
