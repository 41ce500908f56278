package private

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

func TestDirIsMadeOnce(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "b")
	must(t, Dir(dir))
	must(t, os.WriteFile(filepath.Join(dir, "f"), nil, FileMode))
	must(t, Dir(dir))
	if _, err := os.Stat(filepath.Join(dir, "f")); err != nil {
		t.Error(err)
	}
	if err := Dir(filepath.Join(dir, "f")); !unsafe(err) {
		t.Errorf("a file as a directory: %v", err)
	}
}

func TestReplace(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "f")
	for _, text := range []string{"first", "second, longer", ""} {
		must(t, Replace(name, []byte(text), FileMode))
		if got, err := os.ReadFile(name); err != nil || string(got) != text {
			t.Fatalf("%q, %v", got, err)
		}
	}
	must(t, os.MkdirAll(filepath.Join(dir, "d", "full"), 0o700))
	if err := Replace(filepath.Join(dir, "d"), nil, FileMode); err == nil {
		t.Error("a directory was replaced")
	}
	if err := Replace(filepath.Join(dir, "none", "f"), nil, FileMode); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%v", err)
	}
	entries, err := os.ReadDir(dir)
	must(t, err)
	if len(entries) != 2 {
		t.Errorf("something of a new file is left: %v", entries)
	}
}

func unsafe(err error) bool {
	var e *UnsafeError
	return errors.As(err, &e) && e.Path != "" && e.Reason != "" && e.Remedy != ""
}
