package audit

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"
)

// childDir tells a copy of this test binary that it is to write until it is killed.
const childDir = "BRIG_AUDIT_TEST_DIR"

func TestMain(m *testing.M) {
	if dir := os.Getenv(childDir); dir != "" {
		fmt.Fprintln(os.Stderr, child(dir))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// child writes for ever and says the head of every line that was acknowledged.
func child(dir string) error {
	ctx := context.Background()
	l, report, err := Open(ctx, Options{Dir: dir, SegmentBytes: 10_000, Segments: 1000})
	if err != nil || len(report.Problems) > 0 {
		return fmt.Errorf("open: %w, reported %q", err, report.Problems)
	}
	for n := 0; ; n++ {
		write := l.Note
		if n%4 == 0 {
			write = l.Append
		}
		head, err := write(ctx, entry(n))
		if err != nil {
			return err
		}
		fmt.Println(head)
	}
}

// Two processes write at the same time and are killed at any moment, again and
// again. The chain holds, and what was acknowledged is in it.
func TestKilledAtAnyMoment(t *testing.T) {
	const kills, writers = 50, 2
	dir := logDir(t)
	exe, err := os.Executable()
	must(t, err)
	var mu sync.Mutex
	said := map[string]bool{}
	for range kills / writers {
		var wg sync.WaitGroup
		for range writers {
			cmd := exec.CommandContext(t.Context(), exe)
			cmd.Env = append(os.Environ(), childDir+"="+dir)
			cmd.Stderr = os.Stderr
			out, err := cmd.StdoutPipe()
			must(t, err)
			must(t, cmd.Start())
			after := rand.N(60)
			wg.Go(func() {
				read := bufio.NewScanner(out)
				for n := 0; ; n++ {
					if n == after {
						if after == 0 {
							time.Sleep(rand.N(30 * time.Millisecond)) // not awaited: any moment will do
						}
						if err := cmd.Process.Kill(); err != nil {
							t.Error(err)
						}
					}
					if !read.Scan() {
						break
					}
					mu.Lock()
					said[read.Text()] = true
					mu.Unlock()
				}
				_ = cmd.Wait() // killed: an error by design
			})
		}
		wg.Wait()
	}
	if len(said) < kills {
		t.Fatalf("only %d acknowledgements in %d lives: this tests nothing", len(said), kills)
	}
	l, problems := reopen(t, Options{Dir: dir, Segments: 1000})
	for _, p := range problems {
		if !strings.Contains(p, "part of a line") {
			t.Errorf("reported %q", p)
		}
	}
	v := verdict(t, dir)
	if !v.Holds() {
		t.Errorf("%+v", v.Breaks)
	}
	there := map[string]bool{}
	for q := (Query{Limit: 1000}); ; {
		lines, next, err := l.Query(t.Context(), q)
		must(t, err)
		for _, x := range lines {
			there[Head{x.Number, x.Hash}.String()] = true
		}
		if q.Cursor = next; next == "" {
			break
		}
	}
	for head := range said {
		if !there[head] {
			t.Errorf("acknowledged and gone: %s", head)
		}
	}
	t.Logf("%d acknowledgements, %d lines in %d segments", len(said), v.Lines, v.Segments)
}
