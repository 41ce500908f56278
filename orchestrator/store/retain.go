package store

import (
	"cmp"
	"context"
	"database/sql"
	"time"
)

// pruneEvery is how many ends of runs pass between two looks at what may go.
const pruneEvery = 64

func (r Retention) withDefaults() Retention {
	return Retention{
		PerSession: cmp.Or(r.PerSession, 1000), Total: cmp.Or(r.Total, 20000), Bytes: cmp.Or(r.Bytes, 512<<20),
		Age: cmp.Or(r.Age, 30*day), Closed: cmp.Or(r.Closed, 7*day),
	}
}

// SetRetention replaces the bounds that Options have set.
func (s *Store) SetRetention(r Retention) { s.retention.Store(&r) }

// Prune removes the runs that the retention does not keep, and keys that have
// expired. It is also done now and then by EndRun.
func (s *Store) Prune(ctx context.Context, now time.Time) (removed int, err error) {
	err = s.commit(ctx, "remove old runs", onDisk, func(ctx context.Context, tx *sql.Tx) error {
		removed, err = prune(ctx, tx, s.retention.Load().withDefaults(), now)
		return err
	})
	return removed, err
}

// pruneSometimes keeps the file bounded. What it cannot remove it tries again.
func (s *Store) pruneSometimes(ctx context.Context) {
	if s.ends.Add(1)%pruneEvery == 0 {
		_, _ = s.Prune(context.WithoutCancel(ctx), time.Now())
	}
}

// The session of a run is closed when its row is gone.
const closed = "session NOT IN (SELECT id FROM sessions)"

func prune(ctx context.Context, tx *sql.Tx, r Retention, now time.Time) (int, error) {
	removed := 0
	for _, step := range []struct {
		statement string
		args      []any
	}{
		{"DELETE FROM runs WHERE state = 'ended' AND ended < ?", []any{millis(now.Add(-r.Age))}},
		{"DELETE FROM runs WHERE state = 'ended' AND ended < ? AND " + closed, []any{millis(now.Add(-r.Closed))}},
		{`DELETE FROM runs WHERE state = 'ended' AND number IN (SELECT number FROM (
			SELECT number, row_number() OVER (PARTITION BY session ORDER BY number DESC) AS place FROM runs) WHERE place > ?)`, []any{r.PerSession}},
		// What is kept first: what runs, then what open sessions have, then the latest.
		{`DELETE FROM runs WHERE state = 'ended' AND number IN (SELECT number FROM (
			SELECT number, row_number() OVER kept AS place, sum(bytes) OVER kept AS total FROM runs
			WINDOW kept AS (ORDER BY state = 'ended', ` + closed + `, number DESC ROWS UNBOUNDED PRECEDING)) WHERE place > ? OR total > ?)`, []any{r.Total, r.Bytes}},
	} {
		result, err := tx.ExecContext(ctx, step.statement, step.args...)
		if err != nil {
			return 0, err
		}
		n, err := result.RowsAffected()
		if err != nil {
			return 0, err
		}
		removed += int(n)
	}
	_, err := tx.ExecContext(ctx, "DELETE FROM run_keys WHERE expires <= ?", millis(now))
	return removed, err
}
