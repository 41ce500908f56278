package store

import (
	"errors"
	"fmt"
	"reflect"
	"testing"
	"time"
)

func TestDatasetsOfASession(t *testing.T) {
	dir := stateDir(t)
	s := open(t, dir, procA)
	ctx := t.Context()
	at := time.UnixMilli(time.Now().UnixMilli())
	a := Dataset{Session: "s1", Name: "a", Path: "a.csv", Format: "csv", Registered: at}
	b := Dataset{Session: "s1", Name: "b", Path: "b.xlsx", Format: "xlsx", Table: "Sheet2", Registered: at.Add(time.Second)}
	wantIs(t, "one of no session", s.PutDataset(ctx, a), ErrNotHeld)
	must(t, s.Add(ctx, row("s1")))
	must(t, s.PutDataset(ctx, a))
	must(t, s.PutDataset(ctx, b))
	check := func(when string, want ...Dataset) {
		t.Helper()
		got, err := s.Datasets(ctx, "s1")
		must(t, err)
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s\ngot  %+v\nwant %+v", when, got, want)
		}
	}
	a.Active = true
	check("the first one is active", a, b)
	b.Active = true
	must(t, s.PutDataset(ctx, b))
	a.Active = false
	check("another one is made active", a, b)
	b.Active, b.Path = false, "c.xlsx"
	must(t, s.PutDataset(ctx, b))
	b.Active = true
	check("one is always active", a, b)
	must(t, s.RemoveDataset(ctx, "s1", "b"))
	a.Active = true
	check("the active one is forgotten", a)
	wantIs(t, "forget it again", s.RemoveDataset(ctx, "s1", "b"), ErrNotFound)

	shut(t, s)
	s = open(t, dir, procB)
	check("after a restart", a)
	wantIs(t, "of another process's session", s.PutDataset(ctx, b), ErrNotHeld)
	wantIs(t, "forget one of another process's session", s.RemoveDataset(ctx, "s1", "a"), ErrNotHeld)
	must(t, s.Claim(ctx, "s1", procA))
	for n := range MaxDatasets - 1 {
		must(t, s.PutDataset(ctx, Dataset{Session: "s1", Name: fmt.Sprint("n", n), Registered: at}))
	}
	wantIs(t, "one too many", s.PutDataset(ctx, b), ErrTooMany)
	must(t, s.PutDataset(ctx, a)) // that was there
	must(t, s.Remove(ctx, "s1"))
	check("after its end")
}

func TestTokensGoWithTheirSession(t *testing.T) {
	s := open(t, stateDir(t), procA)
	ctx := t.Context()
	at := time.UnixMilli(time.Now().UnixMilli())
	must(t, s.Add(ctx, row("s1")))
	must(t, s.Add(ctx, row("s2")))
	must(t, s.PutToken(ctx, Token{"s1", [32]byte{1}, at}))
	must(t, s.PutToken(ctx, Token{"s2", [32]byte{2}, at}))
	must(t, s.PutToken(ctx, Token{"s1", [32]byte{3}, at}))
	wantIs(t, "of no session", s.PutToken(ctx, Token{"s3", [32]byte{4}, at}), ErrNotHeld)
	got, err := s.Tokens(ctx)
	must(t, err)
	if want := []Token{{"s1", [32]byte{3}, at}, {"s2", [32]byte{2}, at}}; !reflect.DeepEqual(got, want) {
		t.Errorf("%+v", got)
	}
	must(t, s.Remove(ctx, "s1"))
	if got, err := s.Tokens(ctx); err != nil || len(got) != 1 || got[0].Session != "s2" {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestSelftests(t *testing.T) {
	s := open(t, stateDir(t), procA)
	ctx := t.Context()
	_, err := s.FindSelftest(ctx, "")
	wantIs(t, "the latest of none", err, ErrNotFound)
	at := time.UnixMilli(time.Now().UnixMilli())
	want := Selftest{ID: "t0", Backend: "host", Process: procA, State: SelftestRunning, Started: at, Summary: []byte("{}"), Report: []byte{}}
	must(t, s.PutSelftest(ctx, want))
	if got, err := s.FindSelftest(ctx, ""); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v", got, err)
	}
	done := want
	done.ID, done.State, done.Ended, done.Summary, done.Report = "t1", SelftestEnded, at.Add(time.Minute), []byte(`{"holds":"held"}`), []byte(`{"rows":[]}`)
	must(t, s.PutSelftest(ctx, done))
	for n := range KeptSelftests + 5 {
		done.ID = fmt.Sprint("t", n+2)
		must(t, s.PutSelftest(ctx, done))
	}
	if got, err := s.FindSelftest(ctx, ""); err != nil || !reflect.DeepEqual(got, done) {
		t.Errorf("%+v, %v", got, err)
	}
	_, err = s.FindSelftest(ctx, "t1")
	wantIs(t, "one that is too old", err, ErrNotFound)
	var all []string
	cursor, pages := "", 0
	for {
		got, next, err := s.Selftests(ctx, 40, cursor)
		must(t, err)
		for _, x := range got {
			if x.Report != nil {
				t.Fatal("a list with reports")
			}
			all = append(all, x.ID)
		}
		pages++
		if cursor = next; cursor == "" {
			break
		}
	}
	if len(all) != KeptSelftests+1 || pages != 3 || all[len(all)-1] != "t0" {
		t.Errorf("%d in %d pages: %v", len(all), pages, all)
	}
	_, _, err = s.Selftests(ctx, 0, "x")
	wantIs(t, "a wrong cursor", err, ErrCursor)
}

func TestAuditHead(t *testing.T) {
	s := open(t, stateDir(t), procA)
	if head, err := s.AuditHead(t.Context()); err != nil || head != "" {
		t.Errorf("%q, %v", head, err)
	}
	must(t, s.SetAuditHead(t.Context(), "7 abc"))
	must(t, s.SetAuditHead(t.Context(), "8 def"))
	if head, err := s.AuditHead(t.Context()); err != nil || head != "8 def" {
		t.Errorf("%q, %v", head, err)
	}
	if errors.Is(s.Close(), ErrClosed) {
		t.Error("close")
	}
}
