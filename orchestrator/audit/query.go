package audit

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
	"time"
)

const (
	defaultPage, maxPage = 100, 1000
	// lookBytes is how much of a log one page looks through.
	lookBytes = 64 << 20
)

// Query asks for lines, the latest first. An empty member asks for all.
type Query struct {
	Kind    Kind
	Event   string
	Session string    // id or name
	Run     string    // id, its beginning, or its beginning without "run-"
	Since   time.Time // not before
	Until   time.Time // before
	Limit   int       // 0: 100, at most 1000
	Cursor  string    // of the page before; empty: the first
}

// Find is one page of the lines of a directory, the latest first. next is the
// cursor of the page after it; empty: this is the last. A page may have fewer lines
// than asked for, even none, and yet a next: of a large log only a part is looked
// at per page. Lines that cannot be read are left out: Verify names them. ErrCursor.
func Find(ctx context.Context, dir string, q Query) (lines []Line, next string, err error) {
	const doing = "read the audit log"
	limit := q.Limit
	if limit <= 0 {
		limit = defaultPage
	}
	limit = min(limit, maxPage)
	before := ^uint64(0)
	if q.Cursor != "" {
		if before, err = strconv.ParseUint(q.Cursor, 10, 64); err != nil || before == 0 {
			return nil, "", fmt.Errorf("%s: %w", doing, ErrCursor)
		}
	}
	all, err := segments(dir)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil, "", nil // nothing was ever logged
		}
		return nil, "", explain(doing, dir, err)
	}
	looked := 0
	for i := len(all) - 1; i >= 0; i-- {
		if err := ctx.Err(); err != nil {
			return nil, "", fmt.Errorf("%s: %w", doing, context.Cause(ctx))
		}
		text, err := readSegment(dir, all[i], -1)
		if errors.Is(err, fs.ErrNotExist) {
			continue // removed by age meanwhile
		}
		if err != nil {
			return nil, "", explain(doing, dir, err)
		}
		first, err := numberOf(text)
		if err == nil && first >= before {
			continue
		}
		looked += len(text)
		var older bool
		if lines, before, older = q.collect(lines, text, before, limit+1); older {
			return lines, "", nil
		}
		if len(lines) > limit {
			lines = lines[:limit]
			return lines, strconv.FormatUint(lines[limit-1].Number, 10), nil
		}
		if looked > lookBytes && i > 0 && err == nil {
			return lines, strconv.FormatUint(first, 10), nil
		}
	}
	return lines, "", nil
}

// collect adds what of a segment is asked for, the latest first, until there are
// limit. older says that everything before is older than what is asked for.
func (q Query) collect(lines []Line, text []byte, before uint64, limit int) (all []Line, next uint64, older bool) {
	text = text[:bytes.LastIndexByte(text, '\n')+1] // a line that is being written has no end yet
	for len(text) > 0 && len(lines) < limit {
		at := bytes.LastIndexByte(text[:len(text)-1], '\n') + 1
		line := text[at : len(text)-1]
		text = text[:at]
		number, err := numberOf(line)
		if err != nil || number >= before || !q.may(line) {
			continue
		}
		x, err := decode(line)
		if err != nil {
			continue
		}
		if !q.Since.IsZero() && x.Time.Before(q.Since) {
			return lines, before, true
		}
		if q.matches(x) {
			lines = append(lines, x)
		}
	}
	return lines, before, false
}

// may spares reading lines that cannot be of the kind.
func (q Query) may(line []byte) bool {
	return q.Kind == "" || bytes.Contains(line, []byte(`,"kind":"`+string(q.Kind)+`",`))
}

func (q Query) matches(x Line) bool {
	if q.Kind != "" && x.Kind != q.Kind || !q.Until.IsZero() && !x.Time.Before(q.Until) {
		return false
	}
	if q.Event == "" && q.Session == "" && q.Run == "" {
		return true
	}
	var d struct {
		Event   string `json:"event"`
		Session string `json:"session"`
		Name    string `json:"session_name"`
		Run     string `json:"run"`
	}
	if err := json.Unmarshal(x.Data, &d); err != nil {
		return false
	}
	return (q.Event == "" || d.Event == q.Event) && (q.Session == "" || d.Session == q.Session || d.Name == q.Session) && (q.Run == "" || strings.HasPrefix(d.Run, q.Run) || strings.HasPrefix(d.Run, "run-"+q.Run))
}

// Query is Find in the log's directory.
func (l *Log) Query(ctx context.Context, q Query) (lines []Line, next string, err error) {
	return Find(ctx, l.o.Dir, q)
}
