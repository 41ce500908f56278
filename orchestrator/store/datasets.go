package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
)

// PutDataset records a dataset of a session that this process holds, in the place
// of one of that name. An active one makes the others inactive, and the only one
// is active. It is on the disk when PutDataset returns. ErrNotHeld, ErrTooMany.
func (s *Store) PutDataset(ctx context.Context, d Dataset) error {
	return s.commit(ctx, "record a dataset", onDisk, func(ctx context.Context, tx *sql.Tx) error {
		if err := s.holds(ctx, tx, d.Session); err != nil {
			return err
		}
		var others, active int
		if err := tx.QueryRowContext(ctx, "SELECT count(*), coalesce(sum(active), 0) FROM datasets WHERE session = ? AND name <> ?", d.Session, d.Name).Scan(&others, &active); err != nil {
			return err
		}
		if others >= MaxDatasets {
			return ErrTooMany
		}
		if d.Active {
			if _, err := tx.ExecContext(ctx, "UPDATE datasets SET active = 0 WHERE session = ?", d.Session); err != nil {
				return err
			}
		}
		_, err := tx.ExecContext(ctx, "INSERT OR REPLACE INTO datasets (session, name, path, format, part, active, registered) VALUES (?, ?, ?, ?, ?, ?, ?)",
			d.Session, d.Name, d.Path, d.Format, d.Table, d.Active || active == 0, millis(d.Registered))
		return err
	})
}

// Datasets are those of a session, by name.
func (s *Store) Datasets(ctx context.Context, session string) ([]Dataset, error) {
	const doing = "list datasets"
	leave, err := s.enter(doing)
	if err != nil {
		return nil, err
	}
	defer leave()
	rows, err := s.read.QueryContext(ctx, "SELECT name, path, format, part, active, registered FROM datasets WHERE session = ? ORDER BY name", session)
	if err != nil {
		return nil, s.explain(doing, err)
	}
	defer rows.Close()
	var out []Dataset
	for rows.Next() {
		d := Dataset{Session: session}
		var registered int64
		if err := rows.Scan(&d.Name, &d.Path, &d.Format, &d.Table, &d.Active, &registered); err != nil {
			return nil, s.explain(doing, err)
		}
		d.Registered = moment(registered)
		out = append(out, d)
	}
	return out, s.explain(doing, errors.Join(rows.Err(), rows.Close()))
}

// RemoveDataset forgets a dataset; where it was the active one, the one that was
// registered first takes its place. ErrNotHeld, ErrNotFound.
func (s *Store) RemoveDataset(ctx context.Context, session, name string) error {
	return s.commit(ctx, "forget a dataset", onDisk, func(ctx context.Context, tx *sql.Tx) error {
		if err := s.holds(ctx, tx, session); err != nil {
			return err
		}
		r, err := tx.ExecContext(ctx, "DELETE FROM datasets WHERE session = ? AND name = ?", session, name)
		if err != nil {
			return err
		}
		if n, err := r.RowsAffected(); err != nil || n == 0 {
			return errors.Join(err, fmt.Errorf("dataset %s: %w", name, ErrNotFound))
		}
		_, err = tx.ExecContext(ctx, `
UPDATE datasets SET active = 1 WHERE session = ?1 AND NOT EXISTS (SELECT 1 FROM datasets WHERE session = ?1 AND active = 1)
	AND name = (SELECT name FROM datasets WHERE session = ?1 ORDER BY registered, name LIMIT 1)`, session)
		return err
	})
}

// holds asks whether this process holds a session. ErrNotHeld.
func (s *Store) holds(ctx context.Context, tx *sql.Tx, session string) error {
	var one int
	err := tx.QueryRowContext(ctx, "SELECT 1 FROM sessions WHERE id = ? AND process = ?", session, s.process).Scan(&one)
	if errors.Is(err, sql.ErrNoRows) {
		return fmt.Errorf("session %s: %w", session, ErrNotHeld)
	}
	return err
}
