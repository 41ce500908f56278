package store

import (
	"context"
	"database/sql"
	"errors"
	"sync"
	"time"
)

const (
	// batchMost is how many changes share one commit.
	batchMost = 64
	// batchBound is how long a commit may take; it ends with no caller, because others wait for it.
	batchBound = 30 * time.Second
)

// batch are the changes that wait for the next durable commit. Whoever finds the
// turn free commits for all who wait, so that many callers pay for one flush of
// the disk.
type batch struct {
	turn    chan struct{} // holds a value while somebody commits
	mu      sync.Mutex
	waiting []*change
}

type change struct {
	ctx  context.Context
	do   func(context.Context, *sql.Tx) error
	done chan error // has room for the one answer
}

// commit does one change and returns when it is on the disk.
func (s *Store) commit(ctx context.Context, doing string, do func(context.Context, *sql.Tx) error) error {
	leave, err := s.enter(doing)
	if err != nil {
		return err
	}
	defer leave()
	c := &change{ctx: ctx, do: do, done: make(chan error, 1)}
	s.batch.mu.Lock()
	s.batch.waiting = append(s.batch.waiting, c)
	s.batch.mu.Unlock()
	for {
		select {
		case err := <-c.done:
			return s.explain(doing, err)
		case s.batch.turn <- struct{}{}:
			s.commitWaiting()
			<-s.batch.turn
		}
	}
}

// commitWaiting needs the turn. The first answers come when all of them are on the disk.
func (s *Store) commitWaiting() {
	s.batch.mu.Lock()
	n := min(len(s.batch.waiting), batchMost)
	taken := s.batch.waiting[:n:n]
	s.batch.waiting = s.batch.waiting[n:]
	s.batch.mu.Unlock()
	if n == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), batchBound)
	defer cancel()
	answers, err := s.transact(ctx, taken)
	for i, c := range taken {
		if err != nil {
			c.done <- err
		} else {
			c.done <- answers[i]
		}
	}
}

// transact does each change whole or not at all, and commits those that went well.
func (s *Store) transact(ctx context.Context, changes []*change) (answers []error, err error) {
	tx, err := s.durable.BeginTx(ctx, nil)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			_ = tx.Rollback() // nothing was committed, and the first error is the one to tell
		}
	}()
	for _, c := range changes {
		answer := c.ctx.Err()
		if answer == nil {
			if _, err := tx.ExecContext(ctx, "SAVEPOINT one"); err != nil {
				return nil, err
			}
			if answer = c.do(ctx, tx); answer != nil {
				if _, err := tx.ExecContext(ctx, "ROLLBACK TO one"); err != nil {
					return nil, errors.Join(answer, err)
				}
			}
			if _, err := tx.ExecContext(ctx, "RELEASE one"); err != nil {
				return nil, err
			}
		}
		answers = append(answers, answer)
	}
	return answers, tx.Commit()
}

// commitSoon does one change and returns when the kernel has it.
func (s *Store) commitSoon(ctx context.Context, doing string, do func(context.Context, *sql.Tx) error) error {
	leave, err := s.enter(doing)
	if err != nil {
		return err
	}
	defer leave()
	tx, err := s.soon.BeginTx(ctx, nil)
	if err != nil {
		return s.explain(doing, err)
	}
	if err = do(ctx, tx); err == nil {
		return s.explain(doing, tx.Commit())
	}
	_ = tx.Rollback() // nothing was committed, and the first error is the one to tell
	return s.explain(doing, err)
}
