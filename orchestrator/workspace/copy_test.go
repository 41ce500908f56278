package workspace_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"brig/orchestrator/workspace"
)

func TestCopyOutNew(t *testing.T) {
	s := newStage(t, workspace.Limits{})
	s.write(t, "f", "new")
	dest := filepath.Join(s.outside, "f")
	must(t, s.CopyOutNew("f", dest))
	if b, err := os.ReadFile(dest); err != nil || string(b) != "new" {
		t.Fatalf("the copy is %q, %v", b, err)
	}
	must(t, os.WriteFile(dest, []byte("a person's"), 0o600))
	must(t, os.Mkdir(filepath.Join(s.outside, "dir"), 0o700))
	for _, c := range []struct{ dest, says string }{
		{dest, "the destination exists already"},
		{filepath.Join(s.outside, "dir"), "the destination is a directory"},
		{s.secret, "the destination exists already"},
	} {
		err := s.CopyOutNew("f", c.dest)
		if !errors.Is(err, fs.ErrExist) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("to %s: %v", filepath.Base(c.dest), err)
		}
	}
	if b, err := os.ReadFile(dest); err != nil || string(b) != "a person's" {
		t.Fatalf("the person's file is %q, %v", b, err)
	}
	wantNoTemp(t, s.outside)
	// With leave, a file is replaced; a directory never, and the message says whose it is.
	must(t, s.CopyOut("f", dest))
	err := s.CopyOut("f", filepath.Join(s.outside, "dir"))
	wantKind(t, err, workspace.ErrNotRegular)
	if !strings.Contains(err.Error(), "the destination is a directory") {
		t.Errorf("over a directory: %v", err)
	}
}

// Of many who want one destination, exactly one gets it.
func TestCopyOutNewRace(t *testing.T) {
	s := newStage(t, workspace.Limits{})
	s.write(t, "f", strings.Repeat("x", 100_000))
	for n := range 50 {
		dest := filepath.Join(s.outside, "out"+string(rune('a'+n%26))+string(rune('a'+n/26)))
		var wg sync.WaitGroup
		results := make([]error, 6)
		for i := range results {
			wg.Go(func() {
				if i == 0 {
					results[i] = exclusive(dest)
				} else {
					results[i] = s.CopyOutNew("f", dest)
				}
			})
		}
		wg.Wait()
		won := 0
		for i, err := range results {
			switch {
			case err == nil:
				won++
			case !errors.Is(err, fs.ErrExist):
				t.Fatalf("%d: %v", i, err)
			}
		}
		if won != 1 {
			t.Fatalf("%d writers have made one file", won)
		}
		b, err := os.ReadFile(dest)
		if want := 100_000; err != nil || results[0] != nil && len(b) != want || results[0] == nil && string(b) != "mine" {
			t.Fatalf("the file has %d bytes, %v", len(b), err)
		}
	}
	wantNoTemp(t, s.outside)
}

// exclusive makes a file as another program would.
func exclusive(path string) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString("mine")
	return errors.Join(err, f.Close())
}
