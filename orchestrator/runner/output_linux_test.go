package runner

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"brig/orchestrator/wire"
)

// TestOutputBounds: head and tail are the right bytes, the account is exact,
// and the log holds everything, up to its own bound.
func TestOutputBounds(t *testing.T) {
	sizes := []int{0, 1, kept/2 - 1, kept / 2, kept/2 + 1, kept - 1, kept, kept + 1, kept + kept/2, 3 * kept, 500_000, logged, logged + 1, 3*logged + 7}
	each(t, func(t *testing.T, p interpreter) {
		r := start(t, p)
		r.ok("import os, sys, random\ndef data(seed, n): return random.Random(seed).getrandbits(8 * n).to_bytes(n, 'little') if n else b''")
		for _, size := range sizes {
			second := size + 100
			if size >= 200_000 {
				second = 0
			}
			// Two streams in pieces of odd sizes, the second a little longer; a large one stands alone.
			got := r.run(sprintf(`
a, b = data(1, %d), data(2, %d)
def write(fd, d):
    at = 0
    while at < len(d): at += os.write(fd, d[at:at + random.choice((1, 77, 4096, 100_000, 10**6))])
if len(a) < 200_000:
    write(1, a[:len(a) // 2]); write(2, b[:50]); write(1, a[len(a) // 2:]); write(2, b[50:])
else:
    write(1, a)
open('want.1', 'wb').write(a); open('want.2', 'wb').write(b);`, size, second))
			if got.err != nil || got.Outcome != wire.OutcomeOK {
				t.Fatalf("%d bytes: %s", size, got)
			}
			want := [2][]byte{r.file("want.1"), r.file("want.2")}
			checkBounded(t, size, got, wire.StreamStdout, got.out, got.Stdout, want[0])
			checkBounded(t, size, got, wire.StreamStderr, got.errout, got.Stderr, want[1])
			if (got.Log != nil) != (got.Stdout.Dropped+got.Stderr.Dropped > 0) {
				t.Fatalf("%d bytes: log %+v", size, got.Log)
			}
			if got.Log == nil {
				continue
			}
			total := int64(len(want[0]) + len(want[1]))
			if got.Log.Bytes != min(total, logged) || got.Log.Bytes+got.Log.Dropped != total || got.Log.Path != ".brig/log/"+string(got.Run)+".log" {
				t.Errorf("%d bytes: log %+v of %d", size, got.Log, total)
			}
			log := r.file(got.Log.Path)
			if int64(len(log)) != got.Log.Bytes {
				t.Errorf("%d bytes: the log has %d, says %d", size, len(log), got.Log.Bytes)
			}
			if size >= 200_000 && !bytes.Equal(log, want[0][:len(log)]) { // then only one stream was written
				t.Errorf("%d bytes: the log is not what was written", size)
			}
			r.call(wire.OpRemove, wire.ControlArgs{Path: ".brig"}, nil)
		}
	})
}

func checkBounded(t *testing.T, size int, r *result, stream uint32, got string, count wire.Count, want []byte) {
	t.Helper()
	if count.Total != int64(len(want)) || count.Kept != int64(len(got)) || count.Kept != min(count.Total, kept) || r.gaps[stream] != count.Dropped {
		t.Fatalf("%d bytes, stream %d: account %+v, %d received, gap %d", size, stream, count, len(got), r.gaps[stream])
	}
	if count.Dropped == 0 {
		if got != string(want) {
			t.Errorf("%d bytes, stream %d: the output is not what was written", size, stream)
		}
		return
	}
	if head := kept / 2; r.gapAt[stream] != head || got[:head] != string(want[:head]) || got[head:] != string(want[len(want)-head:]) {
		t.Errorf("%d bytes, stream %d: head or tail is not what was written, the gap stands at %d", size, stream, r.gapAt[stream])
	}
}

// TestOutputKinds: what comes in odd ways comes whole.
func TestOutputKinds(t *testing.T) {
	each(t, func(t *testing.T, p interpreter) {
		r := start(t, p)
		r.ok("import os, sys, subprocess")
		for _, c := range []struct{ source, out, errout string }{
			{"for i in range(200_000): os.write(1, b'')\nfor i in range(200_000): sys.stdout.write('')\nprint('done')", "done\n", ""},
			{"for b in 'ü€😀'.encode(): os.write(1, bytes([b]))", "ü€😀", ""},
			{"os.write(1, bytes(range(256)))\nNone", string(allBytes()), ""},
			{"sys.stdout.write('no newline')\nNone", "no newline", ""},
			{"sys.stdout.buffer.write(b'\\xff'); sys.stdout.flush()", "\xff", ""},
			{"print('\\udc80', file=sys.stderr)", "", "\\udc80\n"},
			{"subprocess.run('echo o; echo e >&2', shell=True); os.system('echo s');", "o\ns\n", "e\n"},
			{"print('a'); print('b', file=sys.stderr); os.write(1, b'c')\nNone", "a\nc", "b\n"},
			{"import ctypes; libc = ctypes.CDLL(None); libc.puts(b'from C'); libc.fflush(None);", "from C\n", ""},
		} {
			got := r.ok(c.source)
			if got.out != c.out || got.errout != c.errout {
				t.Errorf("%s: %s", c.source, got)
			}
		}
	})
}

