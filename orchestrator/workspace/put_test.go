package workspace_test

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/iotest"

	"brig/orchestrator/workspace"
)

func TestPutAndGet(t *testing.T) {
	s := newStage(t, workspace.Limits{})
	for _, c := range []struct {
		name    string
		content string
	}{
		{"a.txt", "hello"},
		{"deep/er/and/deeper/data.csv", "x,y\n1,2\n"},
		{"empty", ""},
		{"ünï cödé/☃ 1.txt", strings.Repeat("z", 200_000)},
		{strings.Repeat("n", 255), "the longest name"},
		{"a.txt", "replaced"},
	} {
		n, err := s.Put(c.name, strings.NewReader(c.content), 0)
		if err != nil || n != int64(len(c.content)) {
			t.Fatalf("Put(%.20q) wrote %d, %v", c.name, n, err)
		}
		got, err := s.read(c.name)
		if err != nil || got != c.content {
			t.Fatalf("Get(%.20q) is %.40q, %v", c.name, got, err)
		}
	}
	wantNoTemp(t, s.dir)
	_, err := s.Put(strings.Repeat("n", 256), strings.NewReader(""), 0)
	wantKind(t, err, workspace.ErrName)
	_, err = s.Put("a.txt/b", strings.NewReader(""), 0)
	if err == nil || !strings.Contains(err.Error(), "not a directory") {
		t.Fatalf("a file as a parent gave %v", err)
	}
}

func TestPutReplacesNoDirectory(t *testing.T) {
	s := newStage(t, workspace.Limits{})
	s.write(t, "d/x", "keep")
	_, err := s.Put("d", strings.NewReader("gone"), 0)
	wantKind(t, err, workspace.ErrNotRegular)
	if got, err := s.read("d/x"); err != nil || got != "keep" {
		t.Fatalf("the directory holds %q, %v", got, err)
	}
	wantNoTemp(t, s.dir)
}

func TestPutLeavesOldContentOnFailure(t *testing.T) {
	s := newStage(t, workspace.Limits{File: 1000})
	s.write(t, "a", "old")
	broken := io.MultiReader(strings.NewReader("new"), iotest.ErrReader(errors.New("the caller went away")))
	if _, err := s.Put("a", broken, 0); err == nil || !strings.Contains(err.Error(), "reading the new content failed") {
		t.Fatalf("a broken reader gave %v", err)
	}
	_, err := s.Put("a", endless{}, 0)
	wantKind(t, err, workspace.ErrTooLarge)
	if got, err := s.read("a"); err != nil || got != "old" {
		t.Fatalf("after failed puts the file is %q, %v", got, err)
	}
	wantNoTemp(t, s.dir)
	if n, puts := workspace.Held(s.Workspace); n != 0 || puts != 0 {
		t.Fatalf("failed puts left %d bytes of %d puts reserved", n, puts)
	}
}

func TestPutQuota(t *testing.T) {
	s := newStage(t, workspace.Limits{Bytes: 1 << 20})
	if _, err := s.Put("a", bytes.NewReader(make([]byte, 600_000)), 0); err != nil {
		t.Fatal(err)
	}
	_, err := s.Put("b", bytes.NewReader(make([]byte, 600_000)), 0)
	wantKind(t, err, workspace.ErrQuota)
	_, err = s.Put("b", endless{}, 0)
	wantKind(t, err, workspace.ErrQuota)
	wantNoTemp(t, s.dir)
	if _, err := s.read("b"); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("a refused file is there: %v", err)
	}
	must(t, s.Remove("a"))
	if _, err := s.Put("b", bytes.NewReader(make([]byte, 600_000)), 0); err != nil {
		t.Fatalf("after making room: %v", err)
	}
}

// Puts at the same time see each other: together they stay within the quota.
func TestPutQuotaTogether(t *testing.T) {
	const quota, each, n = 4 << 20, 1 << 20, 16
	s := newStage(t, workspace.Limits{Bytes: quota})
	var wg sync.WaitGroup
	var mu sync.Mutex
	done := 0
	for i := range n {
		wg.Go(func() {
			_, err := s.Put(string(rune('a'+i)), bytes.NewReader(make([]byte, each)), 0)
			if err != nil && !errors.Is(err, workspace.ErrQuota) {
				t.Errorf("put: %v", err)
			}
			if err == nil {
				mu.Lock()
				done++
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	used, _, err := s.Usage()
	if err != nil || used > quota {
		t.Fatalf("%d puts went through and take %d bytes of %d, %v", done, used, quota, err)
	}
	wantNoTemp(t, s.dir)
}

func TestPutTooManyFiles(t *testing.T) {
	s := newStage(t, workspace.Limits{Files: 10})
	for i := range 10 {
		if _, err := s.Put(string(rune('a'+i)), strings.NewReader(""), 0); err != nil {
			t.Fatal(err)
		}
	}
	_, err := s.Put("k", strings.NewReader(""), 0)
	wantKind(t, err, workspace.ErrQuota)
}

func TestCopyOut(t *testing.T) {
	s := newStage(t, workspace.Limits{File: 1000})
	s.write(t, "figures/one.png", "PNG")
	dest := filepath.Join(s.outside, "one.png")
	must(t, s.CopyOut("figures/one.png", dest))
	must(t, s.CopyOut("figures/one.png", dest)) // over a file of its own
	if b, err := os.ReadFile(dest); err != nil || string(b) != "PNG" {
		t.Fatalf("the copy is %q, %v", b, err)
	}
	for _, dest := range []string{"", ".", "..", s.outside + string(filepath.Separator)} {
		wantKind(t, s.CopyOut("figures/one.png", dest), workspace.ErrName)
	}
	wantKind(t, s.CopyOut("figures/one.png", s.outside), workspace.ErrNotRegular)
	wantKind(t, s.CopyOut("figures", dest), workspace.ErrNotRegular)
	wantKind(t, s.CopyOut("../outside/secret.txt", dest), workspace.ErrEscapes)
	if err := s.CopyOut("no", dest); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("a missing file gave %v", err)
	}
	if err := s.CopyOut("figures/one.png", filepath.Join(s.outside, "no", "x")); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("a missing destination directory gave %v", err)
	}
	s.write(t, "big", strings.Repeat("x", 1001))
	wantKind(t, s.CopyOut("big", dest), workspace.ErrTooLarge)
	if b, err := os.ReadFile(dest); err != nil || string(b) != "PNG" {
		t.Fatalf("after refused copies the destination is %q, %v", b, err)
	}
	wantNoTemp(t, s.outside)
}
