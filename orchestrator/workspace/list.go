package workspace

import (
	"container/heap"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"
)

// Kind is what stands at a name.
type Kind string

const (
	File  Kind = "file"
	Dir   Kind = "dir"
	Link  Kind = "link"  // a symbolic link, wherever it leads
	Other Kind = "other" // a named pipe, socket or device
)

// DefaultLimit is how many entries List returns when asked for 0.
const DefaultLimit = 200

// Entry is one thing in the workspace.
type Entry struct {
	Path    string // slash separated, relative to the workspace; any bytes but NUL
	Kind    Kind
	Size    int64 // apparent, of a file; 0 otherwise
	ModTime time.Time
	Changed int64  // nanoseconds; the last change of any kind, which nobody can set back; 0 where the system does not tell
	Problem string // why a directory could not be read to its end, so that files in it may be missing from a list; for people

	node  node
	fresh bool // it may change again without a trace
}

// Tag tells one state of a file from every other: it changes with anything about
// the file, and with another file in its place. Empty: that is not known yet.
func (e Entry) Tag() string {
	if e.fresh || e.Kind != File {
		return ""
	}
	h := sha256.New()
	fmt.Fprintln(h, e.node.dev, e.node.ino, e.node.changed, e.Size, e.ModTime.UnixNano())
	return hex.EncodeToString(h.Sum(nil)[:12])
}

func entryOf(f found) Entry {
	n := nodeOf(f.info)
	e := Entry{Path: f.path, Kind: Other, ModTime: f.info.ModTime(), Changed: n.changed, node: n}
	switch f.info.Mode().Type() {
	case 0:
		e.Kind, e.Size = File, f.info.Size()
	case fs.ModeDir:
		e.Kind = Dir
	case fs.ModeSymlink:
		e.Kind = Link
	}
	if f.problem != nil {
		e.Problem = problemText(f.problem)
	}
	return e
}

// problemText leaves out operation and name, which stand beside it anyway.
func problemText(err error) string {
	var e *Error
	if errors.As(err, &e) {
		if e.Why != "" {
			return e.Why
		}
		return bare(err).Error()
	}
	return err.Error()
}

// List returns the first limit entries (0 means DefaultLimit) of everything below
// prefix, sorted by path, and how many more there are. An empty prefix or "." is
// the whole workspace; a prefix that is no directory is listed itself. No link is
// followed below prefix. With ErrTooMany the entries are those among the first
// MaxEntries that were met.
func (w *Workspace) List(prefix string, limit int) ([]Entry, int, error) {
	return w.ListAfter(prefix, "", limit)
}

// ListAfter is List of what comes after the path after. What changed in the moment
// of the list has no Tag: it may change again and keep it.
func (w *Workspace) ListAfter(prefix, after string, limit int) ([]Entry, int, error) {
	if limit <= 0 {
		limit = DefaultLimit
	}
	name := ""
	if strings.Trim(prefix, "./") != "" || strings.Contains(prefix, "..") || rooted(prefix) {
		var err error
		if name, err = clean("list", prefix); err != nil {
			return nil, 0, err
		}
		info, err := w.root.Lstat(name)
		if err != nil {
			return nil, 0, w.fail("list", name, err)
		}
		if !info.IsDir() && info.Mode().Type() != fs.ModeSymlink {
			if name <= after {
				return []Entry{}, 0, nil
			}
			return []Entry{entryOf(found{path: name, info: info})}, 0, nil
		}
	}
	first, now := firsts{limit: limit}, tick()
	err := w.walk("list", name, func(f found) {
		if f.path <= after {
			return
		}
		e := entryOf(f)
		e.fresh = now != 0 && e.Changed >= now
		first.add(e)
	})
	return first.sorted(), first.total - len(first.heap), err
}

// firsts keeps the limit smallest paths of many, in bounded memory.
type firsts struct {
	limit, total int
	heap         maxHeap
}

func (f *firsts) add(e Entry) {
	f.total++
	switch {
	case len(f.heap) < f.limit:
		heap.Push(&f.heap, e)
	case e.Path < f.heap[0].Path:
		f.heap[0] = e
		heap.Fix(&f.heap, 0)
	}
}

func (f *firsts) sorted() []Entry {
	out := slices.Clone(f.heap)
	slices.SortFunc(out, byPath)
	return out
}

func byPath(a, b Entry) int { return strings.Compare(a.Path, b.Path) }

type maxHeap []Entry

func (h maxHeap) Len() int           { return len(h) }
func (h maxHeap) Less(i, j int) bool { return h[i].Path > h[j].Path }
func (h maxHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *maxHeap) Push(x any)        { *h = append(*h, x.(Entry)) }
func (h *maxHeap) Pop() any {
	old := *h
	last := old[len(old)-1]
	*h = old[:len(old)-1]
	return last
}
