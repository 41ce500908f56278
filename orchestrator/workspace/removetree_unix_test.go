//go:build unix

package workspace_test

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"brig/orchestrator/workspace"
)

// fewFiles lets this process open few files until the test ends.
func fewFiles(t *testing.T) {
	t.Helper()
	var was syscall.Rlimit
	must(t, syscall.Getrlimit(syscall.RLIMIT_NOFILE, &was))
	t.Cleanup(func() { must(t, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &was)) })
	now := was
	now.Cur = 256
	must(t, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &now))
}

// nested makes n directories below each other and gives the lowest. Afterwards
// the one in the middle is closed to everybody.
func nested(t *testing.T, dir string, n int) *os.Root {
	t.Helper()
	root, err := os.OpenRoot(dir)
	must(t, err)
	for i := range n {
		must(t, root.Mkdir("d", 0o700))
		next, err := root.OpenRoot("d")
		must(t, err)
		if i == n/2 {
			closed, err := next.Open(".")
			must(t, err)
			defer func() {
				must(t, closed.Chmod(0))
				must(t, closed.Close())
			}()
		}
		must(t, root.Close())
		root = next
	}
	return root
}

// A loop of mkdir and chdir makes tens of thousands of directories below each
// other in a second: more than there are descriptors, and no path reaches them.
func TestRemoveTreeOfAnyDepth(t *testing.T) {
	const levels = 20_000
	top := t.TempDir()
	dir, outside := filepath.Join(top, "session"), filepath.Join(top, "precious")
	must(t, os.Mkdir(dir, 0o700))
	must(t, os.WriteFile(outside, nil, 0o600))
	bottom := nested(t, dir, levels)
	must(t, bottom.WriteFile("f", nil, 0o600))
	must(t, bottom.Symlink(top, "link"))
	must(t, bottom.Close())
	must(t, os.Symlink(top, filepath.Join(dir, "link")))
	must(t, os.Chmod(dir, 0))
	t.Cleanup(func() { _ = workspace.RemoveTree(dir) }) // t.TempDir itself could not
	fewFiles(t)
	if err := os.RemoveAll(dir); err == nil {
		t.Fatal("control: the tree takes no more descriptors than there are")
	}
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	began := time.Now()
	must(t, workspace.RemoveTree(dir))
	t.Logf("removed in %s", time.Since(began))
	runtime.ReadMemStats(&after)
	if grown := int64(after.HeapSys) - int64(before.HeapSys); grown > 32<<20 {
		t.Errorf("the heap grew by %d MiB", grown>>20)
	}
	if _, err := os.Lstat(dir); !os.IsNotExist(err) {
		t.Errorf("the directory is left: %v", err)
	}
	if _, err := os.Stat(outside); err != nil {
		t.Errorf("a link was followed: %v", err)
	}
}

func TestRemoveTreeOfOtherThings(t *testing.T) {
	top := t.TempDir()
	must(t, workspace.RemoveTree(filepath.Join(top, "nothing")))
	must(t, os.MkdirAll(filepath.Join(top, "kept", "d"), 0o700))
	link, file := filepath.Join(top, "link"), filepath.Join(top, "file")
	must(t, os.Symlink(filepath.Join(top, "kept"), link))
	must(t, os.WriteFile(file, nil, 0o600))
	must(t, workspace.RemoveTree(link))
	must(t, workspace.RemoveTree(file))
	left, err := os.ReadDir(top)
	must(t, err)
	if len(left) != 1 {
		t.Errorf("left are %v", left)
	}
	if _, err := os.Stat(filepath.Join(top, "kept", "d")); err != nil {
		t.Errorf("a link was followed: %v", err)
	}
	err = workspace.RemoveTree(filepath.Join(file+strings.Repeat("x", 2000), "f"))
	if err == nil || len(err.Error()) > 400 || strings.Contains(err.Error(), "\n") {
		t.Errorf("a name that cannot be: %v", err)
	}
}
