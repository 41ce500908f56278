package audit

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"brig/orchestrator/private"
)

// LogData is the Data of KindLog: what the log says about itself.
type LogData struct {
	Event   string `json:"event"`             // continues, removed, torn, damaged, missing, altered
	Segment string `json:"segment,omitempty"` // continues: the next file; removed, torn, damaged: the one
	From    uint64 `json:"from,omitempty"`    // removed, missing: the first line
	To      uint64 `json:"to,omitempty"`      // removed, missing: the last one
	Hash    string `json:"hash,omitempty"`    // removed, missing, altered: that the last one has or had
	Bytes   int    `json:"bytes,omitempty"`   // torn: of the part
	Aside   string `json:"aside,omitempty"`   // torn: the file that holds the part
	Reason  string `json:"reason,omitempty"`
}

const (
	continues = "continues"
	removed   = "removed"
	torn      = "torn"
	damaged   = "damaged"
	missing   = "missing"
	altered   = "altered"
)

// self is the actor of KindLog.
const self = "brig"

// catchUp reads what other processes have appended. It needs the lock.
func (l *Log) catchUp(ctx context.Context) error {
	index, _ := segmentIndex(l.name)
	// A segment that nothing fitted behind has no line that names the next one.
	_, err := os.Lstat(filepath.Join(l.o.Dir, segmentName(index+1)))
	if !l.broken && errors.Is(err, fs.ErrNotExist) {
		named, err := os.Lstat(filepath.Join(l.o.Dir, l.name))
		if err == nil {
			here, err := l.f.Stat()
			if err == nil && os.SameFile(named, here) && l.readOn(here.Size()) {
				return nil
			}
		}
	}
	_, err = l.recover(ctx)
	return err
}

// readOn reads what was appended to the segment, which has that size now. false:
// there is more to it than whole lines that follow.
func (l *Log) readOn(size int64) bool {
	if size <= l.size {
		return size == l.size
	}
	text := make([]byte, size-l.size)
	if _, err := l.f.ReadAt(text, l.size); err != nil {
		return false
	}
	head := l.head
	for len(text) > 0 {
		line, rest, whole := bytes.Cut(text, []byte("\n"))
		next, err := follows(line, head)
		if !whole || err != nil || isLog(line, continues) {
			return false
		}
		head, text = next, rest
	}
	l.head, l.size = head, size
	return true
}

// recover finds the end of the log and makes it one that a line can follow. It
// needs the lock. What it did beyond reading is returned in sentences.
func (l *Log) recover(ctx context.Context) (problems []string, err error) {
	l.broken = true
	all, err := segments(l.o.Dir)
	if err != nil {
		return nil, err
	}
	last, t, found, err := l.lookBack(all)
	if err != nil {
		return nil, err
	}
	head := t.head
	for _, a := range l.anchors(ctx) {
		switch said, there, err := l.hashOf(all, a.Head.Number); {
		case err != nil:
			return nil, err
		case a.Head.Number > head.Number:
			found = append(found, LogData{Event: missing, From: head.Number + 1, To: a.Head.Number, Hash: a.Head.Hash, Reason: "as " + a.Name + " says"})
			head = a.Head
		case there && said != a.Head.Hash:
			found = append(found, LogData{Event: altered, To: a.Head.Number, Hash: a.Head.Hash, Reason: "as " + a.Name + " says"})
		}
	}
	fresh := last == 0 || t.size > 0 && (len(found) > 0 || t.ended)
	if err := l.take(last, fresh, t.size); err != nil {
		return nil, err
	}
	l.head = head
	if head.Number == 0 { // from before the first line on, so that it shows when it is removed
		if err := l.saveHead(head); err != nil {
			return nil, err
		}
	}
	if len(t.torn) > 0 {
		d, err := l.setAside(last, t)
		if err != nil {
			return nil, err
		}
		found = append(found, d)
	}
	var entries []Entry
	for _, d := range found {
		entries = append(entries, Entry{KindLog, self, d})
		problems = append(problems, d.sentence())
	}
	if len(entries) > 0 {
		if err := l.put(entries...); err != nil {
			return nil, err
		}
	}
	l.broken = false
	if len(entries) == 0 && !fresh {
		return nil, nil
	}
	return problems, errors.Join(l.f.Sync(), private.SyncDir(l.o.Dir), l.saveHead(l.head))
}

// lookBack reads the last segment and, where that has no line yet because a writer
// was killed when it had just made it, the one before.
func (l *Log) lookBack(all []int) (last int, t tail, found []LogData, err error) {
	for i := len(all) - 1; i >= 0; i-- {
		text, err := readSegment(l.o.Dir, all[i], -1)
		if err != nil {
			return 0, t, nil, err
		}
		here := walk(text)
		if here.broken != nil {
			found = append(found, LogData{Event: damaged, Segment: segmentName(all[i]), Reason: here.broken.Reason})
		}
		if i == len(all)-1 {
			last, t = all[i], here
		}
		t.head = here.head
		if here.size > 0 {
			break
		}
	}
	return last, t, found, nil
}

// take opens the segment that lines are appended to: the last one, or a new one behind it.
func (l *Log) take(last int, fresh bool, size int64) error {
	index, flag := last, os.O_RDWR
	if fresh {
		index, flag, size = last+1, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0
	}
	f, err := private.Open(filepath.Join(l.o.Dir, segmentName(index)), flag)
	if err != nil {
		return err
	}
	if l.f != nil {
		l.old = append(l.old, l.f)
	}
	l.f, l.name, l.size = f, segmentName(index), size
	return nil
}

