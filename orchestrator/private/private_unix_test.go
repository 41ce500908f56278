//go:build unix

package private

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

func TestModes(t *testing.T) {
	old := syscall.Umask(0)
	defer syscall.Umask(old)
	dir := filepath.Join(t.TempDir(), "d")
	must(t, Dir(dir))
	f, err := Open(filepath.Join(dir, "opened"), os.O_CREATE|os.O_RDWR)
	must(t, err)
	must(t, f.Close())
	syscall.Umask(0o777)
	must(t, Replace(filepath.Join(dir, "replaced"), nil, 0o640))
	for name, want := range map[string]fs.FileMode{".": dirMode | fs.ModeDir, "opened": FileMode, "replaced": 0o640} {
		info, err := os.Stat(filepath.Join(dir, name))
		must(t, err)
		if info.Mode() != want {
			t.Errorf("%s has mode %v, want %v", name, info.Mode(), want)
		}
	}
}

func TestUnsafeDirectories(t *testing.T) {
	for name, prepare := range map[string]func(dir string) error{
		"a link":            func(dir string) error { return os.Symlink(t.TempDir(), dir) },
		"a dangling link":   func(dir string) error { return os.Symlink("none", dir) },
		"open to the group": func(dir string) error { return errors.Join(os.Mkdir(dir, 0o700), os.Chmod(dir, 0o710)) },
		"open to others":    func(dir string) error { return errors.Join(os.Mkdir(dir, 0o700), os.Chmod(dir, 0o701)) },
	} {
		dir := filepath.Join(t.TempDir(), "d")
		must(t, prepare(dir))
		before, err := os.Lstat(dir)
		must(t, err)
		if err := Dir(dir); !unsafe(err) {
			t.Errorf("%s: %v", name, err)
		}
		if after, err := os.Lstat(dir); err != nil || after.Mode() != before.Mode() {
			t.Errorf("%s was touched: %v", name, err)
		}
	}
}

func TestUnsafeFiles(t *testing.T) {
	for name, prepare := range map[string]struct {
		make  func(file string) error
		reads bool // by Read, which does not care whose it is
		opens bool // by Open, which does not count names
	}{
		"this user's":     {make: func(f string) error { return os.WriteFile(f, nil, 0o600) }, reads: true, opens: true},
		"open to all":     {make: func(f string) error { return errors.Join(os.WriteFile(f, nil, 0o600), os.Chmod(f, 0o604)) }, reads: true},
		"with two names":  {make: func(f string) error { return errors.Join(os.WriteFile(f, nil, 0o600), os.Link(f, f+".2")) }, reads: true, opens: true},
		"a link":          {make: func(f string) error { return errors.Join(os.WriteFile(f+".2", nil, 0o600), os.Symlink(f+".2", f)) }},
		"a dangling link": {make: func(f string) error { return os.Symlink(f+".made", f) }},
		"a pipe":          {make: func(f string) error { return syscall.Mkfifo(f, 0o600) }},
		"a directory":     {make: func(f string) error { return os.Mkdir(f, 0o700) }},
	} {
		for doing, flag := range map[string]int{"read": os.O_RDONLY, "write": os.O_WRONLY | os.O_CREATE} {
			file := filepath.Join(t.TempDir(), "f")
			must(t, prepare.make(file))
			f, err := Open(file, flag)
			if prepare.opens != (err == nil) || err != nil && !unsafe(err) {
				t.Errorf("%s, to %s: %v", name, doing, err)
			}
			_ = f.Close()
			if f, err = Read(file); prepare.reads != (err == nil) {
				t.Errorf("%s, to be read: %v", name, err)
			}
			_ = f.Close()
			info, err := os.Lstat(file)
			must(t, err)
			if err := Check(file, info, FileMode); (name == "this user's") != (err == nil) || err != nil && !unsafe(err) {
				t.Errorf("%s, looked at: %v", name, err)
			}
			if _, err := os.Lstat(file + ".made"); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("%s: it was followed: %v", name, err)
			}
		}
	}
}

// Whoever had the name before, others have neither the new content nor a say in it.
func TestReplaceFollowsNoLink(t *testing.T) {
	dir := t.TempDir()
	name, other := filepath.Join(dir, "f"), filepath.Join(dir, "other")
	must(t, os.WriteFile(other, []byte("kept"), 0o600))
	must(t, os.Symlink(other, name))
	must(t, Replace(name, []byte("new"), FileMode))
	if text, err := os.ReadFile(other); err != nil || string(text) != "kept" {
		t.Errorf("%q, %v", text, err)
	}
	if info, err := os.Lstat(name); err != nil || info.Mode() != FileMode {
		t.Errorf("%v, %v", info, err)
	}
}
