package store

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"brig/orchestrator/private"
)

// content is everything in a directory by name, the lock apart.
func content(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	entries, err := os.ReadDir(dir)
	must(t, err)
	for _, e := range entries {
		if e.Name() == guardFile || strings.HasSuffix(e.Name(), "-shm") {
			continue // the index of the journal is made anew by every first reader
		}
		text, err := os.ReadFile(filepath.Join(dir, e.Name()))
		must(t, err)
		if len(text) > 0 {
			out[e.Name()] = string(text)
		}
	}
	return out
}

// filled is a closed database with one session.
func filled(t *testing.T) (dir, path string) {
	t.Helper()
	dir = stateDir(t)
	s := open(t, dir, procA)
	must(t, s.Add(t.Context(), row("s1")))
	must(t, s.Bind(t.Context(), instance("s1")))
	shut(t, s)
	return dir, filepath.Join(dir, File)
}

func refused(t *testing.T, dir string) error {
	t.Helper()
	s, _, err := Open(t.Context(), Options{Dir: dir, Owner: ownerA, Process: procA})
	if err == nil {
		shut(t, s)
		t.Fatal("it was opened")
	}
	return err
}

func TestNewerDatabaseIsRefused(t *testing.T) {
	dir, path := filled(t)
	s := open(t, dir, procA)
	_, err := s.durable.ExecContext(t.Context(), "PRAGMA user_version = 99")
	must(t, err)
	shut(t, s)
	before := content(t, dir)
	var newer *NewerError
	if err := refused(t, dir); !errors.As(err, &newer) || newer.Have != 99 || newer.Path != path {
		t.Errorf("%v", err)
	}
	if after := content(t, dir); len(after) != len(before) || after[File] != before[File] {
		t.Error("the file of a newer brig was touched")
	}
}

func TestOtherProgramsDatabaseIsRefused(t *testing.T) {
	for name, statement := range map[string]string{
		"its number": "PRAGMA application_id = 7", "its tables": "PRAGMA application_id = 0",
	} {
		t.Run(name, func(t *testing.T) {
			dir, _ := filled(t)
			s := open(t, dir, procA)
			_, err := s.durable.ExecContext(t.Context(), statement)
			must(t, err)
			shut(t, s)
			before := content(t, dir)
			var unsafe *private.UnsafeError
			if err := refused(t, dir); !errors.As(err, &unsafe) {
				t.Errorf("%v", err)
			}
			if after := content(t, dir); after[File] != before[File] {
				t.Error("it was touched")
			}
		})
	}
}

// A step of a migration that fails leaves the step before whole.
func TestMigrationIsWholeOrNot(t *testing.T) {
	dir := stateDir(t)
	must(t, private.Dir(dir))
	path := filepath.Join(dir, File)
	_, _, err := secureFiles(path)
	must(t, err)
	db, err := connect(path, "FULL")
	must(t, err)
	defer db.Close()
	_, err = db.ExecContext(t.Context(), "CREATE TABLE instances (x)") // in the way of the first step
	must(t, err)
	if err := migrate(t.Context(), db, 0); err == nil {
		t.Fatal("control: migrated over a table of the same name")
	}
	h, err := readHeader(t.Context(), db)
	must(t, err)
	if h != (header{tables: 1}) {
		t.Errorf("%+v is left of a failed step", h)
	}
	_, err = db.ExecContext(t.Context(), "DROP TABLE instances")
	must(t, err)
	must(t, migrate(t.Context(), db, 0))
	if h, err = readHeader(t.Context(), db); err != nil || h.version != len(migrations()) || h.application != applicationID {
		t.Errorf("%+v, %v", h, err)
	}
}

func TestDamagedIsMovedAside(t *testing.T) {
	for name, damage := range map[string]func(text []byte) []byte{
		"no database":      func([]byte) []byte { return []byte(strings.Repeat("this is no database\n", 500)) },
		"cut short":        func(text []byte) []byte { return text[:len(text)/2] },
		"a page of zeroes": func(text []byte) []byte { clear(text[4096:8192]); return text },
		"a page of noise": func(text []byte) []byte {
			for i := 8192; i < 12288; i++ {
				text[i] = byte(i * 7)
			}
			return text
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir, path := filled(t)
			text, err := os.ReadFile(path)
			must(t, err)
			text = damage(text)
			must(t, os.WriteFile(path, text, 0o600))

			s, report := reopen(t, dir, ownerA, procA)
			if report.Why == "" || !strings.HasPrefix(report.Aside, path+".damaged-") {
				t.Fatalf("reported %+v", report)
			}
			if kept, err := os.ReadFile(report.Aside); err != nil || string(kept) != string(text) {
				t.Errorf("what was moved aside differs: %v", err)
			}
			if got := list(t, s); len(got) != 0 {
				t.Errorf("%+v", got)
			}
			why, err := s.Orphans(t.Context())
			if err != nil || why != report.Why {
				t.Errorf("orphans: %q, %v", why, err)
			}
			must(t, s.Add(t.Context(), row("s2")))
			shut(t, s)

			// It is said until somebody has seen to it, and then not any more.
			s = open(t, dir, procB)
			if why, err := s.Orphans(t.Context()); err != nil || why == "" {
				t.Errorf("orphans after a restart: %q, %v", why, err)
			}
			must(t, s.SeenToOrphans(t.Context()))
			if why, err := s.Orphans(t.Context()); err != nil || why != "" {
				t.Errorf("orphans when they were seen to: %q, %v", why, err)
			}
			if got := only(t, s); got.ID != "s2" {
				t.Errorf("%+v", got)
			}
		})
	}
}

