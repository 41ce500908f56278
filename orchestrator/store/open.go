package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ncruces/go-sqlite3"
	"github.com/ncruces/go-sqlite3/driver"

	"brig/orchestrator/private"
)

const (
	// File is the name of the database in the state directory.
	File = "brig.db"
	// busyBound is how long a statement waits for another process's transaction.
	// Every one of them writes a few rows, so this long means that one hangs.
	busyBound = 5 * time.Second
	// checkBelow is the size up to which every page is checked at the start. The
	// check reads about 1 GiB/s; beyond it damage is found when it is met.
	checkBelow = 32 << 20
	// readers are how many reads go on at the same time.
	readers = 4
)

// Options of Open. All but Retention are required.
type Options struct {
	Dir     string // the state directory; made, for this user only, if it is missing
	Owner   string // id of the installation
	Process string // token of this process
	// Retention is what is kept of runs; the zero value is the default.
	Retention Retention
}

// Report is what Open found and did beyond opening.
type Report struct {
	// Aside is where a file went that could not be used, with its -wal and -shm
	// beside it; empty: none did. A new one was begun then.
	Aside string
	// Why is the reason, in one sentence, lower case.
	Why string
}

// Store is an open database. Its methods may be called concurrently; ctx bounds
// each of them, and a call that returned an error has changed nothing.
type Store struct {
	path, owner, process string

	durable *sql.DB // a commit is on the disk
	soon    *sql.DB // a commit is with the kernel
	read    *sql.DB // sees what was committed, and waits for no commit

	batch     batch
	retention atomic.Pointer[Retention]
	ends      atomic.Int64 // of runs, since Open
	pruning   atomic.Bool

	calls    sync.RWMutex // held for reading by each call, for writing by Close
	closed   bool         // guarded by calls, as is closeErr
	closeErr error
}

// Open opens the database of the state directory, making or migrating it as
// needed. A damaged one, and one of another owner, is moved aside as the Report
// says. *NewerError and *private.UnsafeError leave everything as it is.
func Open(ctx context.Context, o Options) (*Store, Report, error) {
	if o.Dir == "" || o.Owner == "" || o.Process == "" {
		return nil, Report{}, errors.New("open the session store: it needs a directory, an owner and a process")
	}
	dir, err := filepath.Abs(o.Dir)
	if err != nil {
		return nil, Report{}, fmt.Errorf("open the session store: %w", err)
	}
	s := &Store{path: filepath.Join(dir, File), owner: o.Owner, process: o.Process, batch: batch{turn: make(chan struct{}, 1)}}
	s.SetRetention(o.Retention)
	if err := private.Dir(dir); err != nil {
		return nil, Report{}, s.explain("open the session store", err)
	}
	release, err := takeGuard(ctx, dir)
	if err != nil {
		return nil, Report{}, s.explain("open the session store", err)
	}
	defer release()
	report, err := s.open(ctx)
	if err != nil {
		return nil, Report{}, errors.Join(s.explain("open the session store", err), s.Close())
	}
	return s, report, nil
}

// open may begin anew once: a file that was just made is neither damaged nor
// another owner's.
func (s *Store) open(ctx context.Context) (Report, error) {
	bad, err := s.try(ctx, "")
	if bad == nil || err != nil {
		return Report{}, err
	}
	if err := s.disconnect(); err != nil && !damaged(err) {
		return Report{}, err
	}
	s.durable = nil
	report := Report{Why: bad.why}
	if bad.aside != "" {
		if report.Aside, err = moveAside(s.path, bad.aside); err != nil {
			return Report{}, err
		}
	}
	if again, err := s.try(ctx, bad.why); err != nil {
		return Report{}, err
	} else if again != nil {
		return Report{}, fmt.Errorf("a new database cannot be used: %s", again.why)
	}
	return report, nil
}

// unusable says why a file cannot be gone on with.
type unusable struct {
	aside string // how the name of what is moved away ends; empty: nothing to move
	why   string
}

// try opens the file. begun is empty, or why a new one is begun in its place.
func (s *Store) try(ctx context.Context, begun string) (*unusable, error) {
	existed, size, err := secureFiles(s.path)
	if err != nil {
		return nil, err
	}
	if existed && size == 0 && begun == "" {
		// Left by a start that was killed, or by somebody else's mishap: which one cannot be told.
		return &unusable{why: "it was empty"}, nil
	}
	if s.durable, err = connect(s.path, "FULL"); err != nil {
		return nil, err
	}
	h, err := readHeader(ctx, s.durable)
	if damaged(err) {
		return s.damage(ctx, err.Error()), nil
	}
	if err != nil {
		return nil, err
	}
	known := len(migrations())
	switch {
	case h.application != applicationID && (h.application != 0 || h.version != 0 || h.tables != 0):
		return nil, &private.UnsafeError{Path: s.path, Reason: "it is the database of another program", Remedy: "mv " + s.path + " " + s.path + ".other"}
	case h.version > known:
		return nil, &NewerError{s.path, h.version, known}
	}
	_, suspected := os.Lstat(s.path + suspectEnd)
	if size < checkBelow || suspected == nil {
		if bad, err := s.check(ctx); bad != nil || err != nil {
			return bad, err
		}
	}
	if suspected == nil { // it is whole, or a new one
		if err := os.Remove(s.path + suspectEnd); err != nil {
			return nil, err
		}
	}
	if bad, err := s.prepare(ctx, h.version, begun); bad != nil || err != nil {
		return bad, err
	}
	if s.soon, err = connect(s.path, "NORMAL"); err != nil {
		return nil, err
	}
	if s.read, err = connect(s.path, "NORMAL"); err == nil {
		s.read.SetMaxOpenConns(readers)
	}
	return nil, err
}

