package audit

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"brig/orchestrator/sandbox/sandboxtest"
)

// ballast takes all room that is left.
func ballast(t *testing.T, disk string) (name string) {
	t.Helper()
	name = filepath.Join(disk, "ballast")
	f, err := os.Create(name)
	must(t, err)
	for err == nil {
		_, err = f.Write(make([]byte, 4<<10))
	}
	if !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err)
	}
	must(t, f.Close())
	return name
}

// A full disk: the call that met it says so, what was acknowledged stays, nothing
// is left half, and the log goes on when there is room again.
func TestFullDisk(t *testing.T) {
	for name, o := range map[string]Options{"in a segment": {SegmentBytes: 1 << 20}, "at rotations": {SegmentBytes: 1000}} {
		t.Run(name, func(t *testing.T) {
			disk := sandboxtest.SmallDisk(t, "256k")
			o.Dir = filepath.Join(disk, "audit")
			l := open(t, o)
			fill(t, l, 10)
			taken := ballast(t, disk)
			failed := false
			var last Head
			for n := range 200 {
				head, err := l.Append(t.Context(), entry(n))
				if err == nil {
					last = head
					continue
				}
				failed = true
				if !strings.Contains(err.Error(), "the disk with "+o.Dir+" is full") {
					t.Fatal(err)
				}
			}
			if !failed {
				t.Fatal("the disk was never full: this tests nothing")
			}
			v := verdict(t, o.Dir)
			if !v.Holds() || v.Head.Number < last.Number {
				t.Errorf("%+v, the last acknowledged line is %s", v, last)
			}
			// Opening says so as well, or does without.
			if again, _, err := Open(t.Context(), o); err == nil {
				_ = again.Close() // whose flush may meet the full disk
			} else if !strings.Contains(err.Error(), "is full") {
				t.Errorf("opening on a full disk: %v", err)
			}
			must(t, os.Remove(taken))
			head, err := l.Append(t.Context(), entry(0))
			must(t, err)
			if v := verdict(t, o.Dir); !v.Holds() || v.Head != head {
				t.Errorf("%+v", v)
			}
		})
	}
}

func TestReadOnlyDirectory(t *testing.T) {
	disk := sandboxtest.SmallDisk(t, "256k")
	o := Options{Dir: filepath.Join(disk, "audit")}
	l := open(t, o)
	fill(t, l, 3)
	shut(t, l)
	must(t, syscall.Mount("", disk, "", syscall.MS_REMOUNT|syscall.MS_RDONLY, ""))
	if _, _, err := Open(t.Context(), o); !errors.Is(err, syscall.EROFS) || !strings.Contains(err.Error(), "cannot be written") {
		t.Errorf("%v", err)
	}
	holds(t, o.Dir, 3) // a reviewer's copy may be read only
	if lines, _, err := Find(t.Context(), o.Dir, Query{Since: time.Unix(0, 0)}); err != nil || len(lines) != 3 {
		t.Errorf("%d lines, %v", len(lines), err)
	}
	must(t, syscall.Mount("", disk, "", syscall.MS_REMOUNT, "size=256k"))
}

// What somebody else may have prepared is refused and not touched.
func TestUnsafePlacesAreRefused(t *testing.T) {
	for name, prepare := range map[string]func(t *testing.T, dir, segment string){
		"directory open to the group": func(t *testing.T, dir, _ string) { must(t, os.Chmod(dir, 0o750)) },
		"file open to all":            func(t *testing.T, _, segment string) { must(t, os.Chmod(segment, 0o604)) },
		"directory is a link": func(t *testing.T, dir, _ string) {
			must(t, os.Rename(dir, dir+".real"))
			must(t, os.Symlink(dir+".real", dir))
		},
		"file is a link": func(t *testing.T, dir, segment string) {
			must(t, os.Rename(segment, segment+".real"))
			must(t, os.Symlink(segment+".real", segment))
		},
		"file is a pipe": func(t *testing.T, _, segment string) {
			must(t, os.Remove(segment))
			must(t, syscall.Mkfifo(segment, 0o600))
		},
		"file is a directory": func(t *testing.T, _, segment string) { must(t, os.Remove(segment)); must(t, os.Mkdir(segment, 0o700)) },
		"lock is a link": func(t *testing.T, dir, _ string) {
			must(t, os.Remove(filepath.Join(dir, lockFile)))
			must(t, os.Symlink(filepath.Join(filepath.Dir(dir), "made"), filepath.Join(dir, lockFile)))
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := logDir(t)
			l := open(t, Options{Dir: dir})
			fill(t, l, 3)
			shut(t, l)
			prepare(t, dir, filepath.Join(dir, segmentName(1)))
			l, _, err := Open(t.Context(), Options{Dir: dir})
			if err == nil {
				shut(t, l)
				t.Fatal("it was opened")
			}
			if _, err := os.Lstat(filepath.Join(filepath.Dir(dir), "made")); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("a link was followed: %v", err)
			}
		})
	}
}