func allBytes() []byte {
	all := make([]byte, 256)
	for i := range all {
		all[i] = byte(i)
	}
	return all
}

// TestFlood: a hundred megabytes in one line, and many small writes, are counted exactly.
func TestFlood(t *testing.T) {
	each(t, func(t *testing.T, p interpreter) {
		r := start(t, p)
		got := r.ok("print('x' * 100_000_000)")
		if got.Stdout != (wire.Count{Total: 100_000_001, Kept: kept, Dropped: 100_000_001 - kept}) || len(got.out) != kept {
			t.Errorf("one line: %+v", got.Stdout)
		}
		got = r.ok("import os\nfor i in range(100_000): os.write(1 + i % 2, b'xy')")
		if got.Stdout.Total != 100_000 || got.Stderr.Total != 100_000 {
			t.Errorf("small writes: %+v, %+v", got.Stdout, got.Stderr)
		}
	})
}

// TestLate: what comes between two runs is bounded, counted, and never the next run's.
func TestLate(t *testing.T) {
	each(t, func(t *testing.T, p interpreter) {
		r := start(t, p)
		r.ok("import threading, os\nevents = [threading.Event() for i in range(2)]")
		r.ok("def late(n, size):\n  events[n].wait()\n  os.write(1, b'l' * size)\n  open('late%d' % n, 'w').close()\nthreading.Thread(target=late, args=(0, 5)).start(); threading.Thread(target=late, args=(1, 200_000)).start()")
		for n, want := range []string{"lllll", strings.Repeat("l", 64<<10) + sprintf("[%d dropped]", 200_000-64<<10)} {
			first := r.ok(sprintf("import time; threading.Timer(0.5, events[%d].set).start();", n))
			await(t, "late output", func() bool { _, err := os.Stat(filepath.Join(r.workspace, sprintf("late%d", n))); return err == nil })
			second := r.ok("print('next')")
			if first.out != "" || second.out != "next\n" {
				t.Errorf("late output counts for a run: %s\n%s", first, second)
			}
			if second.late != want {
				t.Errorf("%d: late output of %d bytes, want %d: %.100q", n, len(second.late), len(want), second.late)
			}
		}
	})
}

// TestLogPlanted: whatever stands where the log is to be, nothing else is written to.
func TestLogPlanted(t *testing.T) {
	const flood = "import os\nos.write(1, b'x' * 300_000)\nNone"
	each(t, func(t *testing.T, p interpreter) {
		for name, plant := range map[string]string{
			"link to a directory":  "import os; os.mkdir('other'); os.symlink('other', '.brig')",
			"deeper link":          "import os; os.mkdir('.brig'); os.mkdir('other'); os.symlink('../other', '.brig/log')",
			"file for a directory": "open('.brig', 'w').close()",
			"no permission":        "import os; os.makedirs('.brig/log'); os.chmod('.brig', 0)",
			"link for the log":     "import os; os.makedirs('.brig/log'); os.symlink('../../victim', '.brig/log/planted.log')",
			"fifo for the log":     "import os; os.makedirs('.brig/log'); os.mkfifo('.brig/log/planted.log')",
			"hard link":            "import os; os.makedirs('.brig/log'); os.link('victim', '.brig/log/planted.log')",
		} {
			t.Run(name, func(t *testing.T) {
				r := start(t, p)
				r.ok("open('victim', 'w').write('untouched');")
				r.ok(plant)
				got := r.runAs(wire.Run{ID: "planted", Source: []byte(flood)})
				if got.err != nil || got.Outcome != wire.OutcomeOK || got.Log == nil || got.Stdout.Total != 300_000 {
					t.Fatalf("%s", got)
				}
				if text := string(r.file("victim")); text != "untouched" {
					t.Errorf("the victim holds %.100q", text)
				}
				if entries, err := os.ReadDir(filepath.Join(r.workspace, "other")); err == nil && len(entries) > 0 {
					t.Errorf("written through the link: %v", entries)
				}
				replaced := strings.HasSuffix(name, "for the log") || name == "hard link"
				if replaced != (got.Log.Bytes == 300_000 && got.Log.Error == "") || replaced == (got.Log.Error != "") || got.Log.Bytes+got.Log.Dropped != 300_000 {
					t.Errorf("log %+v", got.Log)
				}
				r.ok("import os; os.path.exists('.brig') and os.path.isdir('.brig') and os.chmod('.brig', 0o700);")
			})
		}
	})
}

// TestLogLimit: a log that cannot grow says so, and the run goes on.
func TestLogLimit(t *testing.T) {
	each(t, func(t *testing.T, p interpreter) {
		// 200 blocks of 512 bytes for every file.
		r := greet(t, launchAs(t, p, "/bin/sh", "-c", `ulimit -f 200 && exec "$0" "$@"`), hello())
		got := r.ok("import os\nos.write(1, b'x' * 300_000)\nNone")
		if got.Log == nil || got.Log.Bytes != 102_400 || got.Log.Dropped != 197_600 || !strings.HasPrefix(got.Log.Error, "EFBIG") {
			t.Errorf("log %+v", got.Log)
		}
	})
}
