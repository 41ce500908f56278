package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"brig/orchestrator/sandbox"
	"brig/orchestrator/wire"
)

const selectAll = `
SELECT s.id, s.name, s.want, s.backend, s.base, s.workspace, s.home, s.timezone, s.locale, s.created, s.lifetime, s.used, s.state, s.note, s.run, s.process, s.kept, s.creator, s.runs, s.limits,
       i.id, i.backend, i.name, i.label, i.secret, i.base, i.workspace, i.posture, i.resolution, i.created, i.orphaned
FROM sessions s LEFT JOIN instances i ON i.session = s.id
ORDER BY s.created, s.id`

// Sessions lists every session of the owner, whoever holds it, the oldest first.
// A row that this version cannot read in full has its Err set.
func (s *Store) Sessions(ctx context.Context) ([]Session, error) {
	leave, err := s.enter("list the recorded sessions")
	if err != nil {
		return nil, err
	}
	defer leave()
	rows, err := s.durable.QueryContext(ctx, selectAll)
	if err != nil {
		return nil, s.explain("list the recorded sessions", err)
	}
	defer rows.Close()
	var out []Session
	for rows.Next() {
		x, err := scan(rows)
		if err != nil {
			return nil, s.explain("list the recorded sessions", err)
		}
		out = append(out, x)
	}
	if err := errors.Join(rows.Err(), rows.Close()); err != nil {
		return nil, s.explain("list the recorded sessions", err)
	}
	return out, nil
}

func scan(rows *sql.Rows) (Session, error) {
	var x Session
	var want, backend, state, run, limits string
	var base sql.NullString
	var created, lifetime, used int64
	var id, iBackend, name, label, secret, iBase, iWorkspace, posture, resolution sql.NullString
	var iCreated, orphaned sql.NullInt64
	err := rows.Scan(&x.ID, &x.Name, &want, &backend, &base, &x.Workspace, &x.Home, &x.Timezone, &x.Locale, &created, &lifetime, &used, &state, &x.Note, &run, &x.Process, &x.Kept, &x.Creator, &x.Runs, &limits,
		&id, &iBackend, &name, &label, &secret, &iBase, &iWorkspace, &posture, &resolution, &iCreated, &orphaned)
	if err != nil {
		return x, err
	}
	x.Want, x.Backend, x.State, x.Run = sandbox.Kind(want), sandbox.Kind(backend), State(state), wire.RunID(run)
	x.Created, x.Lifetime, x.Used = moment(created), time.Duration(lifetime)*time.Millisecond, moment(used)
	x.Err = decode(limits, &x.Limits)
	if base.Valid {
		x.Base = new(sandbox.Base)
		x.Err = errors.Join(x.Err, decode(base.String, x.Base))
	}
	if !id.Valid {
		return x, nil
	}
	i := Instance{
		ID: sandbox.InstanceID(id.String), Session: x.ID, Backend: sandbox.Kind(iBackend.String),
		Handle:    sandbox.Handle{Name: name.String, Secret: secret.String, Label: sandbox.InstanceID(label.String)},
		Workspace: iWorkspace.String, Resolution: []byte(resolution.String),
		Created: moment(iCreated.Int64), Orphaned: moment(orphaned.Int64),
	}
	x.Err = errors.Join(x.Err, decode(iBase.String, &i.Base), decode(posture.String, &i.Posture))
	x.Instance = &i
	return x, nil
}

// Claim passes a session from a process, which the caller knows to be dead, to
// this one. Of any number of claimants exactly one gets nil; ErrClaimed: another one did.
func (s *Store) Claim(ctx context.Context, id, from string) error {
	leave, err := s.enter("take a session over")
	if err != nil {
		return err
	}
	defer leave()
	tx, err := s.durable.BeginTx(ctx, nil)
	if err != nil {
		return s.explain("take a session over", err)
	}
	r, err := tx.ExecContext(ctx, "UPDATE sessions SET process = ? WHERE id = ? AND process = ?", s.process, id, from)
	if err == nil {
		_, err = tx.ExecContext(ctx, "UPDATE instances SET orphaned = 0 WHERE session = (SELECT id FROM sessions WHERE id = ? AND process = ?)", id, s.process)
	}
	return s.decide(tx, "take a session over", r, err)
}

// Forget removes a session of a process that the caller knows to be dead.
// ErrClaimed: that process does not hold it any more.
func (s *Store) Forget(ctx context.Context, id, from string) error {
	leave, err := s.enter("forget a session")
	if err != nil {
		return err
	}
	defer leave()
	tx, err := s.durable.BeginTx(ctx, nil)
	if err != nil {
		return s.explain("forget a session", err)
	}
	r, err := tx.ExecContext(ctx, "DELETE FROM sessions WHERE id = ? AND process = ?", id, from)
	return s.decide(tx, "forget a session", r, err)
}

// decide commits what met a row.
func (s *Store) decide(tx *sql.Tx, doing string, r sql.Result, err error) error {
	var n int64
	if err == nil {
		n, err = r.RowsAffected()
	}
	switch {
	case err == nil && n > 0:
		return s.explain(doing, tx.Commit())
	case err == nil:
		err = fmt.Errorf("%s: %w", doing, ErrClaimed)
	default:
		err = s.explain(doing, err)
	}
	_ = tx.Rollback() // nothing was committed, and the first error is the one to tell
	return err
}

// Orphan records when somebody first noticed that the holder of an instance is
// dead; a later call changes nothing.
func (s *Store) Orphan(ctx context.Context, id sandbox.InstanceID, at time.Time) error {
	leave, err := s.enter("record that an instance has no brig")
	if err != nil {
		return err
	}
	defer leave()
	_, err = s.durable.ExecContext(ctx, "UPDATE instances SET orphaned = ? WHERE id = ? AND orphaned = 0", millis(at), string(id))
	return s.explain("record that an instance has no brig", err)
}

// Orphans says why the rows of earlier sessions may be missing: a database was
// moved aside and nobody has seen to their files since. Empty: they are not.
func (s *Store) Orphans(ctx context.Context) (why string, err error) {
	leave, err := s.enter("ask for sessions without a record")
	if err != nil {
		return "", err
	}
	defer leave()
	err = s.durable.QueryRowContext(ctx, "SELECT value FROM meta WHERE key = 'orphans'").Scan(&why)
	if errors.Is(err, sql.ErrNoRows) {
		return "", nil
	}
	return why, s.explain("ask for sessions without a record", err)
}

// SeenToOrphans ends what Orphans says.
func (s *Store) SeenToOrphans(ctx context.Context) error {
	leave, err := s.enter("note that sessions without a record were seen to")
	if err != nil {
		return err
	}
	defer leave()
	_, err = s.durable.ExecContext(ctx, "DELETE FROM meta WHERE key = 'orphans'")
	return s.explain("note that sessions without a record were seen to", err)
}
