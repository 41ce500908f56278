package workspace_test

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"brig/orchestrator/sandbox/sandboxtest"
	"brig/orchestrator/workspace"
)

func TestNoSpace(t *testing.T) {
	dir := sandboxtest.SmallDisk(t, "1m")
	w, err := workspace.Open(dir)
	must(t, err)
	defer w.Close()
	if _, err := w.Put("small", bytes.NewReader(make([]byte, 100_000)), 0); err != nil {
		t.Fatalf("control: %v", err)
	}
	_, err = w.Put("big", bytes.NewReader(make([]byte, 2<<20)), 0)
	wantKind(t, err, workspace.ErrNoSpace)
	wantNoTemp(t, dir)
	if _, err := w.Put("small2", bytes.NewReader(make([]byte, 100_000)), 0); err != nil {
		t.Fatalf("after a failed put there is no room: %v", err)
	}

	s := newStage(t, workspace.Limits{})
	s.write(t, "big", strings.Repeat("x", 2<<20))
	wantKind(t, s.CopyOut("big", filepath.Join(dir, "copy")), workspace.ErrNoSpace)
	wantNoTemp(t, dir)
}

// A lease makes others wait for up to 45 seconds when they open the file; we do not wait.
func TestLease(t *testing.T) {
	s := newStage(t, workspace.Limits{})
	s.write(t, "leased", "x")
	f, err := os.OpenFile(s.path("leased"), os.O_RDWR, 0)
	must(t, err)
	defer f.Close()
	if _, _, errno := syscall.Syscall(syscall.SYS_FCNTL, f.Fd(), syscall.F_SETLEASE, syscall.F_WRLCK); errno != 0 {
		sandboxtest.Skip(t, "a file system with leases", errno.Error())
	}
	err = within(t, "get of a leased file", func() error { _, err := s.read("leased"); return err })
	wantKind(t, err, workspace.ErrBusy)
	_, err = s.Put("leased", strings.NewReader("y"), 0)
	must(t, err)
	if got, err := s.read("leased"); err != nil || got != "y" {
		t.Fatalf("after put it is %q, %v", got, err)
	}
}

// asOrdinary runs the calling test again as a user without rights, because root
// is never denied anything. It reports whether the caller is that user.
func asOrdinary(t *testing.T) bool {
	t.Helper()
	if os.Geteuid() != 0 {
		return true
	}
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe", "-test.run=^"+t.Name()+"$", "-test.count=1", "-test.v")
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "--- PASS: "+t.Name()) {
		t.Fatalf("as uid 65534: %v\n%s", err, out)
	}
	return false
}

func TestPermissionDenied(t *testing.T) {
	if !asOrdinary(t) {
		return
	}
	s := newStage(t, workspace.Limits{})
	for _, name := range []string{"open/f", "closed/deep/f", "half/f", "secret"} {
		s.write(t, name, "x")
	}
	for _, name := range []string{"closed/deep", "closed", "secret"} {
		must(t, os.Chmod(s.path(name), 0))
	}
	must(t, os.Chmod(s.path("half"), 0o600))
	for _, name := range []string{"secret", "closed/deep/f", "half/f"} {
		_, err := s.read(name)
		wantKind(t, err, fs.ErrPermission)
	}
	_, err := s.Put("closed/new", strings.NewReader(""), 0)
	wantKind(t, err, fs.ErrPermission)
	entries, _, err := s.List("", 0)
	must(t, err) // what cannot be read is reported, and does not hide the rest
	problems := map[string]string{}
	for _, e := range entries {
		problems[e.Path] = e.Problem
	}
	if problems["closed"] != "permission denied" || problems["open"] != "" {
		t.Fatalf("listed %+v", entries)
	}
	if _, ok := problems["open/f"]; !ok {
		t.Fatalf("the rest is hidden: %+v", entries)
	}
	if _, err := s.Snapshot(); err != nil {
		t.Fatal(err)
	}
	if os.RemoveAll(s.path("closed")) == nil {
		t.Fatal("control: os.RemoveAll can remove it too")
	}
	must(t, s.Remove("closed"))
	must(t, os.Chmod(s.dir, 0o500))
	must(t, s.Clear())
	if left, err := os.ReadDir(s.dir); err != nil || len(left) != 0 {
		t.Fatalf("after Clear there is %v, %v", left, err)
	}
	_, err = workspace.Open("/root/x")
	if !errors.Is(err, fs.ErrPermission) && !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("open of a forbidden directory: %v", err)
	}
}

