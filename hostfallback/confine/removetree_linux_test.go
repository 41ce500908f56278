package confine

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// deep makes n directories below each other, the one in the middle closed to
// everybody, with a file of so many bytes and a link in the lowest.
func deep(t *testing.T, dir string, n int, bytes int64) {
	t.Helper()
	at, err := openDir(unix.AT_FDCWD, dir)
	if err != nil {
		t.Fatal(err)
	}
	for i := range n {
		err := unix.Mkdirat(int(at.Fd()), "d", 0o700)
		next, err2 := openDir(int(at.Fd()), "d")
		if err != nil || err2 != nil {
			t.Fatal(err, err2)
		}
		if i == n/2 {
			defer func() { _ = next.Close() }()
			defer func() { _ = next.Chmod(0) }()
		}
		if i != n/2+1 {
			_ = at.Close()
		}
		at = next
	}
	if err := unix.Symlinkat(os.TempDir(), int(at.Fd()), "link"); err != nil {
		t.Fatal(err)
	}
	fd, err := unix.Openat(int(at.Fd()), "f", unix.O_CREAT|unix.O_WRONLY, 0o600)
	if err == nil {
		_, err = unix.Write(fd, make([]byte, bytes))
		_ = unix.Close(fd)
	}
	if err != nil {
		t.Fatal(err)
	}
	_ = at.Close()
}

func TestRemoveTreeOfAnyDepth(t *testing.T) {
	top := t.TempDir()
	home := filepath.Join(top, "home")
	if err := os.Mkdir(home, 0o700); err != nil {
		t.Fatal(err)
	}
	deep(t, home, 20_000, 1)
	var was unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &was); err != nil {
		t.Fatal(err)
	}
	few := was
	few.Cur = 256
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &few); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Setrlimit(unix.RLIMIT_NOFILE, &was) }()
	if err := os.RemoveAll(home); err == nil {
		t.Fatal("control: the tree takes no more descriptors than there are")
	}
	if err := RemoveTree(home); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(home); !os.IsNotExist(err) {
		t.Errorf("it is left: %v", err)
	}
	if err := RemoveTree(home); err != nil {
		t.Errorf("once more: %v", err)
	}
}

// TestDiskUseAtAnyDepth: what is not counted is not left out in silence.
func TestDiskUseAtAnyDepth(t *testing.T) {
	for _, c := range []struct {
		deep   int
		unseen string
	}{{70, ""}, {DiskDepth, ""}, {DiskDepth + 1, "directories are nested deeper than 256"}, {2000, "directories are nested deeper than 256"}} {
		dir := filepath.Join(t.TempDir(), "w")
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		deep(t, dir, c.deep, 4<<20)
		used, unseen := diskUse(dir)
		if unseen != c.unseen || unseen == "" && used < 4<<20 {
			t.Errorf("%d deep: %d bytes, %q", c.deep, used, unseen)
		}
		if err := RemoveTree(dir); err != nil {
			t.Error(err)
		}
	}
}

// TestDiskUseOfClosedDirectories: whoever takes the rights to a directory away from
// its owner hides nothing in it.
func TestDiskUseOfClosedDirectories(t *testing.T) {
	for _, mode := range []os.FileMode{0o700, 0o300, 0o400, 0o600, 0} {
		dir := t.TempDir()
		inner := filepath.Join(dir, "in", "ner")
		if err := os.MkdirAll(inner, 0o700); err != nil {
			t.Fatal(err)
		}
		for _, at := range []string{inner, dir} {
			if err := os.WriteFile(filepath.Join(at, "big"), make([]byte, 4<<20), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		for _, closed := range []string{inner, filepath.Dir(inner), dir} {
			if err := os.Chmod(closed, mode); err != nil {
				t.Fatal(err)
			}
		}
		if used, unseen := diskUse(dir); used < 8<<20 || unseen != "" {
			t.Errorf("mode %o: %d bytes, %q", mode, used, unseen)
		}
		if err := RemoveTree(dir); err != nil {
			t.Error(err)
		}
	}
	if used, unseen := diskUse(filepath.Join(t.TempDir(), "gone")); unseen == "" {
		t.Errorf("a directory that cannot be opened counts as %d bytes", used)
	}
}
