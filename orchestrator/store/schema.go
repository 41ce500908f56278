package store

import (
	"context"
	"database/sql"
	"fmt"
)

// applicationID marks the file as brig's ("brig" in ASCII), so that another
// program's database in its place is told from a damaged one.
const applicationID = 0x62726967

// migrations lead from one schema version to the next; the version is their
// number. One that was released is never changed.
func migrations() []string {
	return []string{
		`
CREATE TABLE meta (
	key   TEXT PRIMARY KEY,
	value TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE sessions (
	id        TEXT PRIMARY KEY,
	name      TEXT NOT NULL UNIQUE,
	want      TEXT NOT NULL,
	backend   TEXT NOT NULL,
	base      TEXT,             -- JSON; NULL: as configured
	workspace TEXT NOT NULL,
	home      TEXT NOT NULL,
	timezone  TEXT NOT NULL,
	locale    TEXT NOT NULL,
	created   INTEGER NOT NULL, -- milliseconds since 1970, as all times
	lifetime  INTEGER NOT NULL, -- milliseconds; 0: as long as it is used
	used      INTEGER NOT NULL,
	state     TEXT NOT NULL CHECK (state IN ('idle', 'running', 'lost')),
	note      TEXT NOT NULL,
	run       TEXT NOT NULL,
	process   TEXT NOT NULL,
	kept      INTEGER NOT NULL CHECK (kept IN (0, 1))
) STRICT, WITHOUT ROWID;

CREATE TABLE instances (
	id         TEXT PRIMARY KEY,
	session    TEXT NOT NULL UNIQUE REFERENCES sessions (id) ON DELETE CASCADE,
	backend    TEXT NOT NULL,
	name       TEXT NOT NULL,
	label      TEXT NOT NULL,
	secret     TEXT NOT NULL,
	base       TEXT NOT NULL,   -- JSON
	workspace  TEXT NOT NULL,
	posture    TEXT NOT NULL,   -- JSON
	resolution TEXT NOT NULL,   -- JSON
	created    INTEGER NOT NULL,
	lease      INTEGER NOT NULL, -- milliseconds; 0: it ends with its process
	orphaned   INTEGER NOT NULL  -- 0: not known to be
) STRICT, WITHOUT ROWID;
`,
		`
ALTER TABLE sessions ADD COLUMN creator TEXT NOT NULL DEFAULT '';
ALTER TABLE sessions ADD COLUMN runs INTEGER NOT NULL DEFAULT 0;
ALTER TABLE sessions ADD COLUMN limits TEXT NOT NULL DEFAULT '{}'; -- JSON; lower ones that were asked for

CREATE TABLE tokens (
	session TEXT PRIMARY KEY REFERENCES sessions (id) ON DELETE CASCADE,
	hash    BLOB NOT NULL UNIQUE, -- SHA-256 of the token
	created INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE datasets (
	session    TEXT NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
	name       TEXT NOT NULL,
	path       TEXT NOT NULL,
	format     TEXT NOT NULL,
	part       TEXT NOT NULL,    -- sheet or table inside of the file
	active     INTEGER NOT NULL CHECK (active IN (0, 1)),
	registered INTEGER NOT NULL,
	PRIMARY KEY (session, name)
) STRICT, WITHOUT ROWID;

-- A run outlives its session, so that it can be found for a while: no reference.
CREATE TABLE runs (
	number  INTEGER PRIMARY KEY AUTOINCREMENT, -- the order in which they were accepted
	id      TEXT NOT NULL UNIQUE,
	session TEXT NOT NULL,
	name    TEXT NOT NULL,
	creator TEXT NOT NULL,
	caller  TEXT NOT NULL,
	process TEXT NOT NULL,
	state   TEXT NOT NULL CHECK (state IN ('open', 'ended')),
	cause   TEXT NOT NULL,
	created INTEGER NOT NULL,
	ended   INTEGER NOT NULL, -- 0: not yet
	bytes   INTEGER NOT NULL, -- of what follows and of its source and outputs
	summary BLOB NOT NULL     -- JSON
) STRICT;
CREATE INDEX runs_session ON runs (session, number);
CREATE INDEX runs_creator ON runs (creator, number);
CREATE INDEX runs_open ON runs (number) WHERE state = 'open';
-- These spare reading the runs themselves where only their number and size matter.
CREATE INDEX runs_ended ON runs (ended, session) WHERE state = 'ended';
CREATE INDEX runs_bytes ON runs (number, state, session, bytes);

-- Beside the runs, so that a list of them does not read what may be large.
CREATE TABLE run_parts (
	number  INTEGER PRIMARY KEY REFERENCES runs (number) ON DELETE CASCADE,
	source  BLOB NOT NULL,
	outputs BLOB NOT NULL -- JSON; empty until it has ended
) STRICT;

CREATE TABLE run_keys (
	credential TEXT NOT NULL,
	key        TEXT NOT NULL,
	hash       BLOB NOT NULL, -- SHA-256 of the request
	run        TEXT NOT NULL,
	expires    INTEGER NOT NULL,
	PRIMARY KEY (credential, key)
) STRICT, WITHOUT ROWID;
CREATE INDEX run_keys_expires ON run_keys (expires);

CREATE TABLE selftests (
	number  INTEGER PRIMARY KEY AUTOINCREMENT,
	id      TEXT NOT NULL UNIQUE,
	backend TEXT NOT NULL,
	process TEXT NOT NULL,
	state   TEXT NOT NULL CHECK (state IN ('running', 'ended', 'failed')),
	started INTEGER NOT NULL,
	ended   INTEGER NOT NULL, -- 0: not yet
	summary BLOB NOT NULL,    -- JSON
	report  BLOB NOT NULL     -- JSON; empty until it has ended
) STRICT;
`,
		`
ALTER TABLE runs ADD COLUMN begun INTEGER NOT NULL DEFAULT 0; -- when it went to an instance; 0: not yet
`,
	}
}

// migrate brings the file to the newest version, each step whole or not at all.
// The caller holds the guard.
func migrate(ctx context.Context, db *sql.DB, from int) error {
	for n, step := range migrations() {
		version := n + 1
		if version <= from {
			continue
		}
		if version == 1 {
			step += fmt.Sprintf("PRAGMA application_id = %d;", applicationID)
		}
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, step+fmt.Sprintf("PRAGMA user_version = %d;", version))
		if err != nil {
			_ = tx.Rollback() // nothing was committed, and the first error is the one to tell
			return fmt.Errorf("migrate to schema %d: %w", version, err)
		}
		if err := tx.Commit(); err != nil {
			return fmt.Errorf("migrate to schema %d: %w", version, err)
		}
	}
	return nil
}

// header is what a database says about itself.
type header struct {
	application, version, tables int
}

func readHeader(ctx context.Context, db *sql.DB) (h header, err error) {
	for query, to := range map[string]*int{
		"PRAGMA application_id": &h.application, "PRAGMA user_version": &h.version, "SELECT count(*) FROM sqlite_schema": &h.tables,
	} {
		if err := db.QueryRowContext(ctx, query).Scan(to); err != nil {
			return header{}, err
		}
	}
	return h, nil
}
