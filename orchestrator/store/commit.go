package store

import (
	"context"
	"database/sql"
	"errors"
	"sync"
	"time"

	"github.com/ncruces/go-sqlite3"
)

const (
	// batchMost is how many changes share one commit.
	batchMost = 64
	// batchBound is how long a shared commit may take; it ends with no caller, because others wait for it.
	batchBound = 30 * time.Second
)

// promise is what a change that was made has reached.
type promise int

const (
	withKernel promise = iota // it survives a kill of this process
	onDisk                    // and a power cut
	promises
)

// batch are the changes that wait to be made. SQLite has one writer, so whoever
// finds the turn free makes those of all who wait for the same promise: many
// callers pay for one flush of the disk, and nobody here meets a locked database.
type batch struct {
	turn    chan struct{} // holds a value while somebody commits
	mu      sync.Mutex
	waiting [promises][]*change
	last    promise // that was kept, so that the other one is next
}

type change struct {
	ctx  context.Context
	do   func(context.Context, *sql.Tx) error
	done chan error // has room for the one answer
}

// commit makes one change, whole or not at all, and returns when it has got so far
// as is promised.
func (s *Store) commit(ctx context.Context, doing string, p promise, do func(context.Context, *sql.Tx) error) error {
	leave, err := s.enter(doing)
	if err != nil {
		return err
	}
	defer leave()
	c := &change{ctx: ctx, do: do, done: make(chan error, 1)}
	s.batch.mu.Lock()
	s.batch.waiting[p] = append(s.batch.waiting[p], c)
	s.batch.mu.Unlock()
	for {
		select {
		case err := <-c.done:
			if ctx.Err() != nil && (errors.Is(err, sqlite3.INTERRUPT) || errors.Is(err, sql.ErrTxDone)) {
				err = context.Cause(ctx) // which is what these mean then
			}
			return s.explain(doing, err)
		case s.batch.turn <- struct{}{}:
			s.commitWaiting()
			<-s.batch.turn
		}
	}
}

// take are the changes of one promise that are next.
func (b *batch) take() ([]*change, promise) {
	b.mu.Lock()
	defer b.mu.Unlock()
	p := promises - 1 - b.last
	if len(b.waiting[p]) == 0 {
		p = b.last
	}
	b.last = p
	n := min(len(b.waiting[p]), batchMost)
	taken := b.waiting[p][:n:n]
	b.waiting[p] = b.waiting[p][n:]
	return taken, p
}

// commitWaiting needs the turn. The first answers come when all of them are true.
func (s *Store) commitWaiting() {
	taken, p := s.batch.take()
	if len(taken) == 0 {
		return
	}
	db := s.soon
	if p == onDisk {
		db = s.durable
	}
	ctx := taken[0].ctx
	if len(taken) > 1 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(context.Background(), batchBound)
		defer cancel()
	}
	answers, err := transact(ctx, db, taken)
	for i, c := range taken {
		if err != nil {
			c.done <- err
		} else {
			c.done <- answers[i]
		}
	}
}

// transact makes each change whole or not at all, and commits those that went well.
func transact(ctx context.Context, db *sql.DB, changes []*change) (answers []error, err error) {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			_ = tx.Rollback() // nothing was committed, and the first error is the one to tell
		}
	}()
	if len(changes) == 1 {
		if err := changes[0].do(ctx, tx); err != nil {
			return nil, err
		}
		return []error{nil}, tx.Commit()
	}
	for _, c := range changes {
		answer := c.ctx.Err()
		if answer == nil {
			if answer, err = apart(ctx, tx, c); err != nil {
				return nil, err
			}
		}
		answers = append(answers, answer)
	}
	return answers, tx.Commit()
}

// apart makes one change of several: what it met stays its own.
func apart(ctx context.Context, tx *sql.Tx, c *change) (answer, err error) {
	if _, err := tx.ExecContext(ctx, "SAVEPOINT one"); err != nil {
		return nil, err
	}
	if answer = c.do(ctx, tx); answer != nil {
		if _, err := tx.ExecContext(ctx, "ROLLBACK TO one"); err != nil {
			return nil, errors.Join(answer, err)
		}
	}
	_, err = tx.ExecContext(ctx, "RELEASE one")
	return answer, err
}
