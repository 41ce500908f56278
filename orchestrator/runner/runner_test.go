package runner

import (
	"crypto/sha256"
	"encoding/hex"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

func TestHash(t *testing.T) {
	h := sha256.New()
	err := fs.WalkDir(Files(), ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := fs.ReadFile(Files(), path)
		h.Write([]byte(path + "\x00" + string(data) + "\x00"))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	// WalkDir is in lexical order, in which brigrunner/ stands before start.py.
	if got, want := Hash(), hex.EncodeToString(h.Sum(nil)); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestInstall(t *testing.T) {
	dir := t.TempDir()
	var wg sync.WaitGroup
	scripts := make([]string, 8)
	for i := range scripts {
		wg.Go(func() {
			var err error
			if scripts[i], err = Install(dir); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	for _, s := range scripts {
		if s != filepath.Join(dir, Hash()[:16], "start.py") {
			t.Fatalf("installed as %s", s)
		}
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
		t.Errorf("left behind: %v, %v", entries, err)
	}
	if !intact(filepath.Dir(scripts[0])) {
		t.Error("what was installed is not the program")
	}

	// A damaged copy is replaced, an intact one is left alone.
	if err := os.WriteFile(scripts[0], []byte("raise SystemExit"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := Install(dir); err != nil || !intact(filepath.Dir(scripts[0])) {
		t.Errorf("a damaged program was not repaired: %v", err)
	}
	before, err := os.Stat(scripts[0])
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Install(dir); err != nil {
		t.Fatal(err)
	}
	if after, err := os.Stat(scripts[0]); err != nil || !os.SameFile(before, after) {
		t.Errorf("an intact program was written again: %v", err)
	}
}

func TestInstallFails(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(file, "below")
	_, err := Install(dir)
	if err == nil || !strings.HasPrefix(err.Error(), "install the runner in "+dir+": ") || strings.Count(err.Error(), dir) != 1 {
		t.Errorf("installed below a file: %v", err)
	}
}
