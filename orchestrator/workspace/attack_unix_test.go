//go:build unix

package workspace_test

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"brig/orchestrator/sandbox/sandboxtest"
	"brig/orchestrator/workspace"
)

// Links that lead out, in every place of a name. The control is a link that stays inside.
func TestSymlinkOut(t *testing.T) {
	s := newStage(t, workspace.Limits{})
	s.write(t, "in/real.txt", "inside")
	for link, target := range map[string]string{
		"abs-file":  s.secret,
		"rel-file":  "../outside/secret.txt",
		"abs-dir":   s.outside,
		"rel-dir":   "../outside",
		"in/up":     "../../outside",
		"chain":     "chain2",
		"chain2":    "rel-dir",
		"proc":      "/proc/self/root" + s.outside,
		"roundtrip": "../ws/../outside",
	} {
		must(t, os.Symlink(target, s.path(link)))
	}
	for _, name := range []string{
		"abs-file", "rel-file", "abs-dir/secret.txt", "rel-dir/secret.txt", "in/up/secret.txt",
		"chain/secret.txt", "proc/secret.txt", "roundtrip/secret.txt",
	} {
		got, err := s.read(name)
		wantKind(t, err, workspace.ErrEscapes)
		if got != "" {
			t.Errorf("Get(%q) gave %q", name, got)
		}
		dest := filepath.Join(t.TempDir(), "copy")
		wantKind(t, s.CopyOut(name, dest), workspace.ErrEscapes)
		if _, err := os.Lstat(dest); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("CopyOut(%q) left %v", name, err)
		}
		if strings.Contains(name, "/") {
			_, err = s.Put(name, strings.NewReader("overwritten"), 0)
			wantKind(t, err, workspace.ErrEscapes)
			_, err = s.Put(name+"/new/deeper", strings.NewReader("overwritten"), 0)
			wantKind(t, err, workspace.ErrEscapes)
			wantKind(t, s.Remove(name), workspace.ErrEscapes)
			_, _, err = s.List(name, 0)
			wantKind(t, err, workspace.ErrEscapes)
		}
	}
	entries, _, err := s.List("", 0)
	must(t, err)
	for _, e := range entries {
		if strings.Contains(e.Path, "secret") {
			t.Errorf("a listing went through a link: %+v", e)
		}
	}
	wantIntact(t, s)

	must(t, os.Symlink("in", s.path("ok-dir")))
	must(t, os.Symlink("../in/real.txt", s.path("in/ok-file")))
	for _, name := range []string{"ok-dir/real.txt", "in/ok-file", "ok-dir/ok-file"} {
		if got, err := s.read(name); err != nil || got != "inside" {
			t.Errorf("control: Get(%q) is %q, %v", name, got, err)
		}
	}
}

// wantIntact checks that the directory beside the workspace is as it was.
func wantIntact(t *testing.T, s stage) {
	t.Helper()
	b, err := os.ReadFile(s.secret)
	if err != nil || string(b) != secret {
		t.Fatalf("the secret is now %q, %v", b, err)
	}
	left, err := os.ReadDir(s.outside)
	if err != nil || len(left) != 1 {
		t.Fatalf("beside the workspace there is now %v, %v", left, err)
	}
}

