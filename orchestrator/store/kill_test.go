package store

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"brig/orchestrator/sandbox"
)

// These tell a copy of this test binary that it is to write until it is killed.
const (
	childDir    = "BRIG_STORE_TEST_DIR"
	childNumber = "BRIG_STORE_TEST_NUMBER"
)

// child writes whole lives of sessions for ever, and says what was acknowledged:
// "+id" for a session with its instance that stays, "-id" for one that was removed,
// "=id" for a run and "!id" for its end.
func child(dir string) int {
	number, err := strconv.Atoi(os.Getenv(childNumber))
	if err == nil {
		err = write(dir, number)
	}
	fmt.Fprintln(os.Stderr, err)
	return 1
}

func write(dir string, number int) error {
	ctx := context.Background()
	s, report, err := Open(ctx, Options{Dir: dir, Owner: ownerA, Process: fmt.Sprintf("%032x", number)})
	if err != nil || report != (Report{}) {
		return fmt.Errorf("open: %w, reported %+v", err, report)
	}
	for n := 0; ; n++ {
		id := fmt.Sprintf("%d-%d", number, n)
		i := instance(id)
		i.ID = sandbox.InstanceID("i-" + id)
		if err := s.Add(ctx, row(id)); err != nil {
			return err
		}
		if err := s.Bind(ctx, i); err != nil {
			return err
		}
		if err := s.Begin(ctx, id, "run-1", time.Now()); err != nil {
			return err
		}
		if err := writeRun(ctx, s, "r-"+id, n); err != nil {
			return err
		}
		if n%3 != 0 {
			fmt.Println("+" + id)
			continue
		}
		if err := s.Remove(ctx, id); err != nil {
			return err
		}
		fmt.Println("-" + id)
	}
}

// writeRun records a run, and where n is even its end: "=id" and "!id" when it is said.
func writeRun(ctx context.Context, s *Store, id string, n int) error {
	r := run(id, "s")
	if _, err := s.AddRun(ctx, r, nil, n%3 == 0); err != nil {
		return err
	}
	fmt.Println("=" + id)
	if n%2 != 0 {
		return nil
	}
	if err := s.EndRun(ctx, ended(r)); err != nil {
		return err
	}
	fmt.Println("!" + id)
	return nil
}

// Two processes write at the same time and are killed at any moment, again and
// again. The file stays intact, and what was acknowledged is there.
func TestKilledAtAnyMoment(t *testing.T) {
	const kills, writers = 50, 2
	dir := stateDir(t)
	exe, err := os.Executable()
	must(t, err)
	var mu sync.Mutex
	said := map[string]bool{} // by id: it stays
	lines := 0
	for kill := range kills / writers {
		var wg sync.WaitGroup
		for writer := range writers {
			cmd := exec.CommandContext(t.Context(), exe)
			cmd.Env = append(os.Environ(), childDir+"="+dir, fmt.Sprintf("%s=%d", childNumber, kill*writers+writer+1))
			cmd.Stderr = os.Stderr
			out, err := cmd.StdoutPipe()
			must(t, err)
			must(t, cmd.Start())
			// Some die while they open, some in the middle of their writing.
			after := rand.N(12)
			wg.Go(func() {
				read := bufio.NewScanner(out)
				for n := 0; n < after && read.Scan(); n++ {
					mu.Lock()
					note(said, read.Text())
					lines++
					mu.Unlock()
				}
				if after == 0 {
					time.Sleep(rand.N(30 * time.Millisecond)) // not awaited: any moment will do
				}
				if err := cmd.Process.Kill(); err != nil {
					t.Error(err)
				}
				for read.Scan() { // what was said before the kill arrived
					mu.Lock()
					note(said, read.Text())
					mu.Unlock()
				}
				_ = cmd.Wait() // killed: an error by design
			})
		}
		wg.Wait()
	}
	if lines < kills {
		t.Fatalf("only %d acknowledgements in %d lives: this tests nothing", lines, kills)
	}
	s, report, err := Open(t.Context(), Options{Dir: dir, Owner: ownerA, Process: procA})
	must(t, err)
	defer shut(t, s)
	if report != (Report{}) {
		t.Errorf("reported %+v", report)
	}
	var verdict string
	must(t, s.durable.QueryRowContext(t.Context(), "PRAGMA integrity_check").Scan(&verdict))
	if verdict != "ok" {
		t.Errorf("integrity: %s", verdict)
	}
	there := map[string]Session{}
	for _, x := range list(t, s) {
		there[x.ID] = x
	}
	for id, stays := range said {
		if id[0] == '=' || id[0] == '!' {
			continue
		}
		x, found := there[id]
		switch {
		case found != stays:
			t.Errorf("session %s is there: %v, acknowledged: %v", id, found, stays)
		case stays && (x.Instance == nil || x.State != Running || x.Run != "run-1"):
			t.Errorf("session %s came back as %+v", id, x)
		}
	}
	open := map[string]bool{}
	runs, err := s.OpenRuns(t.Context())
	must(t, err)
	for _, r := range runs {
		open[r.ID] = true
	}
	for id, stays := range said {
		word, id := id[0], id[1:]
		if !stays || word != '=' && word != '!' {
			continue
		}
		r, err := s.FindRun(t.Context(), id)
		if err != nil || string(r.Source) != string(run(id, "s").Source) {
			t.Errorf("run %s came back as %+v, %v", id, r, err)
		}
		if word == '!' && (r.Cause != "ok" || open[id] || string(r.Outputs) != string(ended(r).Outputs)) {
			t.Errorf("the end of run %s was acknowledged: %+v", id, r)
		}
	}
	t.Logf("%d acknowledgements, %d sessions, %d runs that have not ended", len(said), len(there), len(open))
}

func note(said map[string]bool, line string) {
	if id, stays := strings.CutPrefix(line, "+"); stays {
		said[id] = true
	} else if id, gone := strings.CutPrefix(line, "-"); gone {
		said[id] = false
	} else {
		said[line] = true // of a run, with its mark
	}
}
