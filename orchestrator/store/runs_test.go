package store

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"reflect"
	"sync"
	"testing"
	"time"
)

func run(id, session string) Run {
	return Run{
		ID: id, Session: session, Name: "name of " + session, Creator: "agent", Caller: "agent", Process: procA,
		Created: time.UnixMilli(time.Now().UnixMilli()), Summary: []byte(`{"id":"` + id + `"}`), Source: []byte("print(6*7)"), Outputs: []byte{},
	}
}

func ended(r Run) Run {
	r.Ended, r.Cause, r.Summary, r.Outputs = r.Created.Add(time.Second), "ok", []byte(`{"cause":"ok"}`), []byte(`{"stdout":"42"}`)
	return r
}

func added(t testing.TB, s *Store, r Run, key *Key) {
	t.Helper()
	earlier, err := s.AddRun(t.Context(), r, key, false)
	must(t, err)
	if earlier != nil {
		t.Fatalf("run %s was there: %+v", r.ID, earlier)
	}
}

func TestRunComesBack(t *testing.T) {
	dir := stateDir(t)
	s := open(t, dir, procA)
	want := run("r1", "s1")
	added(t, s, want, nil)
	want.Number = 1
	got, err := s.FindRun(t.Context(), "r1")
	must(t, err)
	if !reflect.DeepEqual(got, want) {
		t.Errorf("\ngot  %+v\nwant %+v", got, want)
	}
	if open, err := s.OpenRuns(t.Context()); err != nil || len(open) != 1 || open[0].ID != "r1" || open[0].Process != procA {
		t.Errorf("%+v, %v", open, err)
	}
	want = ended(want)
	must(t, s.EndRun(t.Context(), want))
	second := want
	second.Cause = "internal"
	must(t, s.EndRun(t.Context(), second)) // changes nothing
	shut(t, s)
	s = open(t, dir, procB)
	if got, err = s.FindRun(t.Context(), "r1"); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("\ngot  %+v\nwant %+v, %v", got, want, err)
	}
	if open, err := s.OpenRuns(t.Context()); err != nil || len(open) != 0 {
		t.Errorf("%+v, %v", open, err)
	}
	_, err = s.FindRun(t.Context(), "r2")
	wantIs(t, "another run", err, ErrNotFound)
	wantIs(t, "the end of another run", s.EndRun(t.Context(), run("r2", "s1")), ErrNotFound)
	if err := s.EndRun(t.Context(), Run{ID: "r1", Outputs: make([]byte, MaxOutputs+1)}); err == nil {
		t.Error("outputs beyond the bound were taken")
	}
}

func TestKeyMakesARunSafeToRepeat(t *testing.T) {
	s := open(t, stateDir(t), procA)
	ctx := t.Context()
	key := &Key{"agent", "k1", sha256.Sum256([]byte("request"))}
	first := run("r1", "s1")
	added(t, s, first, key)
	earlier, err := s.AddRun(ctx, run("r2", "s1"), key, false)
	must(t, err)
	if earlier == nil || earlier.ID != "r1" {
		t.Fatalf("%+v", earlier)
	}
	_, err = s.FindRun(ctx, "r2")
	wantIs(t, "the repeated run", err, ErrNotFound)

	other := *key
	other.Hash = sha256.Sum256([]byte("another"))
	_, err = s.AddRun(ctx, run("r3", "s1"), &other, false)
	wantIs(t, "another request", err, ErrKeyReused)
	_, err = s.FindRun(ctx, "r3")
	wantIs(t, "the run of another request", err, ErrNotFound)
	other.Credential = "operator"
	added(t, s, run("r4", "s1"), &other)

	// The run goes, the key stays until its time: nothing is executed twice.
	must(t, s.EndRun(ctx, ended(first)))
	s.SetRetention(Retention{Age: time.Hour})
	removed, err := s.Prune(ctx, first.Created.Add(2*time.Hour))
	must(t, err)
	_, err = s.AddRun(ctx, run("r5", "s1"), key, false)
	wantIs(t, "the key of a run that is gone", err, ErrNotFound)
	late := run("r6", "s1")
	late.Created = first.Created.Add(KeyLife)
	added(t, s, late, key)
	if removed != 1 {
		t.Errorf("%d were removed", removed)
	}
}

// Of any number of callers with one key exactly one runs.
func TestOneOfManyWithOneKeyRuns(t *testing.T) {
	dir := stateDir(t)
	stores := []*Store{open(t, dir, procA), open(t, dir, procB)}
	key := &Key{"agent", "k", sha256.Sum256(nil)}
	var mu sync.Mutex
	ran, got := 0, map[string]bool{}
	var wg sync.WaitGroup
	for n := range 24 {
		wg.Go(func() {
			id := fmt.Sprint("r", n)
			earlier, err := stores[n%2].AddRun(t.Context(), run(id, "s"), key, false)
			if err != nil {
				t.Error(err)
				return
			}
			mu.Lock()
			defer mu.Unlock()
			if earlier == nil {
				ran++
				got[id] = true
			} else {
				got[earlier.ID] = true
			}
		})
	}
	wg.Wait()
	if ran != 1 || len(got) != 1 {
		t.Errorf("%d ran: %v", ran, got)
	}
}