// A planted link where something is to be written is replaced, never written through.
func TestWriteReplacesLink(t *testing.T) {
	s := newStage(t, workspace.Limits{})
	s.write(t, "src", "new")
	for _, target := range []string{s.secret, "../outside/secret.txt", "src", "dangling", "loop"} {
		_ = os.Remove(s.path("loop"))
		must(t, os.Symlink(target, s.path("loop")))
		if _, err := s.Put("loop", strings.NewReader("new"), 0); err != nil {
			t.Fatalf("put over a link to %s: %v", target, err)
		}
		if info, err := os.Lstat(s.path("loop")); err != nil || !info.Mode().IsRegular() {
			t.Fatalf("after put over a link to %s: %v, %v", target, info.Mode(), err)
		}
		dest := filepath.Join(t.TempDir(), "out")
		must(t, os.Symlink(s.secret, dest))
		must(t, s.CopyOut("src", dest))
		if info, err := os.Lstat(dest); err != nil || !info.Mode().IsRegular() {
			t.Fatalf("after CopyOut over a link: %v, %v", info.Mode(), err)
		}
	}
	wantIntact(t, s)
	// A hard link to a file outside is cut by a put as well.
	must(t, os.Link(s.secret, s.path("hard")))
	if _, err := s.Put("hard", strings.NewReader("new"), 0); err != nil {
		t.Fatal(err)
	}
	wantIntact(t, s)
}

func TestHardLink(t *testing.T) {
	s := newStage(t, workspace.Limits{})
	must(t, os.Link(s.secret, s.path("hard")))
	_, err := s.read("hard")
	wantKind(t, err, workspace.ErrLinked)
	wantKind(t, s.CopyOut("hard", filepath.Join(s.outside, "copy")), workspace.ErrLinked)
	must(t, s.Remove("hard"))
	wantIntact(t, s)

	// Two names inside are refused too, and count once; one name is the control.
	s.write(t, "a", strings.Repeat("x", 100_000))
	must(t, os.Link(s.path("a"), s.path("b")))
	_, err = s.read("a")
	wantKind(t, err, workspace.ErrLinked)
	used, files, err := s.Usage()
	if err != nil || files != 2 || used < 100_000 || used > 150_000 {
		t.Fatalf("usage is %d bytes in %d files, %v", used, files, err)
	}
	must(t, os.Remove(s.path("b")))
	if _, err := s.read("a"); err != nil {
		t.Fatalf("control: %v", err)
	}
}

// within fails the test instead of hanging it.
func within(t *testing.T, what string, f func() error) error {
	t.Helper()
	done := make(chan error, 1)
	go func() { done <- f() }()
	select {
	case err := <-done:
		return err
	case <-time.After(20 * time.Second):
		t.Fatalf("%s hangs", what)
		return nil
	}
}

func TestSpecialFiles(t *testing.T) {
	s := newStage(t, workspace.Limits{})
	must(t, syscall.Mkfifo(s.path("fifo"), 0o600))
	must(t, syscall.Mkfifo(s.path("fifo dir"), 0o600))
	must(t, os.Symlink("fifo", s.path("to-fifo")))
	t.Chdir(s.dir) // a socket's path is short
	l, err := net.Listen("unix", "socket")
	must(t, err)
	defer l.Close()
	names := []string{"fifo", "to-fifo", "socket"}
	if os.Geteuid() == 0 {
		must(t, exec.CommandContext(t.Context(), "mknod", s.path("zero"), "c", "1", "5").Run())
		names = append(names, "zero")
	} else {
		t.Log("not root: no device to plant")
	}
	for _, name := range names {
		wantKind(t, within(t, "get "+name, func() error { _, err := s.read(name); return err }), workspace.ErrNotRegular)
		wantKind(t, within(t, "copy "+name, func() error { return s.CopyOut(name, filepath.Join(s.outside, "x")) }), workspace.ErrNotRegular)
		err := within(t, "put "+name, func() error { _, err := s.Put(name, strings.NewReader("x"), 0); return err })
		if name == "to-fifo" {
			must(t, err) // the link is replaced
			continue
		}
		wantKind(t, err, workspace.ErrNotRegular)
	}
	for _, f := range []func() error{
		func() error { _, err := s.Put("fifo/x", strings.NewReader(""), 0); return err },
		func() error { _, err := s.read("fifo/x"); return err },
		func() error { _, err := workspace.Open(s.path("fifo")); return err },
		func() error { return s.CopyOut("to-fifo", s.path("fifo/x")) },
		func() error { _, _, err := s.List("fifo/x", 0); return err },
	} {
		if err := within(t, "a named pipe as a directory", f); err == nil {
			t.Error("a named pipe as a directory was no error")
		}
	}
	entries, _, err := s.List("", 0)
	must(t, err)
	for _, e := range entries {
		if want := e.Path != "to-fifo"; (e.Kind == workspace.Other) != want {
			t.Errorf("listed %+v", e)
		}
	}
	for _, name := range names {
		must(t, s.Remove(name))
	}
	wantIntact(t, s)
}

