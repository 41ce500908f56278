package audit

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"

	"brig/orchestrator/private"
)

// rotate closes the segment with a line that names the next one, and begins that.
// It needs the lock.
func (l *Log) rotate() error {
	index, _ := segmentIndex(l.name)
	next := segmentName(index + 1)
	line, head, err := encode(Entry{KindLog, self, LogData{Event: continues, Segment: next}}, l.head, now())
	if err != nil {
		return err
	}
	if err := l.raw(line, head); err != nil {
		return err
	}
	l.broken = true // until the next one is there
	if err := l.f.Sync(); err != nil {
		return err
	}
	full := l.f
	if err := l.take(index, true, 0); err != nil {
		return err
	}
	if err := private.SyncDir(l.o.Dir); err != nil {
		return err
	}
	l.broken = false
	// A protection against mishaps, no more: whose file it is can change that.
	_ = full.Chmod(fullMode)
	l.trim()
	return nil
}

// trim removes the earliest segments beyond those that are kept, each after a line
// that says so. What fails is tried again at the next rotation.
func (l *Log) trim() {
	all, err := segments(l.o.Dir)
	for err == nil && len(all) > l.o.Segments {
		err = l.remove(all[0])
		all = all[1:]
	}
}

func (l *Log) remove(index int) error {
	text, err := readSegment(l.o.Dir, index, -1)
	if err != nil {
		return err
	}
	first, err := numberOf(text)
	if err != nil {
		return err // what cannot be read is for a person to remove
	}
	t := walk(text)
	if t.broken != nil || len(t.torn) > 0 || bytes.Count(text, []byte("\n")) == 0 {
		return errors.New("it is damaged")
	}
	line, head, err := encode(Entry{KindLog, self, LogData{Event: removed, Segment: segmentName(index), From: first, To: t.head.Number, Hash: t.head.Hash}}, l.head, now())
	if err != nil {
		return err
	}
	if err := l.raw(line, head); err != nil {
		return err
	}
	if err := l.f.Sync(); err != nil {
		l.broken = true
		return err
	}
	return errors.Join(os.Remove(filepath.Join(l.o.Dir, segmentName(index))), private.SyncDir(l.o.Dir))
}
