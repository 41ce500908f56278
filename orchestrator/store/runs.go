package store

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strconv"
	"time"
)

// AddRun records an accepted run of this process. With a key that is known for
// the credential and the same request nothing is recorded and the run of then
// comes back, without source and outputs; ErrKeyReused: it was another request;
// ErrNotFound: that run is no longer kept. A run with a key and a durable one are on the disk when
// AddRun returns; any other survives a kill of this process, but not a power cut.
func (s *Store) AddRun(ctx context.Context, r Run, key *Key, durable bool) (earlier *Run, err error) {
	const doing = "record a run"
	add := func(ctx context.Context, tx *sql.Tx) (err error) {
		if key != nil {
			if earlier, err = s.useKey(ctx, tx, *key, r); earlier != nil || err != nil {
				return err
			}
		}
		return s.insertRun(ctx, tx, r)
	}
	p := withKernel
	if key != nil || durable {
		p = onDisk
	}
	if err := s.commit(ctx, doing, p, add); err != nil {
		return nil, err
	}
	return earlier, nil
}

func (s *Store) useKey(ctx context.Context, tx *sql.Tx, k Key, r Run) (*Run, error) {
	now := millis(r.Created)
	var hash []byte
	var run string
	err := tx.QueryRowContext(ctx, "SELECT hash, run FROM run_keys WHERE credential = ? AND key = ? AND expires > ?", k.Credential, k.Key, now).Scan(&hash, &run)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		_, err = tx.ExecContext(ctx, "INSERT OR REPLACE INTO run_keys (credential, key, hash, run, expires) VALUES (?, ?, ?, ?, ?)",
			k.Credential, k.Key, k.Hash[:], r.ID, now+KeyLife.Milliseconds())
		return nil, err
	case err != nil:
		return nil, err
	case !bytes.Equal(hash, k.Hash[:]):
		return nil, ErrKeyReused
	}
	earlier, err := scanRun(tx.QueryRowContext(ctx, "SELECT "+runColumns+" FROM runs WHERE id = ?", run))
	if errors.Is(err, sql.ErrNoRows) {
		return nil, fmt.Errorf("run %s: %w", run, ErrNotFound)
	}
	return &earlier, err
}

func (s *Store) insertRun(ctx context.Context, tx *sql.Tx, r Run) error {
	result, err := tx.ExecContext(ctx, `
INSERT INTO runs (id, session, name, creator, caller, process, state, cause, created, ended, bytes, summary)
VALUES (?, ?, ?, ?, ?, ?, 'open', '', ?, 0, ?, ?)`,
		r.ID, r.Session, r.Name, r.Creator, r.Caller, s.process, millis(r.Created), len(r.Summary)+len(r.Source), notNil(r.Summary))
	if err != nil {
		return err
	}
	number, err := result.LastInsertId()
	if err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, "INSERT INTO run_parts (number, source, outputs) VALUES (?, ?, x'')", number, notNil(r.Source))
	return err
}

// EndRun records how a run ended, by r's ID, Ended, Cause, Summary and Outputs. It is
// on the disk when EndRun returns. A run that has ended stays as it is: a second
// end changes nothing. ErrNotFound.
func (s *Store) EndRun(ctx context.Context, r Run) error {
	if len(r.Outputs) > MaxOutputs {
		return fmt.Errorf("record the end of run %s: its outputs are %d bytes, more than %d", r.ID, len(r.Outputs), MaxOutputs)
	}
	err := s.commit(ctx, "record the end of a run", onDisk, func(ctx context.Context, tx *sql.Tx) error {
		var number int64
		var state string
		err := tx.QueryRowContext(ctx, "SELECT number, state FROM runs WHERE id = ?", r.ID).Scan(&number, &state)
		if errors.Is(err, sql.ErrNoRows) {
			return fmt.Errorf("run %s: %w", r.ID, ErrNotFound)
		}
		if err != nil || state == "ended" {
			return err
		}
		if _, err := tx.ExecContext(ctx, `
UPDATE runs SET state = 'ended', cause = ?, ended = ?, summary = ?,
	bytes = ? + (SELECT length(source) FROM run_parts WHERE run_parts.number = runs.number) WHERE number = ?`,
			r.Cause, millis(r.Ended), notNil(r.Summary), len(r.Summary)+len(r.Outputs), number); err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, "UPDATE run_parts SET outputs = ? WHERE number = ?", notNil(r.Outputs), number)
		return err
	})
	if err == nil {
		s.pruneSometimes()
	}
	return err
}