// Whatever a name was before it was opened, the opened file decides.
func TestInspect(t *testing.T) {
	s := newStage(t, workspace.Limits{})
	s.write(t, "plain", "12345")
	must(t, os.Link(s.secret, s.path("hard")))
	must(t, syscall.Mkfifo(s.path("fifo"), 0o600))
	for _, c := range []struct {
		name string
		max  int64
		kind error
	}{
		{"plain", 5, nil},
		{"plain", 4, workspace.ErrTooLarge},
		{"hard", 100, workspace.ErrLinked},
		{"fifo", 100, workspace.ErrNotRegular},
		{".", 1 << 20, workspace.ErrNotRegular},
	} {
		f, err := os.OpenFile(s.path(c.name), os.O_RDONLY|syscall.O_NONBLOCK, 0)
		must(t, err)
		if err := workspace.Inspect(s.Workspace, f, c.max); !errors.Is(err, c.kind) {
			t.Errorf("an opened %s is %v, want %v", c.name, err, c.kind)
		}
		must(t, f.Close())
	}
}

// A tree deeper than there are descriptors is removed all the same, and listing
// it does not use them up.
func TestFewDescriptors(t *testing.T) {
	s := newStage(t, workspace.Limits{})
	makeDeep(t, s.dir, 1000)
	var old syscall.Rlimit
	must(t, syscall.Getrlimit(syscall.RLIMIT_NOFILE, &old))
	few := old
	few.Cur = 400
	must(t, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &few))
	defer func() { must(t, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &old)) }()
	if err := os.RemoveAll(s.path("d")); !errors.Is(err, syscall.EMFILE) {
		t.Fatalf("control: os.RemoveAll gave %v", err)
	}
	_, _, err := s.List("", 0)
	must(t, err)
	must(t, s.Remove("d"))
	if left, err := os.ReadDir(s.dir); err != nil || len(left) != 0 {
		t.Fatalf("after Remove there is %v, %v", left, err)
	}
}

func TestSparse(t *testing.T) {
	s := newStage(t, workspace.Limits{})
	f, err := os.Create(s.path("sparse"))
	must(t, err)
	defer f.Close()
	if err := f.Truncate(1 << 40); err != nil {
		sandboxtest.Skip(t, "a file system that takes a sparse file of 1 TiB", err.Error())
	}
	_, err = s.read("sparse")
	wantKind(t, err, workspace.ErrTooLarge)
	wantKind(t, s.CopyOut("sparse", filepath.Join(s.outside, "x")), workspace.ErrTooLarge)
	used, files, err := s.Usage()
	if err != nil || files != 1 || used > 1<<20 {
		t.Fatalf("usage is %d bytes in %d files, %v", used, files, err)
	}
	if _, err := s.Put("other", strings.NewReader("fits"), 0); err != nil {
		t.Fatalf("a sparse file blocks a put: %v", err)
	}
}

