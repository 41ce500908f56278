package selftest

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// old makes everything of these paths look as if it had been made long ago.
func old(t *testing.T, paths ...string) {
	t.Helper()
	then := time.Now().Add(-2 * time.Hour)
	for _, path := range paths {
		if err := os.Chtimes(path, then, then); err != nil {
			t.Error(err)
		}
	}
}

func matching(t *testing.T, pattern string) []string {
	t.Helper()
	found, err := filepath.Glob(pattern)
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// TestKilledAndTheRuntimeDirectoryEmptied: after the end of a login nothing but what
// stands in the directories themselves tells what a killed run has left in them.
func TestKilledAndTheRuntimeDirectoryEmptied(t *testing.T) {
	o := yardOptions(t)
	top := filepath.Dir(o.Root)
	o.Root += "/" + strings.Repeat("long", 25) // so that there is something in TempDir as well
	token := killedRun(t, o)
	killMarked(runMark + token)
	if err := os.RemoveAll(top); err != nil {
		t.Fatal(err)
	}
	canaries := matching(t, filepath.Join(filepath.Dir(filepath.Dir(o.Own["state"])), "*", "brig", ownName+"*"))
	if len(canaries) != len(o.Own) {
		t.Fatalf("the kill left %v, want one in each of %v", canaries, o.Own)
	}
	shm := filepath.Join(sharedMemory, strayName+strings.TrimPrefix(filepath.Base(canaries[0]), ownName))
	sockets := filepath.Join(os.TempDir(), strayName+token)
	canaries = append(canaries, filepath.Join(os.TempDir(), strayName+strings.TrimPrefix(filepath.Base(canaries[0]), ownName))) // the one for everybody

	// Another run may be making what is fresh.
	if err := mustYard(t, o).close(); err != nil {
		t.Error(err)
	}
	for _, path := range append(canaries, shm, sockets) {
		if _, err := os.Lstat(path); err != nil {
			t.Errorf("fresh, and gone: %v", err)
		}
	}
	old(t, append(canaries, shm, sockets)...)
	if err := mustYard(t, o).close(); err != nil {
		t.Error(err)
	}
	for _, path := range append(canaries, shm, sockets) {
		if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s is left: %v", path, err)
		}
	}
	nothingLeft(t, o, &yard{token: token})
}

// TestSweepOfWhatHasNoLock: a run may be killed between the directory and its lock.
func TestSweepOfWhatHasNoLock(t *testing.T) {
	o := yardOptions(t)
	dead := filepath.Join(o.Own["cache"], ownName+random(8))
	fresh := filepath.Join(o.Own["cache"], ownName+random(8))
	notes := filepath.Join(o.Own["cache"], ownName+"notes")
	file := filepath.Join(o.Own["cache"], ownName+random(8))
	link := filepath.Join(o.Own["cache"], ownName+random(8))
	for _, dir := range []string{filepath.Join(dead, "closed"), fresh, notes} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(os.WriteFile(file, nil, 0o600), os.Symlink(o.Home, link), os.Chmod(filepath.Join(dead, "closed"), 0)); err != nil {
		t.Fatal(err)
	}
	old(t, dead, notes, file, o.Home)
	if err := mustYard(t, o).close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(dead); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%s is left: %v", dead, err)
	}
	for _, path := range []string{fresh, notes, file, link, filepath.Join(o.Home, "thing")} {
		if _, err := os.Lstat(path); err != nil {
			t.Errorf("what is not a dead run's is gone: %v", err)
		}
	}
}

// TestSweepTakesNobodyElses: neither a record nor a lock that brig has not written
// removes what belongs to somebody else.
func TestSweepTakesNobodyElses(t *testing.T) {
	o := yardOptions(t)
	hex := random(8)
	other := filepath.Join(filepath.Dir(o.Home), "other")
	kept := []string{
		filepath.Join(o.Home, "thing"), filepath.Join(o.Home, ownName+hex), filepath.Join(o.Home, strayName+hex),
		filepath.Join(o.Own["state"], ownName+"notes"), filepath.Join(o.Own["state"], ownName), filepath.Join(o.Own["state"], ownName+hex+"0"),
		filepath.Join(o.Own["state"], strayName+hex), filepath.Join(o.Own["state"], "deep", ownName+hex), filepath.Join(o.Own["state"], "empty"),
		filepath.Join(other, "full"), filepath.Join(o.Root, "somebody"),
	}
	for _, dir := range kept {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	file := filepath.Join(o.Home, "file")
	link := filepath.Join(o.Own["config"], ownName+hex)
	beside := filepath.Join(o.Root, random(8)) // a link in the place of a yard
	for _, name := range []string{yardLock, "x" + yardLock, strings.ToUpper(hex) + "A" + yardLock, hex[1:] + yardLock, filepath.Base(beside) + yardLock} {
		if err := os.WriteFile(filepath.Join(o.Root, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(os.WriteFile(file, nil, 0o600), os.MkdirAll(o.Own["config"], 0o700), os.Symlink(other, link), os.Symlink(other, beside)); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(o.Root, hex)
	if err := errors.Join(os.Mkdir(dir, 0o700), os.WriteFile(dir+yardLock, nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	var record []byte
	for _, path := range append([]string{file, link, o.Home, o.Own["state"], o.Own["state"] + "/../state/" + ownName + hex + "/../../../../home", ""}, kept...) {
		for _, empty := range []bool{true, false} {
			line, err := json.Marshal(stray{Path: path, Empty: empty})
			if err != nil {
				t.Fatal(err)
			}
			record = append(append(record, line...), '\n')
		}
	}
	if err := os.WriteFile(filepath.Join(dir, yardRecord), record, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := mustYard(t, o).close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the yard itself is left, so this test shows nothing: %v", err)
	}
	for _, path := range append(kept, file, link, filepath.Join(o.Root, yardLock), filepath.Join(o.Root, "x"+yardLock)) {
		if _, err := os.Lstat(path); err != nil {
			t.Errorf("somebody else's is gone: %v", err)
		}
	}
}

// TestOwnSharedAtOnce: runs with directories of their own for the runtime, of two logins
// for instance, know of each other by the locks in what they share, however long they take.
func TestOwnSharedAtOnce(t *testing.T) {
	o := yardOptions(t)
	o.Python = "" // no decoys, which are not shared
	var all sync.WaitGroup
	for _, name := range []string{"first", "second"} {
		o := o
		o.Root = filepath.Join(o.Root, name)
		all.Go(func() {
			for range 10 {
				y, err := openYard(o)
				if err != nil {
					t.Error(err)
					return
				}
				p, err := y.plot("control", yardProbes())
				if err != nil {
					t.Error(err)
				} else {
					for _, dir := range o.Own {
						old(t, filepath.Join(dir, ownName+p.token))
					}
					time.Sleep(10 * time.Millisecond)
					for _, dir := range o.Own {
						if got, err := os.ReadFile(filepath.Join(dir, ownName+p.token, canaryFile)); err != nil || string(got) != p.secret {
							t.Errorf("with another run beside it: %q, %v", got, err)
						}
					}
				}
				if err := y.close(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	if left := matching(t, filepath.Join(filepath.Dir(filepath.Dir(o.Own["state"])), "*", "brig", "*")); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
}