// setAside moves a part of a line, which a writer left that was cut off, to a file
// of its own.
func (l *Log) setAside(last int, t tail) (LogData, error) {
	name := fmt.Sprintf("torn-%06d-%d-%s", last, t.size, time.Now().UTC().Format("20060102T150405.000000Z"))
	f, err := private.Open(filepath.Join(l.o.Dir, name), os.O_WRONLY|os.O_CREATE|os.O_EXCL)
	if err != nil {
		return LogData{}, err
	}
	_, err = f.Write(t.torn)
	if err := errors.Join(err, f.Sync(), f.Close(), private.SyncDir(l.o.Dir)); err != nil {
		return LogData{}, err
	}
	if l.name == segmentName(last) {
		if err := l.f.Truncate(t.size); err != nil {
			return LogData{}, err
		}
	} else if err := os.Truncate(filepath.Join(l.o.Dir, segmentName(last)), t.size); err != nil {
		return LogData{}, err
	}
	return LogData{Event: torn, Segment: segmentName(last), Bytes: len(t.torn), Aside: name}, nil
}

// sentence is what a person is told.
func (d LogData) sentence() string {
	switch d.Event {
	case torn:
		return fmt.Sprintf("%s ended in a part of a line, %d bytes: they are in %s", d.Segment, d.Bytes, d.Aside)
	case damaged:
		return fmt.Sprintf("%s is damaged: %s; it was left as it is, and the log goes on in another file", d.Segment, d.Reason)
	case missing:
		return span(d.From, d.To) + " missing, " + d.Reason
	case altered:
		return fmt.Sprintf("line %d is another one than it was, %s", d.To, d.Reason)
	}
	return d.Reason
}

// span is how a sentence about lines begins.
func span(from, to uint64) string {
	if from == to {
		return fmt.Sprintf("line %d is", from)
	}
	return fmt.Sprintf("lines %d to %d are", from, to)
}

// tail is how a segment ends.
type tail struct {
	head   Head
	size   int64  // of the whole lines
	torn   []byte // a part of a line behind them
	ended  bool   // by a line that names the next segment
	broken *Break // the first line that does not follow the one before
}

// walk goes through the lines of a segment by their hashes. The line before the
// first is not known here: what it says of that one is taken as it is.
func walk(text []byte) tail {
	var t tail
	var line []byte
	for n := 1; len(text) > 0; n++ {
		next, rest, whole := bytes.Cut(text, []byte("\n"))
		if !whole {
			t.torn = text
			break
		}
		line, text = next, rest
		t.size += int64(len(line)) + 1
		if n == 1 {
			t.head = before(line)
		}
		head, err := follows(line, t.head)
		if err != nil {
			if t.broken == nil {
				t.broken = &Break{Line: n, Reason: fmt.Sprintf("line %d: %s", n, err)}
			}
			if head, err = follows(line, before(line)); err != nil {
				continue
			}
		}
		t.head = head
	}
	t.ended = isLog(line, continues)
	return t
}

// before is the head that a line says it follows; where it cannot be read, none.
func before(line []byte) Head {
	number, err := numberOf(line)
	if err != nil || number == 1 || len(line) < tailBytes {
		return Head{}
	}
	content := line[:len(line)-tailBytes]
	at := len(content) - hashDigit - 1
	if at < 0 || !isHash(string(content[at:len(content)-1])) {
		return Head{}
	}
	return Head{number - 1, string(content[at : len(content)-1])}
}

// isLog tells whether a line is one of the log about itself, of that event.
func isLog(line []byte, event string) bool {
	if !bytes.Contains(line, []byte(`,"kind":"log","actor":"`+self+`","data":{"event":"`+event+`"`)) {
		return false // which spares reading it
	}
	d, ok := logData(line)
	return ok && d.Event == event
}

func logData(line []byte) (LogData, bool) {
	x, err := decode(line)
	if err != nil || x.Kind != KindLog {
		return LogData{}, false
	}
	var d LogData
	return d, json.Unmarshal(x.Data, &d) == nil
}

// anchors are the heads that are known from elsewhere. One that cannot be read
// anchors nothing.
func (l *Log) anchors(ctx context.Context) []Anchor {
	var out []Anchor
	if l.head.Number > 0 {
		out = append(out, Anchor{"the process that wrote it", l.head})
	}
	if head, ok := loadHead(l.o.Dir); ok {
		out = append(out, Anchor{"the file " + headFile + " beside it", head})
	}
	if l.o.Recall != nil {
		ctx, cancel := context.WithTimeout(ctx, lockBound)
		defer cancel()
		if text, err := l.o.Recall(ctx); err == nil {
			if head, err := ParseHead(text); err == nil && head.Number > 0 {
				out = append(out, Anchor{"the session store", head})
			}
		}
	}
	return out
}

// hashOf finds the hash of a line by its number. there is false where the line is not.
func (l *Log) hashOf(all []int, number uint64) (hash string, there bool, err error) {
	mark := fmt.Appendf(nil, "%s%d,", numberMark, number)
	for i := len(all) - 1; i >= 0; i-- {
		text, err := readSegment(l.o.Dir, all[i], -1)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return "", false, err
		}
		if !bytes.HasPrefix(text, mark) {
			at := bytes.Index(text, append([]byte("\n"), mark...))
			if at < 0 {
				if first, err := numberOf(text); err == nil && first < number {
					return "", false, nil
				}
				continue
			}
			text = text[at+1:]
		}
		line, _, _ := bytes.Cut(text, []byte("\n"))
		if head, err := follows(line, before(line)); err == nil {
			return head.Hash, true, nil
		}
		return "", true, nil
	}
	return "", false, nil
}
