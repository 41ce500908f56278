package store

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"brig/orchestrator/sandbox/sandboxtest"
)

// A full disk: the call that met it says so, and everything acknowledged stays.
func TestFullDisk(t *testing.T) {
	disk := sandboxtest.SmallDisk(t, "512k")
	dir := filepath.Join(disk, "state")
	s := open(t, dir, procA)
	ballast := filepath.Join(disk, "ballast")
	acknowledged := map[string]bool{}
	var full error
	for n := range 100 {
		id := fmt.Sprint("s", n)
		if n == 10 {
			must(t, fill(ballast))
		}
		if full = s.Add(t.Context(), row(id)); full != nil {
			break
		}
		acknowledged[id] = true
	}
	if full == nil || !strings.Contains(full.Error(), "the disk with "+s.Path()+" is full") {
		t.Fatalf("a full disk: %v", full)
	}
	if err := s.Begin(t.Context(), "s0", "run-1", row("s0").Created); err == nil {
		t.Log("a run was still noted") // where the journal had room left
	}
	intact(t, s, acknowledged)
	shut(t, s)

	// Opening says so as well, or does without.
	if again, _, err := Open(t.Context(), Options{Dir: dir, Owner: ownerA, Process: procB}); err == nil {
		intact(t, again, acknowledged)
		shut(t, again)
	} else if !strings.Contains(err.Error(), "is full") {
		t.Errorf("opening on a full disk: %v", err)
	}
	must(t, os.Remove(ballast))
	s = open(t, dir, procB)
	intact(t, s, acknowledged)
	must(t, s.Add(t.Context(), row("after")))
}

func fill(name string) error {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	defer f.Close()
	for _, size := range []int{64 << 10, 4 << 10} { // all of it, to the last page
		for err == nil {
			_, err = f.Write(make([]byte, size))
		}
		if !errors.Is(err, syscall.ENOSPC) {
			return err
		}
		err = nil
	}
	return nil
}

func intact(t *testing.T, s *Store, want map[string]bool) {
	t.Helper()
	got := map[string]bool{}
	for _, x := range list(t, s) {
		got[x.ID] = true
	}
	for id := range want {
		if !got[id] {
			t.Errorf("acknowledged and gone: %s", id)
		}
	}
}

func TestReadOnlyDirectory(t *testing.T) {
	disk := sandboxtest.SmallDisk(t, "512k")
	dir := filepath.Join(disk, "state")
	s := open(t, dir, procA)
	must(t, s.Add(t.Context(), row("s1")))
	shut(t, s)
	must(t, syscall.Mount("", disk, "", syscall.MS_REMOUNT|syscall.MS_RDONLY, ""))
	for name, where := range map[string]string{"with a database": dir, "without one": filepath.Join(disk, "other")} {
		if err := refused(t, where); !errors.Is(err, syscall.EROFS) || !strings.Contains(err.Error(), "cannot be written") {
			t.Errorf("%s: %v", name, err)
		}
	}
	must(t, syscall.Mount("", disk, "", syscall.MS_REMOUNT, "size=512k"))
	if got := only(t, open(t, dir, procB)); got.ID != "s1" {
		t.Errorf("%+v", got)
	}
}
