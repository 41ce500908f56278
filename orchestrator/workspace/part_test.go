package workspace_test

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"brig/orchestrator/workspace"
)

func TestGetPart(t *testing.T) {
	s := newStage(t, workspace.Limits{File: 4}) // a part may be of a file that is larger than what may be put
	if err := os.WriteFile(filepath.Join(s.dir, "f"), []byte("0123456789"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		offset, length int64
		want           string
	}{{0, 0, "0123456789"}, {3, 0, "3456789"}, {3, 2, "34"}, {9, 5, "9"}, {0, 1, "0"}} {
		r, e, err := s.GetPart("f", c.offset, c.length)
		if err != nil {
			t.Fatalf("%+v: %v", c, err)
		}
		got, err := io.ReadAll(r)
		if err != nil || string(got) != c.want || e.Size != 10 || e.Kind != workspace.File || e.Path != "f" {
			t.Errorf("%+v: %q, %+v, %v", c, got, e, err)
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}
	for _, offset := range []int64{10, 11, -1} {
		_, e, err := s.GetPart("f", offset, 0)
		wantKind(t, err, workspace.ErrRange)
		if e.Size != 10 {
			t.Errorf("beyond its end it is not described: %+v", e)
		}
	}
	r, _, err := s.GetPart("f", 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(filepath.Join(s.dir, "f"), 3); err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(r); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("a file that became shorter: %q, %v", got, err)
	}
	if err := errors.Join(r.Close(), os.WriteFile(filepath.Join(s.dir, "empty"), nil, 0o600), os.Mkdir(filepath.Join(s.dir, "d"), 0o700)); err != nil {
		t.Fatal(err)
	}
	if e, err := s.Stat("empty"); err != nil || e.Size != 0 {
		t.Errorf("%+v, %v", e, err)
	}
	_, err = s.Stat("d")
	wantKind(t, err, workspace.ErrNotRegular)
	_, err = s.Stat("none")
	wantKind(t, err, fs.ErrNotExist)
	_, err = s.Stat("../x")
	wantKind(t, err, workspace.ErrEscapes)
}

// TestTag: no two states of a file have the same, however quickly they follow.
func TestTag(t *testing.T) {
	s := newStage(t, workspace.Limits{})
	path, seen := filepath.Join(s.dir, "f"), map[string]string{}
	state := func(what string) {
		t.Helper()
		e, err := s.Stat("f")
		if err != nil {
			t.Fatal(err)
		}
		if was, twice := seen[e.Tag()]; twice {
			t.Fatalf("%s has the tag of %s", what, was)
		}
		seen[e.Tag()] = what
		again, err := s.Stat("f")
		if err != nil || again.Tag() != e.Tag() {
			t.Fatalf("%s: the tag changes by itself, %v", what, err)
		}
		list, _, err := s.List("f", 1)
		if err != nil || len(list) != 1 || list[0].Tag() != e.Tag() {
			t.Fatalf("%s: a list has another tag, %v", what, err)
		}
	}
	for i := range 20 {
		written, err := s.PutIf("f", strings.NewReader("same"), 0, nil)
		if err != nil || written.Replaced != (i > 0) || written.Bytes != 4 {
			t.Fatalf("%+v, %v", written, err)
		}
		state(fmt.Sprint("put ", i))
		if e, err := s.Stat("f"); err != nil || e.Tag() != written.Entry.Tag() {
			t.Fatalf("put answers with another tag, %v", err)
		}
		f, err := os.OpenFile(path, os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		info, err := f.Stat()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.WriteAt([]byte("e"), 3); err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(f.Close(), os.Chtimes(path, info.ModTime(), info.ModTime())); err != nil {
			t.Fatal(err)
		}
		state(fmt.Sprint("write with its time set back ", i))
	}
}

func TestPutIf(t *testing.T) {
	s := newStage(t, workspace.Limits{})
	refused := errors.New("refused")
	is := func(want string) func(*workspace.Entry) error {
		return func(e *workspace.Entry) error {
			got := ""
			if e != nil {
				got = e.Tag()
			}
			if got != want {
				return refused
			}
			return nil
		}
	}
	first, err := s.PutIf("d/f", strings.NewReader("1"), 0, is(""))
	if err != nil || first.Replaced {
		t.Fatalf("%+v, %v", first, err)
	}
	never := readerFunc(func([]byte) (int, error) { t.Error("the content was read"); return 0, io.EOF })
	if _, err := s.PutIf("d/f", never, 0, is("")); !errors.Is(err, refused) {
		t.Fatalf("%v", err)
	}
	second, err := s.PutIf("d/f", strings.NewReader("2"), 0, is(first.Entry.Tag()))
	if err != nil || !second.Replaced || second.Entry.Tag() == first.Entry.Tag() {
		t.Fatalf("%+v, %v", second, err)
	}
	// What changes while the content comes is seen.
	changing := readerFunc(func([]byte) (int, error) {
		if _, err := s.Put("d/f", strings.NewReader("between"), 0); err != nil {
			t.Error(err)
		}
		return 0, io.EOF
	})
	if _, err := s.PutIf("d/f", changing, 0, is(second.Entry.Tag())); !errors.Is(err, refused) {
		t.Fatalf("%v", err)
	}
	if got, err := s.read("d/f"); err != nil || got != "between" {
		t.Fatalf("%q, %v", got, err)
	}
	// Of many that ask for nothing to be there, one writes.
	var wg sync.WaitGroup
	var mu sync.Mutex
	won := 0
	for range 16 {
		wg.Go(func() {
			_, err := s.PutIf("new", strings.NewReader("x"), 0, is(""))
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				won++
			} else if !errors.Is(err, refused) {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if won != 1 {
		t.Errorf("%d have written a file that nobody had written before", won)
	}
	if err := s.RemoveIf("new", func(workspace.Entry) error { return refused }); !errors.Is(err, refused) {
		t.Fatal(err)
	}
	if err := s.RemoveIf("new", func(workspace.Entry) error { return nil }); err != nil {
		t.Fatal(err)
	}
	wantNoTemp(t, s.dir)
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

func TestBulk(t *testing.T) {
	s := newStage(t, workspace.Limits{Files: 700, Bytes: 64 << 20})
	b := s.Bulk()
	defer b.Close()
	for i := range 600 {
		if _, err := b.Put(fmt.Sprintf("d%d/f", i%3), strings.NewReader("x"), 0); err != nil {
			t.Fatal(i, err)
		}
	}
	if err := b.Mkdir("e/f/g"); err != nil {
		t.Fatal(err)
	}
	if err := b.Mkdir("e/f/g"); err != nil {
		t.Fatal(err)
	}
	wantKind(t, b.Mkdir("d0/f"), fs.ErrExist)
	wantKind(t, b.Mkdir("../x"), workspace.ErrEscapes)
	if err := b.Sync(); err != nil {
		t.Fatal(err)
	}
	err := error(nil)
	for i := 0; i < 1000 && err == nil; i++ {
		_, err = b.Put(fmt.Sprint("n", i), strings.NewReader("x"), 0)
	}
	wantKind(t, err, workspace.ErrQuota)
	b.Close()
}
