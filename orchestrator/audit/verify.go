package audit

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"brig/orchestrator/private"
)

// maxBreaks is how many breaks a verdict names.
const maxBreaks = 100

// Verdict is what a check of the whole log says.
type Verdict struct {
	Dir      string   `json:"dir"`
	Segments int      `json:"segments"`
	Lines    uint64   `json:"lines"`
	From     uint64   `json:"from"` // number of the first line that is there; 0: none is
	Head     Head     `json:"head"` // the last line
	Breaks   []Break  `json:"breaks"`
	More     int      `json:"more_breaks,omitempty"` // beyond those
	Anchors  []string `json:"anchors"`               // what the head was held against
}

// Break is where the chain does not hold.
type Break struct {
	Segment string `json:"segment,omitempty"`
	Line    int    `json:"line,omitempty"`   // of the file, from 1; 0: of the file or the log as a whole
	Number  uint64 `json:"number,omitempty"` // of the line, where it has one
	Reason  string `json:"reason"`           // one sentence, lower case
}

// Holds tells whether nothing of what is there was altered, and nothing is missing
// but what was removed by age.
func (v Verdict) Holds() bool { return len(v.Breaks) == 0 }

// Sentence is the verdict for people.
func (v Verdict) Sentence() string {
	switch {
	case v.Holds() && v.Lines == 0:
		return "the audit log is empty"
	case v.Holds():
		return fmt.Sprintf("the chain holds: lines %d to %d", v.From, v.Head.Number)
	}
	return fmt.Sprintf("the chain does not hold: %s", v.Breaks[0].Reason)
}

// Anchor is a head that was kept elsewhere, and where.
type Anchor struct {
	Name string // "the session store"
	Head Head
}

// Verify reads the whole log of a directory and holds it against the head in its
// own file and against the anchors. It may be written meanwhile. An error says
// that it could not be read, not that it does not hold.
func Verify(ctx context.Context, dir string, anchors ...Anchor) (Verdict, error) {
	const doing = "check the audit log"
	v := &verifier{Verdict: Verdict{Dir: dir, Breaks: []Break{}, Anchors: []string{}}, removed: map[Head]bool{}}
	head, known := loadHead(dir) // before the lines, which are never behind it
	all, sizes, err := v.look(ctx)
	if errors.Is(err, fs.ErrNotExist) {
		err = nil // nothing was ever logged
	}
	if err != nil {
		return v.Verdict, explain(doing, dir, err)
	}
	if known {
		anchors = append(anchors, Anchor{"the file " + headFile + " beside it", head})
	}
	_, err = os.Lstat(filepath.Join(dir, headFile))
	v.known = err == nil
	for _, a := range anchors {
		v.Anchors = append(v.Anchors, fmt.Sprintf("%s: %s", a.Name, a.Head))
	}
	v.wanted = anchors
	for i, index := range all {
		if err := ctx.Err(); err != nil {
			return v.Verdict, fmt.Errorf("%s: %w", doing, context.Cause(ctx))
		}
		text, err := readSegment(dir, index, sizes[i])
		if errors.Is(err, fs.ErrNotExist) {
			continue // removed by age meanwhile: a line says so
		}
		if err != nil {
			v.add(Break{Segment: segmentName(index), Reason: err.Error()})
			continue
		}
		v.Segments++
		v.segment(segmentName(index), text, i == len(all)-1)
	}
	v.ends()
	return v.Verdict, nil
}

// verifier is a check under way.
type verifier struct {
	Verdict
	head    Head
	start   Head          // that the first line says it follows
	removed map[Head]bool // last lines of segments that the log says were removed
	wanted  []Anchor
	known   bool // the file with the head is there
}