// Where brig is root in a directory of somebody else, new files are theirs.
func TestGiveAway(t *testing.T) {
	if os.Geteuid() != 0 {
		sandboxtest.Skip(t, "root", "an ordinary user")
	}
	dir := filepath.Join(t.TempDir(), "ws")
	must(t, os.Mkdir(dir, 0o700))
	w, err := workspace.Open(dir)
	must(t, err)
	defer w.Close()
	must(t, os.Chown(dir, 65533, 65532)) // as a backend does, which comes later
	_, err = w.Put("a/b/f", strings.NewReader("x"), 0)
	must(t, err)
	for _, name := range []string{"a", "a/b", "a/b/f"} {
		info, err := os.Lstat(filepath.Join(dir, name))
		must(t, err)
		if st := info.Sys().(*syscall.Stat_t); st.Uid != 65533 || st.Gid != 65532 {
			t.Errorf("%s belongs to %d:%d", name, st.Uid, st.Gid)
		}
	}
	// What is copied out is the copier's.
	dest := filepath.Join(t.TempDir(), "f")
	must(t, w.CopyOut("a/b/f", dest))
	info, err := os.Lstat(dest)
	must(t, err)
	if st := info.Sys().(*syscall.Stat_t); st.Uid != 0 {
		t.Errorf("the copy belongs to %d", st.Uid)
	}
}

// What was given away can be taken back, links themselves and never what they lead to;
// what is ours already is left as it is.
func TestGiveAndTake(t *testing.T) {
	if os.Geteuid() != 0 {
		sandboxtest.Skip(t, "root", "an ordinary user")
	}
	outside := filepath.Join(t.TempDir(), "outside")
	must(t, os.WriteFile(outside, nil, 0o600))
	dir := filepath.Join(t.TempDir(), "ws")
	must(t, os.MkdirAll(filepath.Join(dir, "a", "b"), 0o700))
	must(t, os.WriteFile(filepath.Join(dir, "a", "b", "f"), nil, 0o600))
	must(t, os.Symlink(outside, filepath.Join(dir, "a", "out")))
	owner := func(name string) uint32 {
		info, err := os.Lstat(name)
		must(t, err)
		return info.Sys().(*syscall.Stat_t).Uid
	}
	inside := []string{dir, filepath.Join(dir, "a"), filepath.Join(dir, "a", "b", "f"), filepath.Join(dir, "a", "out")}
	must(t, workspace.Give(dir, 65532, 65532))
	for _, name := range inside {
		if owner(name) != 65532 {
			t.Errorf("%s belongs to %d after it was given away", name, owner(name))
		}
	}
	must(t, workspace.Take(dir))
	for _, name := range inside {
		if owner(name) != 0 {
			t.Errorf("%s belongs to %d after it was taken back", name, owner(name))
		}
	}
	must(t, os.Chown(inside[2], 65532, 65532))
	must(t, workspace.Take(dir))
	if owner(inside[2]) != 65532 {
		t.Error("a directory of ours was walked through")
	}
	if owner(outside) != 0 {
		t.Error("a link was followed")
	}
	if workspace.Take(dir+"x") == nil || workspace.Give(dir+"x", 1, 1) == nil {
		t.Error("a directory that is not there was changed")
	}
}