func TestPagesOfRuns(t *testing.T) {
	s := open(t, stateDir(t), procA)
	ctx := t.Context()
	for n := range 25 {
		r := run(fmt.Sprint("r", n), fmt.Sprint("s", n%2))
		r.Creator = []string{"agent", "operator"}[n%2]
		added(t, s, r, nil)
	}
	for _, q := range []RunQuery{{Limit: 4}, {Limit: 4, Session: "s0"}, {Limit: 4, Creator: "agent"}, {Session: "s0"}, {Limit: 13, Session: "s0"}} {
		var ids []string
		pages := 0
		for {
			rows, next, err := s.Runs(ctx, q)
			must(t, err)
			pages++
			for _, r := range rows {
				if r.Source != nil || r.Outputs != nil || r.Summary == nil {
					t.Fatalf("in a list: %+v", r)
				}
				ids = append(ids, r.ID)
			}
			if next == "" {
				break
			}
			q.Cursor = next
			if pages == 1 {
				added(t, s, run("late"+fmt.Sprint(q), "s0"), nil) // moves no page
			}
		}
		want := 25
		if q.Session != "" || q.Creator != "" {
			want = 13
		}
		if q.Cursor == "" || len(ids) == want {
			for i, id := range ids {
				if i > 0 && id == ids[i-1] {
					t.Errorf("%+v: %v", q, ids)
				}
			}
		} else {
			t.Errorf("%+v: %d runs: %v", q, len(ids), ids)
		}
		_, err := s.Prune(ctx, time.Now())
		must(t, err)
		_, err = s.durable.ExecContext(ctx, "DELETE FROM runs WHERE id LIKE 'late%'")
		must(t, err)
	}
	for _, cursor := range []string{"x", "-1", "0", "99999999999999999999"} {
		_, _, err := s.Runs(ctx, RunQuery{Cursor: cursor})
		wantIs(t, "cursor "+cursor, err, ErrCursor)
	}
	var order []int64
	must(t, s.EachRun(ctx, "s1", func(r Run) error {
		order = append(order, r.Number)
		if string(r.Source) != "print(6*7)" {
			t.Errorf("%+v", r)
		}
		return s.EndRun(ctx, ended(r)) // the store is free meanwhile
	}))
	if len(order) != 12 || order[0] != 2 || order[11] != 24 {
		t.Errorf("%v", order)
	}
	wrong := errors.New("no more")
	wantIs(t, "a walk that was ended", s.EachRun(ctx, "s1", func(Run) error { return wrong }), wrong)
}

func TestRetention(t *testing.T) {
	now := time.UnixMilli(time.Now().UnixMilli())
	for name, c := range map[string]struct {
		keep Retention
		want []string // that are left, the latest first
	}{
		"everything":              {Retention{}, []string{"o3", "c3", "o2", "c2", "o1", "c1", "open"}},
		"two of each session":     {Retention{PerSession: 2}, []string{"o3", "c3", "o2", "c2", "open"}},
		"by age":                  {Retention{Age: 90 * time.Minute}, []string{"o3", "c3", "open"}},
		"closed ones by their":    {Retention{Closed: 90 * time.Minute}, []string{"o3", "c3", "o2", "o1", "open"}},
		"in total":                {Retention{Total: 5}, []string{"o3", "c3", "o2", "o1", "open"}},
		"in total, hardly any":    {Retention{Total: 2}, []string{"o3", "open"}},
		"by bytes":                {Retention{Bytes: 90 + 3*40 + 10}, []string{"o3", "o2", "o1", "open"}},
		"whatever, not what runs": {Retention{PerSession: 1, Total: 1, Bytes: 1, Age: 1, Closed: 1}, []string{"open"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := open(t, stateDir(t), procA)
			ctx := t.Context()
			must(t, s.Add(ctx, row("o"))) // "c" is closed
			r := run("open", "c")
			r.Created, r.Source = now.Add(-1000*day), make([]byte, 90-len(r.Summary))
			added(t, s, r, nil)
			for n := 1; n <= 3; n++ {
				for _, session := range []string{"c", "o"} {
					r := run(fmt.Sprint(session, n), session)
					r.Created = now.Add(time.Duration(n-4) * time.Hour)
					added(t, s, r, nil)
					r = ended(r)
					r.Outputs = make([]byte, 40-len(r.Summary)-len(r.Source))
					must(t, s.EndRun(ctx, r))
				}
			}
			s.SetRetention(c.keep)
			removed, err := s.Prune(ctx, now)
			must(t, err)
			rows, _, err := s.Runs(ctx, RunQuery{})
			must(t, err)
			var got []string
			for _, r := range rows {
				got = append(got, r.ID)
			}
			if !reflect.DeepEqual(got, c.want) || removed != 7-len(got) {
				t.Errorf("%v are left, %d said to be removed", got, removed)
			}
			var parts int
			must(t, s.durable.QueryRowContext(ctx, "SELECT count(*) FROM run_parts").Scan(&parts))
			if parts != len(got) {
				t.Errorf("%d sources and outputs of %d runs", parts, len(got))
			}
		})
	}
}

// That a run went to an instance is in its own record: the session's is about the
// latest one alone.
func TestBeginIsKept(t *testing.T) {
	s := open(t, stateDir(t), procA)
	must(t, s.Add(t.Context(), row("s1")))
	for _, id := range []string{"r1", "r2", "r3"} {
		added(t, s, run(id, "s1"), nil)
	}
	at := time.UnixMilli(1234567)
	must(t, s.Begin(t.Context(), "s1", "r1", at))
	must(t, s.End(t.Context(), "s1", at))
	must(t, s.Begin(t.Context(), "s1", "r2", at))
	if err := s.Begin(t.Context(), "s2", "r3", at); !errors.Is(err, ErrNotHeld) {
		t.Errorf("of another session: %v", err)
	}
	open, err := s.OpenRuns(t.Context())
	must(t, err)
	if len(open) != 3 || !open[0].Begun.Equal(at) || !open[1].Begun.Equal(at) || !open[2].Begun.IsZero() {
		t.Errorf("%+v", open)
	}
}
