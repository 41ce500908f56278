package service_test

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"brig/orchestrator/api"
	. "brig/orchestrator/sandbox/sandboxtest"
)

// A full disk is told as what it is, whatever meets it, and is no failure of brig's.
func TestFullDisk(t *testing.T) {
	if os.Geteuid() != 0 {
		Skip(t, "root, to mount a small file system", "an ordinary user")
	}
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=4m,mode=700"); err != nil {
		Skip(t, "a tmpfs of its own", err.Error())
	}
	t.Cleanup(func() { _ = syscall.Unmount(dir, syscall.MNT_DETACH) })
	r := (&house{dir: dir}).start(t)
	b := r.agent("agent")
	x, _, err := b.OpenSession(t.Context(), api.SessionRequest{})
	if err != nil {
		t.Fatal(err)
	}
	ballast := filepath.Join(dir, "ballast")
	f, err := os.Create(ballast)
	if err != nil {
		t.Fatal(err)
	}
	for _, size := range []int{64 << 10, 4 << 10} { // all of it, to the last page
		for err = nil; err == nil; {
			_, err = f.Write(make([]byte, size))
		}
	}
	if !errors.Is(err, syscall.ENOSPC) || f.Close() != nil {
		t.Fatal(err)
	}
	var open, run error
	for range 200 { // until what the files had room for is used up
		if _, _, open = b.OpenSession(t.Context(), api.SessionRequest{}); open != nil {
			break
		}
	}
	if !errors.Is(open, &api.Problem{Code: api.CodeStorage}) {
		t.Errorf("a session: %v", open)
	}
	for range 2000 {
		if _, run = b.Run(t.Context(), x.ID, api.RunRequest{Code: program(Print("x"))}, api.RunOptions{}, nil); run != nil {
			break
		}
	}
	if !errors.Is(run, &api.Problem{Code: api.CodeStorage}) {
		t.Errorf("a run: %v", run)
	}
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Run(t.Context(), x.ID, api.RunRequest{Code: program(Print("x"))}, api.RunOptions{}, nil); err != nil {
		t.Errorf("with room again: %v", err)
	}
}
