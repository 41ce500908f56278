package hostfallback

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"brig/orchestrator/sandbox"
	"brig/orchestrator/sandbox/sandboxtest"
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

// BenchmarkIdle is what prepared instances cost that nobody asks for anything.
func BenchmarkIdle(b *testing.B) {
	const many = 20
	backend := testBackend(b)
	dir := b.TempDir()
	var all []sandboxtest.Process
	for n := range many {
		workspace := filepath.Join(dir, strconv.Itoa(n))
		if err := os.Mkdir(workspace, 0o700); err != nil {
			b.Fatal(err)
		}
		p, err := backend.Prepare(b.Context(), testBase(), workspace)
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() {
			if err := p.Close(testContext(b)); err != nil {
				b.Errorf("close: %v", err)
			}
		})
		all = append(all, sandboxtest.ProcTree(p.(*prepared).process.handle.Pid)...)
	}
	const pause = 5 * time.Second
	for b.Loop() {
		_, before := cost(b, all)
		time.Sleep(pause)
		pss, after := cost(b, all)
		b.ReportMetric(float64(pss)/many/(1<<20), "PSS-MiB-each")
		b.ReportMetric(float64(len(all))/many, "processes-each")
		b.ReportMetric((after-before).Seconds()/pause.Seconds()*100, "CPU-percent-all")
	}
}

// cost is the memory that processes hold, shared pages in proportion, and the time
// that they have used.
func cost(b *testing.B, all []sandboxtest.Process) (pss int64, used time.Duration) {
	b.Helper()
	for _, p := range all {
		pid, _, _ := strings.Cut(p.ID, "@")
		smaps, err := os.ReadFile("/proc/" + pid + "/smaps_rollup")
		if err != nil { // a process that does not let anybody look
			smaps, err = os.ReadFile("/proc/" + pid + "/status")
		}
		if err != nil {
			b.Fatal(err)
		}
		for line := range strings.Lines(string(smaps)) {
			f := strings.Fields(line)
			if len(f) == 3 && (f[0] == "Pss:" || f[0] == "VmRSS:") {
				kib, err := strconv.ParseInt(f[1], 10, 64)
				if err != nil {
					b.Fatal(err)
				}
				pss += kib << 10
			}
		}
		stat, err := os.ReadFile("/proc/" + pid + "/stat")
		if err != nil {
			b.Fatal(err)
		}
		// Behind the name, which may hold anything: user and system time of all threads, in hundredths of a second.
		fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
		for _, f := range fields[11:13] {
			ticks, err := strconv.ParseInt(f, 10, 64)
			if err != nil {
				b.Fatal(err)
			}
			used += time.Duration(ticks) * 10 * time.Millisecond
		}
	}
	return pss, used
}
