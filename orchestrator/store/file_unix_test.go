//go:build unix

package store

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"brig/orchestrator/private"
	"brig/orchestrator/sandbox/sandboxtest"
)

func TestModes(t *testing.T) {
	old := syscall.Umask(0)
	defer syscall.Umask(old)
	dir := stateDir(t)
	s := open(t, dir, procA)
	must(t, s.Add(t.Context(), row("s1")))
	for name, want := range map[string]os.FileMode{
		"": 0o700 | os.ModeDir, File: 0o600, File + "-wal": 0o600, File + "-shm": 0o600, guardFile: 0o600,
	} {
		info, err := os.Lstat(filepath.Join(dir, name))
		must(t, err)
		if info.Mode() != want {
			t.Errorf("%q has mode %v, want %v", name, info.Mode(), want)
		}
	}
}

// What somebody else may have prepared is refused and not touched.
func TestUnsafePlacesAreRefused(t *testing.T) {
	for name, prepare := range map[string]func(t *testing.T, dir, path string){
		"directory open to the group": func(t *testing.T, dir, _ string) { must(t, os.Chmod(dir, 0o750)) },
		"directory open to all":       func(t *testing.T, dir, _ string) { must(t, os.Chmod(dir, 0o701)) },
		"file open to all":            func(t *testing.T, _, path string) { must(t, os.Chmod(path, 0o604)) },
		"file with a second name":     func(t *testing.T, _, path string) { must(t, os.Link(path, path+".2")) },
		"directory is a link": func(t *testing.T, dir, _ string) {
			must(t, os.Rename(dir, dir+".real"))
			must(t, os.Symlink(dir+".real", dir))
		},
		"file is a link": func(t *testing.T, _, path string) {
			must(t, os.Rename(path, path+".real"))
			must(t, os.Symlink(path+".real", path))
		},
		"file is a dangling link": func(t *testing.T, dir, path string) {
			must(t, os.Remove(path))
			must(t, os.Symlink(filepath.Join(filepath.Dir(dir), "made"), path))
		},
		"journal is a link": func(t *testing.T, dir, path string) {
			must(t, os.Symlink(filepath.Join(filepath.Dir(dir), "made"), path+"-wal"))
		},
		"index is a pipe":      func(t *testing.T, _, path string) { must(t, syscall.Mkfifo(path+"-shm", 0o600)) },
		"file is a directory":  func(t *testing.T, _, path string) { must(t, os.Remove(path)); must(t, os.Mkdir(path, 0o700)) },
		"somebody else's file": func(t *testing.T, _, path string) { asRoot(t); must(t, os.Chown(path, 12345, -1)) },
		"somebody else's directory": func(t *testing.T, dir, _ string) {
			asRoot(t)
			must(t, os.Chown(dir, 12345, -1))
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir, path := filled(t)
			prepare(t, dir, path)
			var unsafe *private.UnsafeError
			if err := refused(t, dir); !errors.As(err, &unsafe) || unsafe.Remedy == "" {
				t.Errorf("%v", err)
			}
			if _, err := os.Lstat(filepath.Join(filepath.Dir(dir), "made")); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("a link was followed: %v", err)
			}
		})
	}
	t.Run("control", func(t *testing.T) {
		dir, _ := filled(t)
		open(t, dir, procA)
	})
}

func asRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		sandboxtest.Skip(t, "root, to give a file away", "an ordinary user")
	}
}

// The index is made with whatever the umask leaves when the last process closes
// while another one opens. That is mended, not refused.
func TestIndexOpenToOthersIsMended(t *testing.T) {
	dir, path := filled(t)
	must(t, os.WriteFile(path+"-shm", nil, 0o600))
	must(t, os.Chmod(path+"-shm", 0o666))
	s := open(t, dir, procA)
	if got := only(t, s); got.ID != "s1" {
		t.Errorf("%+v", got)
	}
	if info, err := os.Stat(path + "-shm"); err != nil || info.Mode() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
}