// Several starts meet one damaged file: one moves it, the others use the new one.
func TestDamagedIsMovedOnce(t *testing.T) {
	dir, path := filled(t)
	must(t, os.WriteFile(path, []byte(strings.Repeat("no database ", 1000)), 0o600))
	var mu sync.Mutex
	moved := 0
	var wg sync.WaitGroup
	for range 6 {
		wg.Go(func() {
			s, report, err := Open(context.WithoutCancel(t.Context()), Options{Dir: dir, Owner: ownerA, Process: procA})
			if err != nil {
				t.Error(err)
				return
			}
			mu.Lock()
			defer mu.Unlock()
			defer shut(t, s)
			if report.Aside != "" {
				moved++
			}
		})
	}
	wg.Wait()
	if moved != 1 {
		t.Errorf("it was moved aside %d times", moved)
	}
}

func TestAnotherOwnersIsMovedAside(t *testing.T) {
	dir, path := filled(t)
	s, report := reopen(t, dir, ownerB, procB)
	if !strings.HasPrefix(report.Aside, path+".foreign-") || !strings.Contains(report.Why, ownerA) {
		t.Errorf("reported %+v", report)
	}
	if got := list(t, s); len(got) != 0 {
		t.Errorf("another owner's rows: %+v", got)
	}
	shut(t, s)
	// Nothing of it is lost.
	must(t, os.Remove(path))
	must(t, os.Rename(report.Aside, path))
	s = open(t, dir, procA)
	if got := only(t, s); got.ID != "s1" || got.Instance == nil {
		t.Errorf("%+v", got)
	}
}

func TestEmptyFileIsReported(t *testing.T) {
	dir, path := filled(t)
	must(t, os.Truncate(path, 0))
	s, report := reopen(t, dir, ownerA, procA)
	if report.Aside != "" || report.Why == "" {
		t.Errorf("reported %+v", report)
	}
	if why, err := s.Orphans(t.Context()); err != nil || why == "" {
		t.Errorf("orphans: %q, %v", why, err)
	}
}

// A large database is not checked as a whole at every start; one that a call has
// found damaged is.
func TestDamageMetInUseIsSetAsideNext(t *testing.T) {
	dir := stateDir(t)
	s := open(t, dir, procA)
	for n := 0; ; n++ {
		r := run(fmt.Sprint("r", n), "s")
		r.Source = make([]byte, 8<<20)
		added(t, s, r, nil)
		if _, err := s.durable.ExecContext(t.Context(), "PRAGMA wal_checkpoint(TRUNCATE)"); err != nil {
			t.Fatal(err)
		}
		if info, err := os.Stat(s.Path()); err != nil || info.Size() > checkBelow {
			must(t, err)
			break
		}
	}
	path := s.Path()
	var page int64 // of the table of runs
	must(t, s.durable.QueryRowContext(t.Context(), "SELECT rootpage FROM sqlite_schema WHERE name = 'runs'").Scan(&page))
	shut(t, s)
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	must(t, err)
	noise := make([]byte, 4096)
	for i := range noise {
		noise[i] = byte(i*7 + 1)
	}
	_, err = f.WriteAt(noise, (page-1)*4096)
	must(t, err)
	must(t, f.Close())

	s = open(t, dir, procA) // nothing is noticed yet
	_, _, err = s.Runs(t.Context(), RunQuery{})
	if err == nil || !strings.Contains(err.Error(), "is damaged, the next start sets it aside") {
		t.Fatalf("a damaged page: %v", err)
	}
	shut(t, s)
	s, report := reopen(t, dir, ownerA, procA)
	if !strings.HasPrefix(report.Aside, path+".damaged-") {
		t.Errorf("reported %+v", report)
	}
	added(t, s, run("after", "s"), nil)
	shut(t, s)
	open(t, dir, procA) // which reports nothing
}
