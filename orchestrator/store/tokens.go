package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
)

// PutToken records the credential of a session that this process holds, in the
// place of an earlier one. It goes with the session. ErrNotHeld.
func (s *Store) PutToken(ctx context.Context, t Token) error {
	return s.commit(ctx, "record a session's token", onDisk, func(ctx context.Context, tx *sql.Tx) error {
		if err := s.holds(ctx, tx, t.Session); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, "INSERT OR REPLACE INTO tokens (session, hash, created) VALUES (?, ?, ?)", t.Session, t.Hash[:], millis(t.Created))
		return err
	})
}

// Tokens are all of this owner's sessions, for whoever compares in constant time.
func (s *Store) Tokens(ctx context.Context) ([]Token, error) {
	const doing = "list the tokens of sessions"
	leave, err := s.enter(doing)
	if err != nil {
		return nil, err
	}
	defer leave()
	rows, err := s.read.QueryContext(ctx, "SELECT session, hash, created FROM tokens ORDER BY session")
	if err != nil {
		return nil, s.explain(doing, err)
	}
	defer rows.Close()
	var out []Token
	for rows.Next() {
		var t Token
		var hash []byte
		var created int64
		if err := rows.Scan(&t.Session, &hash, &created); err != nil {
			return nil, s.explain(doing, err)
		}
		if copy(t.Hash[:], hash) != len(t.Hash) || len(hash) != len(t.Hash) {
			continue // no token has such a hash
		}
		t.Created = moment(created)
		out = append(out, t)
	}
	return out, s.explain(doing, errors.Join(rows.Err(), rows.Close()))
}

// PutSelftest records a self-test of this process, or how it goes on, by its ID.
// It is on the disk when PutSelftest returns. Of those that ended the latest are kept.
func (s *Store) PutSelftest(ctx context.Context, t Selftest) error {
	return s.commit(ctx, "record a self-test", onDisk, func(ctx context.Context, tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx, `
INSERT INTO selftests (id, backend, process, state, started, ended, summary, report) VALUES (?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (id) DO UPDATE SET state = excluded.state, ended = excluded.ended, summary = excluded.summary, report = excluded.report`,
			t.ID, t.Backend, s.process, string(t.State), millis(t.Started), millis(t.Ended), notNil(t.Summary), notNil(t.Report)); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, `
DELETE FROM selftests WHERE state <> 'running' AND number NOT IN (SELECT number FROM selftests ORDER BY number DESC LIMIT ?)`, KeptSelftests)
		return err
	})
}

// FindSelftest is one self-test with its report; an empty id is the latest. ErrNotFound.
func (s *Store) FindSelftest(ctx context.Context, id string) (Selftest, error) {
	const doing = "find a self-test"
	leave, err := s.enter(doing)
	if err != nil {
		return Selftest{}, err
	}
	defer leave()
	var t Selftest
	_, err = scanSelftest(s.read.QueryRowContext(ctx, "SELECT "+selftestColumns+", report FROM selftests WHERE ?1 = '' OR id = ?1 ORDER BY number DESC LIMIT 1", id), &t, &t.Report)
	if errors.Is(err, sql.ErrNoRows) {
		return Selftest{}, fmt.Errorf("%s: %w", doing, ErrNotFound)
	}
	return t, s.explain(doing, err)
}

// Selftests is one page, the latest first, without reports; limit and cursor are as of RunQuery.
func (s *Store) Selftests(ctx context.Context, limit int, cursor string) (tests []Selftest, next string, err error) {
	const doing = "list self-tests"
	limit, before, err := page(limit, cursor)
	if err != nil {
		return nil, "", fmt.Errorf("%s: %w", doing, err)
	}
	leave, err := s.enter(doing)
	if err != nil {
		return nil, "", err
	}
	defer leave()
	rows, err := s.read.QueryContext(ctx, "SELECT "+selftestColumns+" FROM selftests WHERE number < ? ORDER BY number DESC LIMIT ?", before, limit+1)
	if err != nil {
		return nil, "", s.explain(doing, err)
	}
	defer rows.Close()
	var last int64
	for rows.Next() {
		if len(tests) == limit {
			next = fmt.Sprint(last)
			break
		}
		var t Selftest
		if last, err = scanSelftest(rows, &t); err != nil {
			return nil, "", s.explain(doing, err)
		}
		tests = append(tests, t)
	}
	return tests, next, s.explain(doing, errors.Join(rows.Err(), rows.Close()))
}

const selftestColumns = "number, id, backend, process, state, started, ended, summary"

func scanSelftest(row scanner, t *Selftest, more ...any) (number int64, err error) {
	var state string
	var started, ended int64
	err = row.Scan(append([]any{&number, &t.ID, &t.Backend, &t.Process, &state, &started, &ended, &t.Summary}, more...)...)
	t.State, t.Started, t.Ended = SelftestState(state), moment(started), moment(ended)
	return number, err
}
