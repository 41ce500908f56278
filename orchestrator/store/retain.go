package store

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"time"
)

const (
	// pruneEvery is how many ends of runs pass between two looks at what may go.
	pruneEvery = 64
	// pruneMost is how many runs go in one commit, so that others do not wait for long.
	pruneMost = 200
)

func (r Retention) withDefaults() Retention {
	return Retention{
		PerSession: cmp.Or(r.PerSession, 1000), Total: cmp.Or(r.Total, 20000), Bytes: cmp.Or(r.Bytes, 512<<20),
		Age: cmp.Or(r.Age, 30*day), Closed: cmp.Or(r.Closed, 7*day),
	}
}

// SetRetention replaces the bounds that Options have set.
func (s *Store) SetRetention(r Retention) { s.retention.Store(&r) }

// Prune removes the runs that the retention does not keep, and keys that have
// expired. EndRun has it done now and then, beside whatever else goes on.
func (s *Store) Prune(ctx context.Context, now time.Time) (removed int, err error) {
	for {
		p := &pruner{keep: s.retention.Load().withDefaults(), now: now}
		err := s.commit(ctx, "remove old runs", onDisk, func(ctx context.Context, tx *sql.Tx) error {
			*p = pruner{keep: p.keep, now: now, tx: tx, left: pruneMost}
			return p.run(ctx)
		})
		if err != nil {
			return removed, err
		}
		removed += pruneMost - p.left
		if p.left > 0 {
			return removed, nil
		}
	}
}

// pruneSometimes keeps the file bounded. What it cannot remove it tries again.
func (s *Store) pruneSometimes() {
	if s.ends.Add(1)%pruneEvery != 0 || !s.pruning.CompareAndSwap(false, true) {
		return
	}
	go func() { // Close waits for the call
		defer s.pruning.Store(false)
		_, _ = s.Prune(context.Background(), time.Now())
	}()
}

// pruner is one commit of Prune.
type pruner struct {
	keep Retention
	now  time.Time
	tx   *sql.Tx
	left int // how many may still go
}

// The session of a run is closed when its row is gone.
const closed = "session NOT IN (SELECT id FROM sessions)"

func (p *pruner) run(ctx context.Context) error {
	if _, err := p.tx.ExecContext(ctx, "DELETE FROM run_keys WHERE expires <= ?", millis(p.now)); err != nil {
		return err
	}
	return errors.Join(p.old(ctx, "", p.keep.Age), p.old(ctx, " AND "+closed, p.keep.Closed), p.perSession(ctx), p.total(ctx))
}

// old removes what ended longer ago than age.
func (p *pruner) old(ctx context.Context, and string, age time.Duration) error {
	return p.remove(ctx, "SELECT number FROM runs WHERE state = 'ended' AND ended < ?"+and+" LIMIT ?", millis(p.now.Add(-age)))
}

// perSession removes what one session has too many of, the oldest.
func (p *pruner) perSession(ctx context.Context) error {
	rows, err := p.tx.QueryContext(ctx, "SELECT session FROM runs GROUP BY session HAVING count(*) > ?", p.keep.PerSession)
	if err != nil {
		return err
	}
	defer rows.Close()
	var sessions []string
	for rows.Next() {
		var session string
		if err := rows.Scan(&session); err != nil {
			return err
		}
		sessions = append(sessions, session)
	}
	if err := errors.Join(rows.Err(), rows.Close()); err != nil {
		return err
	}
	for _, session := range sessions {
		err := p.remove(ctx, `SELECT number FROM runs WHERE session = ?1 AND state = 'ended'
	AND number <= (SELECT number FROM runs WHERE session = ?1 ORDER BY number DESC LIMIT 1 OFFSET ?2) ORDER BY number LIMIT ?3`, session, p.keep.PerSession)
		if err != nil {
			return err
		}
	}
	return nil
}

// total removes what all have too much of: of closed sessions first, then the oldest.
func (p *pruner) total(ctx context.Context) error {
	for _, which := range []string{" AND " + closed, ""} {
		var runs, bytes int64
		if err := p.tx.QueryRowContext(ctx, "SELECT count(*), coalesce(sum(bytes), 0) FROM runs").Scan(&runs, &bytes); err != nil {
			return err
		}
		runs, bytes = runs-int64(p.keep.Total), bytes-p.keep.Bytes
		if runs <= 0 && bytes <= 0 {
			return nil
		}
		// As many, from the oldest, as bring both below their bounds.
		err := p.remove(ctx, `SELECT number FROM (
	SELECT number, row_number() OVER before AS place, sum(bytes) OVER before - bytes AS freed FROM (
		SELECT number, bytes FROM runs WHERE state = 'ended'`+which+` ORDER BY number LIMIT ?3)
	WINDOW before AS (ORDER BY number ROWS UNBOUNDED PRECEDING)) WHERE place <= ?1 OR freed < ?2`, runs, bytes)
		if err != nil {
			return err
		}
	}
	return nil
}

// remove takes a query of numbers, whose last parameter bounds how many.
func (p *pruner) remove(ctx context.Context, query string, args ...any) error {
	if p.left == 0 {
		return nil
	}
	r, err := p.tx.ExecContext(ctx, "DELETE FROM runs WHERE number IN ("+query+")", append(args, p.left)...)
	if err != nil {
		return err
	}
	n, err := r.RowsAffected()
	p.left -= int(n)
	return err
}
