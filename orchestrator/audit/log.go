package audit

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"brig/orchestrator/private"
)

const (
	// flushAfter is how long a noted line may wait for the disk.
	flushAfter = 200 * time.Millisecond
	// keepEvery is how often the head is anchored elsewhere while lines come.
	keepEvery = 10 * time.Second
	// lockBound is how long another process may hold the log.
	lockBound = 5 * time.Second
	lockStep  = time.Millisecond
)

// Options of Open. Dir is required.
type Options struct {
	Dir string // made, for this user only, if it is missing
	// SegmentBytes is when a file is closed and another one begun; default 8 MiB.
	SegmentBytes int64
	// Segments is how many files are kept, the latest; default 64.
	Segments int
	// Recall and Keep anchor the head in a second place: a log that is shorter than
	// what Recall says was truncated. Both or neither; they must not block for long.
	Recall func(context.Context) (string, error)
	Keep   func(ctx context.Context, head string) error
}

// Report is what Open found and did beyond opening, in sentences for people, the
// first the earliest. Each is a line of the log as well.
type Report struct{ Problems []string }

// Log is an open audit log. Its methods may be called concurrently, and other
// processes may append to the same directory.
type Log struct {
	o    Options
	lock *os.File // the kernel's lock on it is held while the log is read to its end and written

	turn chan struct{} // holds a value while somebody flushes
	kick chan struct{} // a line waits for the flusher
	stop chan struct{}
	done sync.WaitGroup

	mu      sync.Mutex
	closed  bool
	f       *os.File   // the last segment
	name    string     // of the last segment
	size    int64      // of f, up to which it is known
	head    Head       // of the chain
	flushed Head       // up to which this process has seen the disk confirm
	kept    Head       // that Keep has
	old     []*os.File // segments that are closed when nobody flushes them any more
	broken  bool       // what the disk has is not known: the tail is read anew before the next line
}

// Open opens the log of a directory, making it as needed. What of it does not fit
// stays as it is and is reported. *private.UnsafeError: the place cannot be trusted.
func Open(ctx context.Context, o Options) (*Log, Report, error) {
	if o.Dir == "" || (o.Recall == nil) != (o.Keep == nil) {
		return nil, Report{}, errors.New("BUG: open the audit log: it needs a directory, and Recall with Keep")
	}
	if o.SegmentBytes <= 0 {
		o.SegmentBytes = 8 << 20
	}
	if o.Segments <= 0 {
		o.Segments = 64
	}
	if err := private.Dir(o.Dir); err != nil {
		return nil, Report{}, explain("open the audit log", o.Dir, err)
	}
	lock, err := private.Open(filepath.Join(o.Dir, lockFile), os.O_CREATE|os.O_RDWR)
	if err != nil {
		return nil, Report{}, explain("open the audit log", o.Dir, err)
	}
	l := &Log{o: o, lock: lock, turn: make(chan struct{}, 1), kick: make(chan struct{}, 1), stop: make(chan struct{}), broken: true}
	l.mu.Lock()
	problems, err := l.locked(ctx, func() ([]string, error) { return l.recover(ctx) })
	l.mu.Unlock()
	if err != nil {
		return nil, Report{}, errors.Join(explain("open the audit log", o.Dir, err), l.lock.Close())
	}
	l.done.Go(l.flusher)
	return l, Report{problems}, nil
}

// Head is the last line that this process knows of.
func (l *Log) Head() Head {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.head
}

// Dir is where the log is.
func (l *Log) Dir() string { return l.o.Dir }

// Append writes a line and returns when it is on the disk. It is for everything
// that widens or weakens the boundary, before that is done: on an error it must
// not be done. Lines that are appended at the same time share one flush.
func (l *Log) Append(ctx context.Context, e Entry) (Head, error) {
	h, err := l.write(ctx, e)
	if err != nil {
		return h, err
	}
	return h, l.flush(ctx, h.Number)
}

// Note writes a line, which survives a kill of this process from then on, and a
// power cut a moment later. An error says that it was not written.
func (l *Log) Note(ctx context.Context, e Entry) (Head, error) {
	h, err := l.write(ctx, e)
	if err == nil {
		select {
		case l.kick <- struct{}{}:
		default: // the flusher knows
		}
	}
	return h, err
}

// Flush returns when every line that was written before is on the disk.
func (l *Log) Flush(ctx context.Context) error { return l.flush(ctx, l.Head().Number) }

func (l *Log) write(ctx context.Context, e Entry) (Head, error) {
	const doing = "write the audit log"
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return Head{}, fmt.Errorf("%s: %w", doing, ErrClosed)
	}
	_, err := l.locked(ctx, func() ([]string, error) {
		if err := l.catchUp(ctx); err != nil {
			return nil, err
		}
		return nil, l.put(e)
	})
	if err != nil {
		return Head{}, explain(doing, l.o.Dir, err)
	}
	return l.head, nil
}

