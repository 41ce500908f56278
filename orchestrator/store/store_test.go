package store

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"sync"
	"testing"
	"time"

	"brig/orchestrator/sandbox"
)

func TestRowsComeBack(t *testing.T) {
	dir := stateDir(t)
	s := open(t, dir, procA)
	want := row("s1")
	must(t, s.Add(t.Context(), want))
	want.State, want.Process = Idle, procA
	if got := only(t, s); !reflect.DeepEqual(got, want) {
		t.Errorf("\ngot  %+v\nwant %+v", got, want)
	}
	i := instance("s1")
	must(t, s.Bind(t.Context(), i))
	at := want.Used.Add(time.Hour)
	must(t, s.Begin(t.Context(), "s1", "run-1", at))
	want.Instance, want.State, want.Run, want.Runs, want.Used = &i, Running, "run-1", 1, at
	if got := only(t, s); !reflect.DeepEqual(got, want) {
		t.Errorf("\ngot  %+v\nwant %+v", got, want)
	}
	shut(t, s)

	s = open(t, dir, procB)
	if got := only(t, s); !reflect.DeepEqual(got, want) {
		t.Errorf("after a restart\ngot  %+v\nwant %+v", got, want)
	}
	bare := Session{ID: "s2", Name: "s2", Backend: sandbox.Host, Workspace: "/w"}
	must(t, s.Add(t.Context(), bare))
	if got := list(t, s); len(got) != 2 || got[0].Base != nil && got[1].Base != nil {
		t.Errorf("%+v", got)
	}
}

func TestLifeOfASession(t *testing.T) {
	s := open(t, stateDir(t), procA)
	ctx := t.Context()
	must(t, s.Add(ctx, row("s1")))
	wantIs(t, "the same name again", s.Add(ctx, Session{ID: "s2", Name: row("s1").Name}), ErrNameTaken)
	if again := row("s1"); errors.Is(s.Add(ctx, Session{ID: again.ID, Name: "other"}), ErrNameTaken) {
		t.Error("a repeated id is taken for a repeated name")
	}
	must(t, s.Bind(ctx, instance("s1")))
	second := instance("s1")
	second.ID = procA + "-8"
	must(t, s.Begin(ctx, "s1", "run-1", time.Now()))
	must(t, s.Bind(ctx, second))
	if got := only(t, s); got.Instance.ID != second.ID || got.State != Idle || got.Run != "" {
		t.Errorf("after a second instance: %+v", got)
	}
	must(t, s.Note(ctx, "s1", "noted"))
	if got := only(t, s); got.Note != "noted" {
		t.Errorf("after a note: %+v", got)
	}
	must(t, s.Lose(ctx, "s1", "it was lost"))
	must(t, s.End(ctx, "s1", time.Now())) // the end of a run whose instance went with it
	if got := only(t, s); got.Instance != nil || got.State != Lost || got.Note != "it was lost" {
		t.Errorf("after a loss: %+v", got)
	}
	must(t, s.Bind(ctx, second))
	if got := only(t, s); got.Note != "" || got.State != Idle {
		t.Errorf("after a new instance: %+v", got)
	}
	must(t, s.Remove(ctx, "s1"))
	if got := list(t, s); len(got) != 0 {
		t.Errorf("after its removal: %+v", got)
	}
	must(t, s.Add(ctx, row("s1"))) // the name is free again
	var n int
	must(t, s.durable.QueryRowContext(ctx, "SELECT count(*) FROM instances").Scan(&n))
	if n != 0 {
		t.Errorf("%d instances have outlived their session", n)
	}
}

// Nobody changes what another process holds, alive or not.
func TestOnlyTheHolderChanges(t *testing.T) {
	dir := stateDir(t)
	a, b := open(t, dir, procA), open(t, dir, procB)
	ctx := t.Context()
	must(t, a.Add(ctx, row("s1")))
	must(t, a.Bind(ctx, instance("s1")))
	before := only(t, a)
	stolen := instance("s1")
	stolen.ID = procB + "-1"
	for what, err := range map[string]error{
		"bind": b.Bind(ctx, stolen), "lose": b.Lose(ctx, "s1", "x"), "begin": b.Begin(ctx, "s1", "r", time.Now()),
		"end": b.End(ctx, "s1", time.Now()), "remove": b.Remove(ctx, "s1"), "bind what is not there": a.Bind(ctx, instance("s9")),
	} {
		wantIs(t, what, err, ErrNotHeld)
	}
	wantIs(t, "forget of a wrong process", b.Forget(ctx, "s1", procB), ErrClaimed)
	if got := only(t, a); !reflect.DeepEqual(got, before) {
		t.Errorf("\ngot  %+v\nwant %+v", got, before)
	}
	must(t, b.Claim(ctx, "s1", procA))
	wantIs(t, "the earlier holder", a.Lose(ctx, "s1", "x"), ErrNotHeld)
	wantIs(t, "a second claim", a.Claim(ctx, "s1", procA), ErrClaimed)
	must(t, b.Lose(ctx, "s1", "x"))
	must(t, a.Forget(ctx, "s1", procB))
	if got := list(t, a); len(got) != 0 {
		t.Errorf("%+v", got)
	}
}