// check reads every page.
func (s *Store) check(ctx context.Context) (*unusable, error) {
	var verdict string
	err := s.durable.QueryRowContext(ctx, "PRAGMA quick_check(1)").Scan(&verdict)
	switch {
	case damaged(err):
		verdict = err.Error()
	case err != nil:
		return nil, err
	case verdict == "ok":
		return nil, nil
	}
	return s.damage(ctx, verdict), nil
}

// damage says that the file is damaged, and leaves it as it was found: closing it
// would otherwise write the journal into it, which whoever repairs it may not want.
func (s *Store) damage(ctx context.Context, verdict string) *unusable {
	if c, err := s.durable.Conn(ctx); err == nil {
		_ = c.Raw(func(c any) error { // without it the file is closed as any other
			_, err := c.(driver.Conn).Raw().Config(sqlite3.DBCONFIG_NO_CKPT_ON_CLOSE, true)
			return err
		})
		_ = c.Close() // gives it back
	}
	return &unusable{"damaged", "it is damaged: " + strings.Join(strings.Fields(strings.TrimPrefix(verdict, "*** in database main ***")), " ")}
}

// prepare sets the journal, migrates and makes sure whose the file is.
func (s *Store) prepare(ctx context.Context, version int, begun string) (*unusable, error) {
	var mode string
	if err := s.durable.QueryRowContext(ctx, "PRAGMA journal_mode = WAL").Scan(&mode); err != nil {
		return nil, err
	}
	if mode != "wal" {
		return nil, fmt.Errorf("the file system of %s cannot share a write-ahead log: the journal is %s", s.path, mode)
	}
	if err := migrate(ctx, s.durable, version); err != nil {
		return nil, err
	}
	if _, err := s.durable.ExecContext(ctx, "INSERT INTO meta (key, value) VALUES ('owner', ?) ON CONFLICT DO NOTHING", s.owner); err != nil {
		return nil, err
	}
	var owner string
	if err := s.durable.QueryRowContext(ctx, "SELECT value FROM meta WHERE key = 'owner'").Scan(&owner); err != nil {
		return nil, err
	}
	if owner != s.owner {
		return &unusable{"foreign", "it belongs to another installation, whose owner id is " + owner}, nil
	}
	if begun != "" {
		_, err := s.durable.ExecContext(ctx, "INSERT INTO meta (key, value) VALUES ('orphans', ?) ON CONFLICT DO NOTHING", begun)
		return nil, err
	}
	return nil, nil
}

// connect makes a pool of one connection: SQLite has one writer anyway, and what
// waits for it waits in Go, where ctx is heard.
func connect(path, synchronous string) (*sql.DB, error) {
	// No scheme with slashes, which would take a drive letter for a host.
	escaped := (&url.URL{Path: filepath.ToSlash(path)}).EscapedPath()
	// The journal gets the mode of the database, whatever the umask is.
	modeOf := strings.ReplaceAll(url.QueryEscape(path), "+", "%20")
	pragmas := fmt.Sprintf(`
PRAGMA busy_timeout = %d;
PRAGMA synchronous = %s;
PRAGMA fullfsync = %t;
PRAGMA foreign_keys = ON;
PRAGMA trusted_schema = OFF;`, busyBound.Milliseconds(), synchronous, synchronous == "FULL")
	db, err := driver.Open("file:"+escaped+"?modeof="+modeOf, func(c *sqlite3.Conn) error { return c.Exec(pragmas) })
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1)
	return db, nil
}

func (s *Store) disconnect() error {
	var errs []error
	for _, db := range []*sql.DB{s.durable, s.soon, s.read} {
		if db != nil {
			errs = append(errs, db.Close())
		}
	}
	return errors.Join(errs...)
}

// Close waits for calls under way. It is idempotent.
func (s *Store) Close() error {
	s.calls.Lock()
	defer s.calls.Unlock()
	if s.closed {
		return s.closeErr
	}
	s.closed = true
	if err := s.disconnect(); err != nil {
		s.closeErr = fmt.Errorf("close the session store: %w", err)
	}
	return s.closeErr
}

// enter lets a call in; it owes a call of leave.
func (s *Store) enter(doing string) (leave func(), err error) {
	s.calls.RLock()
	if s.closed {
		s.calls.RUnlock()
		return nil, fmt.Errorf("%s: %w", doing, ErrClosed)
	}
	return s.calls.RUnlock, nil
}

// Path is the database file.
func (s *Store) Path() string { return s.path }

// Process is the token that this store holds sessions with.
func (s *Store) Process() string { return s.process }