// locked does something while no other process can. It needs mu.
func (l *Log) locked(ctx context.Context, do func() ([]string, error)) (problems []string, err error) {
	if err := l.acquire(ctx); err != nil {
		return nil, err
	}
	problems, err = do()
	if failed := private.Unlock(l.lock); failed != nil {
		err = errors.Join(err, fmt.Errorf("unlock %s: %w", l.lock.Name(), failed))
	}
	return problems, err
}

// acquire takes the lock, on the file that others would take it on: somebody may
// have removed the directory meanwhile.
func (l *Log) acquire(ctx context.Context) error {
	for {
		if err := l.await(ctx); err != nil {
			return err
		}
		named, err := os.Lstat(l.lock.Name())
		if err == nil {
			here, err := l.lock.Stat()
			if err == nil && os.SameFile(named, here) {
				return nil
			}
		}
		if err := private.Dir(l.o.Dir); err != nil {
			return errors.Join(err, private.Unlock(l.lock))
		}
		another, err := private.Open(l.lock.Name(), os.O_CREATE|os.O_RDWR)
		if err != nil {
			return errors.Join(err, private.Unlock(l.lock))
		}
		_ = l.lock.Close() // gives it up, and nothing was written to it
		l.lock, l.broken = another, true
	}
}

func (l *Log) await(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, lockBound, fmt.Errorf("another process has held it for %s", lockBound))
	defer cancel()
	return private.Await(ctx, l.lock, lockStep)
}

// put writes one line behind the head. It needs the lock, and the log caught up.
func (l *Log) put(entries ...Entry) error {
	var text []byte
	head := l.head
	for _, e := range entries {
		line, next, err := encode(e, head, time.Now())
		if err != nil {
			return err
		}
		text, head = append(text, line...), next
	}
	if l.size > 0 && l.size+int64(len(text)) > l.o.SegmentBytes {
		if err := l.rotate(); err != nil {
			return err
		}
		return l.put(entries...)
	}
	return l.raw(text, head)
}

// raw writes whole lines or nothing.
func (l *Log) raw(text []byte, head Head) error {
	if _, err := l.f.WriteAt(text, l.size); err != nil {
		// How much was written is not always told.
		if undone := l.f.Truncate(l.size); undone != nil {
			l.broken = true // a part of a line stands there: it is set aside before the next
			return errors.Join(err, undone)
		}
		return err
	}
	l.size, l.head = l.size+int64(len(text)), head
	return nil
}

// flush returns when the line of that number is on the disk.
func (l *Log) flush(ctx context.Context, number uint64) error {
	const doing = "write the audit log to the disk"
	select {
	case l.turn <- struct{}{}:
		defer func() { <-l.turn }()
	case <-ctx.Done():
		return explain(doing, l.o.Dir, context.Cause(ctx))
	}
	l.mu.Lock()
	f, head, old := l.f, l.head, l.old
	if l.flushed.Number >= number || f == nil {
		l.mu.Unlock()
		return nil
	}
	l.old = nil
	l.mu.Unlock()
	for _, f := range old {
		_ = f.Close() // flushed when the next one was begun
	}
	if err := f.Sync(); err != nil {
		// What of it the disk has cannot be told any more by asking again.
		l.mu.Lock()
		l.broken = true
		l.mu.Unlock()
		return explain(doing, l.o.Dir, err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.flushed.Number < head.Number {
		l.flushed = head
	}
	return explain(doing, l.o.Dir, l.saveHead(head))
}

// flusher brings noted lines to the disk and anchors the head.
func (l *Log) flusher() {
	keep := time.NewTicker(keepEvery)
	defer keep.Stop()
	for {
		select {
		case <-l.kick:
			select {
			case <-time.After(flushAfter):
			case <-l.stop:
				return
			}
			// The next line says so if it fails again.
			_ = l.Flush(context.Background())
		case <-keep.C:
			_ = l.anchor(context.Background()) // tried again
		case <-l.stop:
			return
		}
	}
}

// anchor keeps the head in the second place.
func (l *Log) anchor(ctx context.Context) error {
	l.mu.Lock()
	head := l.flushed
	known := l.kept == head || head.Number == 0
	l.mu.Unlock()
	if l.o.Keep == nil || known {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, lockBound)
	defer cancel()
	if err := l.o.Keep(ctx, head.String()); err != nil {
		return fmt.Errorf("keep the audit log's head: %w", err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.kept = head
	return nil
}

// Close brings everything to the disk, anchors the head and gives the log up. It is idempotent.
func (l *Log) Close() error {
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return nil
	}
	l.closed = true
	l.mu.Unlock()
	close(l.stop)
	l.done.Wait()
	ctx, cancel := context.WithTimeout(context.Background(), 2*lockBound)
	defer cancel()
	errs := []error{l.Flush(ctx), l.anchor(ctx)}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, f := range append(l.old, l.f) {
		if f != nil {
			errs = append(errs, f.Close())
		}
	}
	l.f, l.old = nil, nil
	errs = append(errs, l.lock.Close())
	if err := errors.Join(errs...); err != nil && !errors.Is(err, fs.ErrClosed) {
		return explain("close the audit log", l.o.Dir, err)
	}
	return nil
}