func TestOrphanIsDatedOnce(t *testing.T) {
	s := open(t, stateDir(t), procA)
	ctx := t.Context()
	must(t, s.Add(ctx, row("s1")))
	i := instance("s1")
	must(t, s.Bind(ctx, i))
	first := time.UnixMilli(1_000_000)
	must(t, s.Orphan(ctx, i.ID, first))
	must(t, s.Orphan(ctx, i.ID, first.Add(time.Hour)))
	if got := only(t, s).Instance.Orphaned; !got.Equal(first) {
		t.Errorf("orphaned at %s, want %s", got, first)
	}
	must(t, s.Claim(ctx, "s1", procA))
	if got := only(t, s).Instance.Orphaned; !got.IsZero() {
		t.Errorf("claimed and still orphaned at %s", got)
	}
}

func TestOneClaimantWins(t *testing.T) {
	dir := stateDir(t)
	dead := open(t, dir, procA)
	const sessions, claimants = 8, 6
	for n := range sessions {
		must(t, dead.Add(t.Context(), row(fmt.Sprint("s", n))))
	}
	var mu sync.Mutex
	won := map[string]int{}
	var wg sync.WaitGroup
	for n := range claimants {
		s := open(t, dir, fmt.Sprintf("%032d", n))
		wg.Go(func() {
			for n := range sessions {
				id := fmt.Sprint("s", n)
				switch err := s.Claim(t.Context(), id, procA); {
				case err == nil:
					mu.Lock()
					won[id]++
					mu.Unlock()
				case !errors.Is(err, ErrClaimed):
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	for n := range sessions {
		if id := fmt.Sprint("s", n); won[id] != 1 {
			t.Errorf("%s was won %d times", id, won[id])
		}
	}
}

func TestContextEndsACall(t *testing.T) {
	s := open(t, stateDir(t), procA)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	wantIs(t, "add", s.Add(ctx, row("s1")), context.Canceled)
	if got := list(t, s); len(got) != 0 {
		t.Errorf("a call that failed has added %+v", got)
	}
	shut(t, s)
	shut(t, s)
	wantIs(t, "add to a closed store", s.Add(t.Context(), row("s1")), ErrClosed)
}

// Another one's transaction is waited for, and no longer than ctx allows.
func TestBusy(t *testing.T) {
	dir := stateDir(t)
	a, b := open(t, dir, procA), open(t, dir, procB)
	tx, err := a.durable.BeginTx(t.Context(), nil)
	must(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := b.Add(ctx, row("s1")); err == nil {
		t.Error("added beside another transaction")
	}
	done := make(chan error, 1)
	go func() { done <- b.Add(context.WithoutCancel(t.Context()), row("s1")) }()
	must(t, tx.Rollback())
	must(t, <-done)
	if got := only(t, a); got.ID != "s1" {
		t.Errorf("%+v", got)
	}
}

// A directory name may hold what means something in a URI.
func TestNamesOfDirectories(t *testing.T) {
	for _, name := range []string{"with space", "per%20cent", "a+b&c=d", "hash#", "ümlaut", "quote'\""} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), name)
			s := open(t, dir, procA)
			must(t, s.Add(t.Context(), row("s1")))
			if info, err := os.Stat(filepath.Join(dir, File)); err != nil || !info.Mode().IsRegular() {
				t.Errorf("%v", err)
			}
			entries, err := os.ReadDir(filepath.Dir(dir))
			must(t, err)
			if len(entries) != 1 {
				t.Errorf("%v beside the directory", entries)
			}
		})
	}
}

func BenchmarkBegin(b *testing.B) {
	s := open(b, stateDir(b), procA)
	must(b, s.Add(b.Context(), row("s1")))
	for b.Loop() {
		must(b, s.Begin(b.Context(), "s1", "run-1", time.Now()))
	}
}

func BenchmarkBind(b *testing.B) {
	s := open(b, stateDir(b), procA)
	must(b, s.Add(b.Context(), row("s1")))
	for b.Loop() {
		must(b, s.Bind(b.Context(), instance("s1")))
	}
}

func BenchmarkOpen(b *testing.B) {
	dir := stateDir(b)
	shut(b, open(b, dir, procA))
	for b.Loop() {
		s, _, err := Open(b.Context(), Options{Dir: dir, Owner: ownerA, Process: procA})
		must(b, err)
		must(b, s.Close())
	}
}
