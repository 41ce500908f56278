//go:build unix

package workspace_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"brig/orchestrator/workspace"
)

// rounds is how often each operation runs against an opponent.
const rounds = 400

// oppose runs attack over and over until the returned function is called.
func oppose(attack func()) (stop func()) {
	quit := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			select {
			case <-quit:
				return
			default:
				attack()
			}
		}
	})
	return sync.OnceFunc(func() { close(quit); wg.Wait() })
}

// Code swaps a directory, and the file in it, for links to the outside and for
// named pipes while every method runs. Whatever the answers are, nothing from
// outside is read, nothing outside is changed, and nothing hangs.
func TestSwapRace(t *testing.T) {
	s := newStage(t, workspace.Limits{})
	shapes := []func(path string){
		func(p string) {
			_ = os.Mkdir(p, 0o700)
			_ = os.WriteFile(filepath.Join(p, "secret.txt"), []byte("ours"), 0o600)
		},
		func(p string) { _ = os.Symlink(s.outside, p) },
		func(p string) { _ = os.Symlink("../outside", p) },
		func(p string) { _ = syscall.Mkfifo(p, 0o600) },
		func(p string) { _ = os.Mkdir(p, 0o700); _ = os.Symlink(s.secret, filepath.Join(p, "secret.txt")) },
		func(p string) { _ = os.Mkdir(p, 0o700); _ = os.Link(s.secret, filepath.Join(p, "secret.txt")) },
		func(p string) { _ = os.Mkdir(p, 0o700); _ = syscall.Mkfifo(filepath.Join(p, "secret.txt"), 0o600) },
	}
	for i, shape := range shapes {
		shape(s.path("shape" + string(rune('0'+i))))
	}
	i := 0
	stop := oppose(func() {
		// Renames are the fastest swap there is.
		shape := s.path("shape" + string(rune('0'+i%len(shapes))))
		i++
		if os.Rename(shape, s.path("d")) == nil && os.Rename(s.path("d"), shape) != nil {
			_ = os.RemoveAll(s.path("d")) // brig removed a part of it
		}
		if _, err := os.Lstat(shape); err != nil {
			shapes[(i-1)%len(shapes)](shape)
		}
	})
	defer stop()
	dest := filepath.Join(t.TempDir(), "copy")
	read, refused := 0, 0
	err := within(t, "an operation", func() error {
		deadline := time.Now().Add(15 * time.Second)
		for n := 0; n < rounds && time.Now().Before(deadline); n++ {
			got, err := s.read("d/secret.txt")
			if err == nil && got != "ours" && got != "put" {
				return errors.New("read from outside: " + got)
			}
			if err == nil {
				read++
			} else {
				refused++
			}
			if s.CopyOut("d/secret.txt", dest) == nil {
				if b, err := os.ReadFile(dest); err != nil || strings.Contains(string(b), "SECRET") {
					return errors.New("copied from outside: " + string(b))
				}
			}
			_, _ = s.Put("d/secret.txt", strings.NewReader("put"), 0)
			_, _ = s.Put("d/new/file", strings.NewReader("put"), 0)
			_, _, _ = s.List("d", 0)
			_, _, _ = s.Usage()
			_ = s.Remove("d/new")
			_ = s.Remove("d/secret.txt")
			_ = s.Remove("d")
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	stop()
	t.Logf("%d reads came through, %d were refused", read, refused)
	if info, err := os.Lstat(s.secret); err != nil || info.Mode() != 0o600 {
		t.Fatalf("the secret's mode is %v, %v", info.Mode(), err)
	}
	wantIntact(t, s)
	wantNoTemp(t, s.outside)
}

// A file that is replaced by rename while it is read, the way Put does it, is
// read whole: the old content or the new one.
func TestRenameRace(t *testing.T) {
	s := newStage(t, workspace.Limits{})
	a, b := strings.Repeat("a", 300_000), strings.Repeat("b", 300_000)
	_, err := s.Put("f", strings.NewReader(a), 0)
	must(t, err)
	stop := oppose(func() {
		_, _ = s.Put("f", strings.NewReader(b), 0)
		_, _ = s.Put("f", strings.NewReader(a), 0)
	})
	defer stop()
	for range 100 {
		if got, err := s.read("f"); errors.Is(err, workspace.ErrLinked) {
			continue // rename shows both names for a moment on some file systems
		} else if err != nil || (got != a && got != b) {
			t.Fatalf("read %d bytes, %.10q…, %v", len(got), got, err)
		}
	}
	stop()
	wantNoTemp(t, s.dir)
}

// Code takes the unfinished file away, or puts a link in its place.
func TestTempFileRace(t *testing.T) {
	s := newStage(t, workspace.Limits{})
	stop := oppose(func() {
		entries, _ := os.ReadDir(s.dir)
		for _, e := range entries {
			if strings.HasPrefix(e.Name(), ".brig-put-") {
				_ = os.Remove(s.path(e.Name()))
				_ = os.Symlink(s.secret, s.path(e.Name()))
			}
		}
	})
	defer stop()
	for range 200 {
		_, err := s.Put("f", strings.NewReader("content"), 0)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
		got, err := s.read("f")
		if err == nil && got != "content" {
			t.Fatalf("read %q", got)
		}
	}
	stop()
	wantIntact(t, s)
}

// Code adds files as fast as it can while everything is removed.
func TestRemoveRace(t *testing.T) {
	s := newStage(t, workspace.Limits{})
	n := 0
	stop := oppose(func() {
		n++
		dir := s.path("d/e")
		_ = os.MkdirAll(dir, 0o700)
		_ = os.WriteFile(filepath.Join(dir, string(rune('a'+n%26))), nil, 0o600)
	})
	defer stop()
	for range 50 {
		_ = within(t, "remove", func() error { return s.Remove("d") })
	}
	stop()
	must(t, s.Clear())
}