// look takes the sizes of the segments while nobody writes, where it can.
func (v *verifier) look(ctx context.Context) (all []int, sizes []int64, err error) {
	if lock, err := private.Open(filepath.Join(v.Dir, lockFile), os.O_RDWR); err == nil {
		defer lock.Close() // which gives it up
		l := Log{lock: lock}
		_, _ = l.locked(ctx, func() ([]string, error) {
			all, sizes, err = v.sizes()
			return nil, nil
		})
		if all != nil && err == nil {
			return all, sizes, nil
		}
	}
	return v.sizes()
}

func (v *verifier) sizes() (all []int, sizes []int64, err error) {
	if all, err = segments(v.Dir); err != nil {
		return nil, nil, err
	}
	for _, index := range all {
		size := int64(-1)
		if info, err := os.Lstat(filepath.Join(v.Dir, segmentName(index))); err == nil {
			size = info.Size()
		}
		sizes = append(sizes, size)
	}
	return all, sizes, nil
}

func (v *verifier) segment(name string, text []byte, last bool) {
	for n := 1; len(text) > 0; n++ {
		line, rest, whole := bytes.Cut(text, []byte("\n"))
		text = rest
		if !whole {
			v.add(Break{Segment: name, Line: n, Reason: fmt.Sprintf("%s ends in a part of a line", name)})
			return
		}
		if v.Lines == 0 {
			v.head = before(line)
			v.start = v.head
		}
		v.line(name, n, line)
	}
}

func (v *verifier) line(name string, n int, line []byte) {
	head, err := follows(line, v.head)
	if err == nil {
		_, err = decode(line)
	}
	if err != nil {
		number, _ := numberOf(line)
		v.add(Break{name, n, number, fmt.Sprintf("%s, line %d: %s", name, n, err)})
		if head, err = follows(line, before(line)); err != nil {
			return // it says nothing that could be gone on from
		}
	}
	if v.Lines++; v.From == 0 {
		v.From = head.Number
	}
	v.head, v.Head = head, head
	for _, a := range v.wanted {
		if a.Head.Number == head.Number && a.Head.Hash != head.Hash {
			v.add(Break{name, n, head.Number, fmt.Sprintf("line %d is another one than it was, as %s says", head.Number, a.Name)})
		}
	}
	if d, ok := v.own(line); ok {
		switch d.Event {
		case removed:
			v.removed[Head{d.To, d.Hash}] = true
		case altered:
			v.add(Break{name, n, head.Number, d.sentence()})
		}
	}
}

// own is what a line of the log about itself says.
func (v *verifier) own(line []byte) (LogData, bool) {
	if !bytes.Contains(line, []byte(`,"kind":"log",`)) {
		return LogData{}, false
	}
	return logData(line)
}

// ends looks at what is missing at either end.
func (v *verifier) ends() {
	if v.Lines > 0 && v.start.Number > 0 && !v.removed[v.start] {
		v.add(Break{Reason: span(1, v.start.Number) + " missing, and nothing says that it was removed by age"})
	}
	if v.Lines > 0 && !v.known {
		v.add(Break{Reason: "the file " + headFile + " beside it is missing, which was there before the first line: what is missing at the end cannot be told by it"})
	}
	for _, a := range v.wanted {
		if a.Head.Number > v.Head.Number {
			v.add(Break{Reason: span(v.Head.Number+1, a.Head.Number) + " missing at the end, as " + a.Name + " says"})
		}
	}
}

func (v *verifier) add(b Break) {
	if len(v.Breaks) == maxBreaks {
		v.More++
		return
	}
	v.Breaks = append(v.Breaks, b)
}

// Verify is the same for an open log, with its own anchor.
func (l *Log) Verify(ctx context.Context) (Verdict, error) {
	var anchors []Anchor
	if l.o.Recall != nil {
		text, err := l.o.Recall(ctx)
		if err != nil {
			return Verdict{}, fmt.Errorf("check the audit log: %w", err)
		}
		if head, err := ParseHead(text); err == nil && head.Number > 0 {
			anchors = append(anchors, Anchor{"the session store", head})
		}
	}
	return Verify(ctx, l.o.Dir, anchors...)
}
