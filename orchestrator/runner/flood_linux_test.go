package runner

import (
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"brig/orchestrator/wire"
)

const (
	// growth is how much the supervisor may grow for output: its buffers, the kept
	// head and tail, and frames that wait for brig.
	growth = 24 << 20
	// heapGrowth is the same for this side, whose ring of 64 MiB has no reason to fill.
	heapGrowth = 64 << 20
)

// peak is the largest resident size that the supervisor ever had.
func (r *rig) peak() int {
	r.t.Helper()
	data, err := os.ReadFile(sprintf("/proc/%d/status", r.cmd.Process.Pid))
	if err != nil {
		r.t.Fatal(err)
	}
	for line := range strings.Lines(string(data)) {
		if rest, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			return numbers(rest)[0] << 10
		}
	}
	r.t.Fatal("no VmHWM")
	return 0
}

func heap() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapSys
}

// TestFloodMemory: whatever is printed, however much, both sides stay small, every
// byte is counted, and the run ends as the code ends.
func TestFloodMemory(t *testing.T) {
	large := 300_000_000
	if testing.Short() {
		large = 50_000_000
	}
	each(t, func(t *testing.T, p interpreter) {
		r := start(t, p)
		r.ok("import os, sys, random, time\ndef write(fd, data):\n  at = 0\n  while at < len(data): at += os.write(fd, data[at:at + (1 << 20)])")
		before, heapBefore := r.peak(), heap()
		bounded := func(what string) {
			t.Helper()
			if grown := r.peak() - before; grown > growth {
				t.Errorf("%s: the supervisor grew by %d bytes", what, grown)
			}
			if now := heap(); now > heapBefore+heapGrowth {
				t.Errorf("%s: brig's heap grew by %d bytes", what, now-heapBefore)
			}
		}
		counted := func(what string, got *result, total int64, outcome wire.Outcome) {
			t.Helper()
			want := wire.Count{Total: total, Kept: min(kept, total), Dropped: max(0, total-kept)}
			if got.err != nil || got.Outcome != outcome || got.State != wire.StateKept || got.Stdout != want || int64(len(got.out)) != want.Kept {
				t.Errorf("%s: stdout %+v, want %+v, %d kept, %s", what, got.Stdout, want, len(got.out), got)
			}
			bounded(what)
		}
		counted("one line", r.run(sprintf("block = memoryview(b'x' * (1 << 20))\nleft = %d\nwhile left: left -= os.write(1, block[:min(left, 1 << 20)])\nos.write(1, b'\\n');", large)),
			int64(large)+1, wire.OutcomeOK)
		counted("one line, printed", r.run("print('x' * 50_000_000)"), 50_000_001, wire.OutcomeOK)
		counted("random bytes", r.run("for i in range(50): write(1, os.urandom(1 << 20))"), 50<<20, wire.OutcomeOK)
		counted("no newline for long", r.run("for i in range(200_000): os.write(1, b'.')"), 200_000, wire.OutcomeOK)
		counted("an exception after much", r.run("write(1, b'x' * 10_000_000); 1/0"), 10_000_000, wire.OutcomeException)

		endless := r.background(`
count = 0
try:
  while True: count += os.write(1, b'y\n' * 4096)
finally:
  open('count', 'w').write(str(count))`)
		endless.until(t, "y\n")
		log := func() int64 {
			info, err := os.Stat(r.workspace + "/.brig/log/" + string(endless.id) + ".log")
			if err != nil {
				return 0
			}
			return info.Size()
		}
		await(t, "a full log", func() bool { return log() == logged })
		time.Sleep(200 * time.Millisecond) // and on
		r.interrupt(endless, wire.Soft, true)
		got := <-endless.done
		// The interrupt may come between a write and its count.
		wrote := int64(numbers(string(r.file("count")))[0])
		if rest := got.Stdout.Total - wrote; rest != 0 && rest != 8192 {
			t.Errorf("endless: %d bytes counted, %d written", got.Stdout.Total, wrote)
		}
		counted("endless", got, got.Stdout.Total, wire.OutcomeInterrupted)
		if got.Log == nil || got.Log.Bytes != logged || got.Log.Bytes+got.Log.Dropped != got.Stdout.Total {
			t.Errorf("endless: log %+v", got.Log)
		}
		t.Logf("the supervisor grew by %d KiB to %d KiB, brig's heap by %d KiB", (r.peak()-before)>>10, r.peak()>>10, int64(heap()-heapBefore)>>10)
		r.ok("1")
	})
}
