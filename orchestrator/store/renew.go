package store

import (
	"context"
	"database/sql"
	"time"
)

// Renew records how long after its creation a session ends. ErrNotHeld.
func (s *Store) Renew(ctx context.Context, id string, lifetime time.Duration) error {
	return s.change(ctx, "record the lifetime of a session", id, func(tx *sql.Tx) (sql.Result, error) {
		return tx.ExecContext(ctx, "UPDATE sessions SET lifetime = ? WHERE id = ? AND process = ?", lifetime.Milliseconds(), id, s.process)
	})
}
