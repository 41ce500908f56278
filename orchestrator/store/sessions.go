package store

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/ncruces/go-sqlite3"

	"brig/orchestrator/sandbox"
	"brig/orchestrator/wire"
)

// Add records a new session, held by this process, in state idle and without an
// instance. What x says about these is not read. It survives a power cut from the
// first Bind on. ErrNameTaken: its name is in use.
func (s *Store) Add(ctx context.Context, x Session) error {
	doing := "record session " + x.Name
	base, err := encodeBase(x.Base)
	limits, limitsErr := json.Marshal(x.Limits)
	if err := errors.Join(err, limitsErr); err != nil {
		return fmt.Errorf("%s: %w", doing, err)
	}
	return s.commit(ctx, doing, withKernel, func(ctx context.Context, tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `
INSERT INTO sessions (id, name, want, backend, base, workspace, home, timezone, locale, created, lifetime, used, state, note, run, process, kept, creator, limits)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 'idle', '', '', ?, ?, ?, ?)`,
			x.ID, x.Name, string(x.Want), string(x.Backend), base, x.Workspace, x.Home, x.Timezone, x.Locale,
			millis(x.Created), x.Lifetime.Milliseconds(), millis(x.Used), s.process, x.Kept, x.Creator, string(limits))
		if errors.Is(err, sqlite3.CONSTRAINT_UNIQUE) {
			return ErrNameTaken
		}
		return err
	})
}

// Bind records the instance of a session in the place of an earlier one. ErrNotHeld.
func (s *Store) Bind(ctx context.Context, i Instance) error {
	return s.change(ctx, "record instance "+string(i.ID), i.Session, func(tx *sql.Tx) (sql.Result, error) {
		base, err := json.Marshal(i.Base)
		if err != nil {
			return nil, err
		}
		posture, err := json.Marshal(i.Posture)
		if err != nil {
			return nil, err
		}
		r, err := tx.ExecContext(ctx, "UPDATE sessions SET backend = ?, state = 'idle', note = '', run = '' WHERE id = ? AND process = ?",
			string(i.Backend), i.Session, s.process)
		if err != nil {
			return nil, err
		}
		if _, err := tx.ExecContext(ctx, "DELETE FROM instances WHERE session = ?", i.Session); err != nil {
			return nil, err
		}
		if n, err := r.RowsAffected(); n == 0 || err != nil {
			return r, err
		}
		_, err = tx.ExecContext(ctx, `
INSERT INTO instances (id, session, backend, name, label, secret, base, workspace, posture, resolution, created, lease, orphaned)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 0)`,
			string(i.ID), i.Session, string(i.Backend), i.Handle.Name, string(i.Handle.Label), i.Handle.Secret, string(base), i.Workspace,
			string(posture), string(i.Resolution), millis(i.Created), i.Base.Lease.Milliseconds())
		return r, err
	})
}

// Lose records that a session has no instance any more, and why. ErrNotHeld.
func (s *Store) Lose(ctx context.Context, id, note string) error {
	return s.change(ctx, "record the loss of an instance", id, func(tx *sql.Tx) (sql.Result, error) {
		if _, err := tx.ExecContext(ctx, "DELETE FROM instances WHERE session = (SELECT id FROM sessions WHERE id = ? AND process = ?)", id, s.process); err != nil {
			return nil, err
		}
		return tx.ExecContext(ctx, "UPDATE sessions SET state = 'lost', note = ?, run = '' WHERE id = ? AND process = ?", note, id, s.process)
	})
}

// Begin records that a run is being handed to the session's instance, in the record
// of the run as well, if there is one. It costs
// microseconds and survives a kill of this process, but not a power cut, which
// the instance does not survive either. ErrNotHeld.
func (s *Store) Begin(ctx context.Context, id string, run wire.RunID, at time.Time) error {
	return s.commit(ctx, "record the begin of a run", withKernel, func(ctx context.Context, tx *sql.Tx) error {
		r, err := tx.ExecContext(ctx, "UPDATE sessions SET state = 'running', run = ?, used = ?, runs = runs + 1 WHERE id = ? AND process = ?",
			string(run), millis(at), id, s.process)
		if err != nil {
			return err
		}
		if err := held(id, r); err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, "UPDATE runs SET begun = ? WHERE id = ?", millis(at), string(run))
		return err
	})
}

// End records that the run has ended, and that the instance waits for another if
// it was not lost meanwhile. It costs and survives what Begin does. ErrNotHeld.
func (s *Store) End(ctx context.Context, id string, at time.Time) error {
	return s.mark(ctx, "record the end of a run", id,
		"UPDATE sessions SET state = iif(state = 'lost', 'lost', 'idle'), run = '', used = ? WHERE id = ? AND process = ?", millis(at), id, s.process)
}

// Note records a sentence about a session for whoever looks at it; Bind and Lose
// replace it. It costs and survives what Begin does. ErrNotHeld.
func (s *Store) Note(ctx context.Context, id, note string) error {
	return s.mark(ctx, "record a note", id, "UPDATE sessions SET note = ? WHERE id = ? AND process = ?", note, id, s.process)
}

func (s *Store) mark(ctx context.Context, doing, id, statement string, args ...any) error {
	return s.commit(ctx, doing, withKernel, func(ctx context.Context, tx *sql.Tx) error {
		r, err := tx.ExecContext(ctx, statement, args...)
		if err != nil {
			return err
		}
		return held(id, r)
	})
}

// Extend records that a session ends so long after it was created; zero: as long
// as it is used. used counts as its latest use. ErrNotHeld.
func (s *Store) Extend(ctx context.Context, id string, lifetime time.Duration, used time.Time) error {
	return s.change(ctx, "record the lifetime of a session", id, func(tx *sql.Tx) (sql.Result, error) {
		return tx.ExecContext(ctx, "UPDATE sessions SET lifetime = ?, used = max(used, ?) WHERE id = ? AND process = ?",
			lifetime.Milliseconds(), millis(used), id, s.process)
	})
}

// Remove forgets a session that this process holds, with its instance. ErrNotHeld.
func (s *Store) Remove(ctx context.Context, id string) error {
	return s.change(ctx, "forget a session", id, func(tx *sql.Tx) (sql.Result, error) {
		return tx.ExecContext(ctx, "DELETE FROM sessions WHERE id = ? AND process = ?", id, s.process)
	})
}

// change is a durable transaction on one session of this process.
func (s *Store) change(ctx context.Context, doing, id string, f func(*sql.Tx) (sql.Result, error)) error {
	return s.commit(ctx, doing, onDisk, func(_ context.Context, tx *sql.Tx) error {
		r, err := f(tx)
		if err != nil {
			return err
		}
		return held(id, r)
	})
}

// held holds a change against the number of rows that it met.
func held(id string, r sql.Result) error {
	n, err := r.RowsAffected()
	if err != nil {
		return err
	}
	if n == 0 {
		return fmt.Errorf("session %s: %w", id, ErrNotHeld)
	}
	return nil
}

// millis and moment turn a zero time into 0 and back.
func millis(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

func moment(ms int64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms)
}

func encodeBase(b *sandbox.Base) (sql.NullString, error) {
	if b == nil {
		return sql.NullString{}, nil
	}
	text, err := json.Marshal(b)
	return sql.NullString{String: string(text), Valid: true}, err
}

// decode is strict: a field that this version does not know may have been a
// tighter limit.
func decode(text string, to any) error {
	d := json.NewDecoder(bytes.NewReader([]byte(text)))
	d.DisallowUnknownFields()
	return d.Decode(to)
}