// A file that grows while it is read never gives more than was allowed.
func TestGrowing(t *testing.T) {
	s := newStage(t, workspace.Limits{})
	s.write(t, "grow", "12345")
	for _, c := range []struct {
		max  int64
		grow string
		want string
		kind error
	}{{10, "67890", "1234567890", nil}, {10, "67890!", "1234567890", workspace.ErrTooLarge}, {5, "", "12345", nil}} {
		s.write(t, "grow", "12345")
		r, info, err := s.Get("grow", c.max)
		must(t, err)
		if info.Size() != 5 {
			t.Fatalf("size is %d", info.Size())
		}
		f, err := os.OpenFile(s.path("grow"), os.O_APPEND|os.O_WRONLY, 0)
		must(t, err)
		_, err = f.WriteString(c.grow)
		must(t, errors.Join(err, f.Close()))
		b, err := io.ReadAll(r)
		if string(b) != c.want || !errors.Is(err, c.kind) || (err != nil) != (c.kind != nil) {
			t.Errorf("max %d grown by %q: read %q, %v", c.max, c.grow, b, err)
		}
		must(t, r.Close())
	}
	_, _, err := s.Get("grow", 4)
	wantKind(t, err, workspace.ErrTooLarge)
}

// Names that code can make and no text can hold are listed, read and removed.
func TestStrangeNames(t *testing.T) {
	s := newStage(t, workspace.Limits{})
	names := []string{"caf\xe9", "a\nb", "\x1b[31mred", "\xff", "back\\slash", "c:d", "con", strings.Repeat("\xf0", 255), " ", "-rf"}
	for _, name := range names {
		if err := os.WriteFile(s.path(name), []byte("x"), 0o600); err != nil {
			sandboxtest.Skip(t, "a file system that takes any bytes as a name", err.Error())
		}
	}
	entries, _, err := s.List("", 0)
	must(t, err)
	if len(entries) != len(names) {
		t.Fatalf("listed %q", paths(entries))
	}
	for _, e := range entries {
		if got, err := s.read(e.Path); err != nil || got != "x" {
			t.Errorf("Get(%q) is %q, %v", e.Path, got, err)
		}
		must(t, s.Remove(e.Path))
	}
}

func TestModes(t *testing.T) {
	old := syscall.Umask(0o077)
	defer syscall.Umask(old)
	s := newStage(t, workspace.Limits{})
	for _, c := range []struct {
		ask, file, dir fs.FileMode
	}{
		{0, 0o600, 0o700},
		{0o644, 0o644, 0o755},
		{0o640, 0o640, 0o750},
		{fs.ModeSetuid | fs.ModeSetgid | fs.ModeSticky | 0o755, 0o755, 0o755},
	} {
		dir := fmt.Sprintf("d%o", c.ask)
		_, err := s.Put(dir+"/f", strings.NewReader(""), c.ask)
		must(t, err)
		for name, want := range map[string]fs.FileMode{dir: fs.ModeDir | c.dir, dir + "/f": c.file} {
			info, err := os.Lstat(s.path(name))
			if err != nil || info.Mode() != want {
				t.Errorf("asked for %v: %s is %v, %v; want %v", c.ask, name, info.Mode(), err, want)
			}
		}
	}
}

// What comes out is as open as the umask of whoever takes it out says, however
// open it is inside, and never a program.
func TestCopyOutMode(t *testing.T) {
	s := newStage(t, workspace.Limits{})
	dest := filepath.Join(s.outside, "copy")
	for _, inside := range []fs.FileMode{0o600, 0o644, 0o777 | fs.ModeSetuid | fs.ModeSetgid} {
		s.write(t, "tool", "#!/bin/sh")
		must(t, os.Chmod(s.path("tool"), inside))
		for umask, want := range map[int]fs.FileMode{0o022: 0o644, 0o077: 0o600, 0o002: 0o664, 0: 0o666} {
			old := syscall.Umask(umask)
			err := errors.Join(s.CopyOut("tool", dest), os.Remove(dest), s.CopyOutNew("tool", dest))
			syscall.Umask(old)
			must(t, err)
			if info, err := os.Lstat(dest); err != nil || info.Mode() != want {
				t.Errorf("%v inside, umask %o: the copy's mode is %v, %v; want %v", inside, umask, info.Mode(), err, want)
			}
			must(t, os.Remove(dest))
		}
	}
}