// FindRun is one run with its source and outputs. ErrNotFound.
func (s *Store) FindRun(ctx context.Context, id string) (Run, error) {
	const doing = "find a run"
	leave, err := s.enter(doing)
	if err != nil {
		return Run{}, err
	}
	defer leave()
	r, err := scanWhole(s.read.QueryRowContext(ctx, selectWhole+" WHERE id = ?", id))
	if errors.Is(err, sql.ErrNoRows) {
		return Run{}, fmt.Errorf("%s: %s: %w", doing, id, ErrNotFound)
	}
	return r, s.explain(doing, err)
}

// Runs is one page of runs, the latest first, without sources and outputs. next is
// the cursor of the page after it; empty: this is the last. ErrCursor.
func (s *Store) Runs(ctx context.Context, q RunQuery) (runs []Run, next string, err error) {
	const doing = "list runs"
	limit, before, err := page(q.Limit, q.Cursor)
	if err != nil {
		return nil, "", fmt.Errorf("%s: %w", doing, err)
	}
	where, args := " WHERE number < ?", []any{before}
	if q.Session != "" {
		where, args = where+" AND session = ?", append(args, q.Session)
	}
	if q.Creator != "" {
		where, args = where+" AND creator = ?", append(args, q.Creator)
	}
	runs, err = s.listRuns(ctx, doing, where+" ORDER BY number DESC LIMIT ?", append(args, limit+1)...)
	if err == nil && len(runs) > limit {
		runs = runs[:limit]
		next = strconv.FormatInt(runs[limit-1].Number, 10)
	}
	return runs, next, err
}

// OpenRuns are those that have not ended, the oldest first, whichever process has
// or had them in hand. Whether one is dead is not the store's business.
func (s *Store) OpenRuns(ctx context.Context) ([]Run, error) {
	return s.listRuns(ctx, "list the runs that have not ended", " WHERE state = 'open' ORDER BY number")
}

// EachRun passes what ran in a session to f, the oldest first, whole, one after the
// other; f may use the store. Its error ends the walk and comes back as it is.
func (s *Store) EachRun(ctx context.Context, session string, f func(Run) error) error {
	const doing = "read the runs of a session"
	for after := int64(0); ; {
		r, err := s.nextRun(ctx, doing, session, after)
		if errors.Is(err, sql.ErrNoRows) {
			return nil
		}
		if err != nil {
			return s.explain(doing, err)
		}
		if err := f(r); err != nil {
			return err
		}
		after = r.Number
	}
}

func (s *Store) nextRun(ctx context.Context, doing, session string, after int64) (Run, error) {
	leave, err := s.enter(doing)
	if err != nil {
		return Run{}, err
	}
	defer leave()
	return scanWhole(s.read.QueryRowContext(ctx, selectWhole+" WHERE session = ? AND runs.number > ? ORDER BY runs.number LIMIT 1", session, after))
}

func (s *Store) listRuns(ctx context.Context, doing, rest string, args ...any) ([]Run, error) {
	leave, err := s.enter(doing)
	if err != nil {
		return nil, err
	}
	defer leave()
	rows, err := s.read.QueryContext(ctx, "SELECT "+runColumns+" FROM runs"+rest, args...)
	if err != nil {
		return nil, s.explain(doing, err)
	}
	defer rows.Close()
	var out []Run
	for rows.Next() {
		r, err := scanRun(rows)
		if err != nil {
			return nil, s.explain(doing, err)
		}
		out = append(out, r)
	}
	return out, s.explain(doing, errors.Join(rows.Err(), rows.Close()))
}

const (
	runColumns  = "runs.number, id, session, name, creator, caller, process, cause, created, begun, ended, summary"
	selectWhole = "SELECT " + runColumns + ", source, outputs FROM runs JOIN run_parts ON run_parts.number = runs.number"
)

type scanner interface{ Scan(to ...any) error }

func scanRun(row scanner, more ...any) (Run, error) {
	var r Run
	var created, begun, ended int64
	err := row.Scan(append([]any{&r.Number, &r.ID, &r.Session, &r.Name, &r.Creator, &r.Caller, &r.Process, &r.Cause, &created, &begun, &ended, &r.Summary}, more...)...)
	r.Created, r.Begun, r.Ended = moment(created), moment(begun), moment(ended)
	return r, err
}

func scanWhole(row scanner) (Run, error) {
	var source, outputs []byte
	r, err := scanRun(row, &source, &outputs)
	r.Source, r.Outputs = source, outputs
	return r, err
}

// page is the limit of a page and the number that everything in it is below.
func page(limit int, cursor string) (int, int64, error) {
	if limit <= 0 {
		limit = DefaultPage
	}
	limit = min(limit, MaxPage)
	if cursor == "" {
		return limit, 1<<63 - 1, nil
	}
	before, err := strconv.ParseInt(cursor, 10, 64)
	if err != nil || before <= 0 {
		return 0, 0, ErrCursor
	}
	return limit, before, nil
}

// notNil is bytes for a column that is never NULL.
func notNil(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}

// day is a unit of retention.
const day = 24 * time.Hour
