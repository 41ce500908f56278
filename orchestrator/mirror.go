package orchestrator

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"brig/orchestrator/sandbox"
	"brig/orchestrator/wire"
	"brig/orchestrator/workspace"
)

const (
	// carryBound is how long files may travel before or after a run. What did not
	// make it by then is carried next time.
	carryBound = 2 * time.Minute
	// carryAtOnce is how many files travel at the same time.
	carryAtOnce = 8
	// mirrorEntries is how many entries a workspace may have that is elsewhere: each
	// is compared on both sides before and after every run.
	mirrorEntries = 20_000
)

// mirror keeps the host's workspace and that of an instance which does not see
// it (Posture.Detached) the same. The host directory is the truth: it outlives the
// instance, is what a snapshot, a quota and a person look at, and what a fresh
// instance is filled from.
//
// Both sides are compared, by path, size and time, with what they were when they
// were last the same; what changed on one side is carried to the other, a removal
// included. Where both sides changed the same file, the host keeps its own, and
// the instance's comes to lie beside it. Only regular files with one name are
// carried, with their permission bits where the other side has use for them;
// empty directories are not. What was not carried is named.
type mirror struct {
	files    *workspace.Workspace
	instance sandbox.Instance

	mu    sync.Mutex
	same  map[string]agreed // guarded by mu: what both sides agreed on
	said  map[string]bool   // of what cannot be carried, that it was said
	notes []string          // for the next result
}

// agreed is one file as it was on each side when both were the same.
type agreed struct {
	host, inside version
}

// version tells two contents of a file apart.
type version struct {
	size int64
	time int64       // nanoseconds; only ever compared for equality
	mode fs.FileMode // of the instance's side; 0 where it is not known
}

// side is what one side has now.
type side struct {
	files map[string]version
	dirs  map[string]bool
	// hidden are directories that could not be read: of what is in them nothing is known.
	hidden []string
	// others are entries that cannot be carried, by path.
	others map[string]string
}

func newSide() side {
	return side{files: map[string]version{}, dirs: map[string]bool{}, others: map[string]string{}}
}

// knows says whether the absence of a path means that it is not there.
func (s side) knows(name string) bool {
	return !slices.ContainsFunc(s.hidden, func(dir string) bool { return strings.HasPrefix(name, dir+"/") })
}

func newMirror(files *workspace.Workspace, i sandbox.Instance) *mirror {
	return &mirror{files: files, instance: i, same: map[string]agreed{}, said: map[string]bool{}}
}

// host looks at the host's side.
func (m *mirror) host() (side, error) {
	s := newSide()
	entries, omitted, err := m.files.List("", mirrorEntries)
	if err != nil {
		return s, err
	}
	if omitted > 0 {
		return s, tooManyFiles(len(entries) + omitted)
	}
	for _, e := range entries {
		if strings.HasPrefix(path.Base(e.Path), puttingPrefix) {
			continue // on its way
		}
		switch e.Kind {
		case workspace.File:
			s.files[e.Path] = version{size: e.Size, time: fileTime(e.ModTime)}
		case workspace.Dir:
			s.dirs[e.Path] = true
			if e.Problem != "" {
				s.hidden = append(s.hidden, e.Path)
			}
		case workspace.Link, workspace.Other:
			s.others[e.Path] = string(e.Kind)
		}
	}
	return s, nil
}

// inside looks at the instance's side, page by page. Everything in the answer is
// an opponent's word.
func (m *mirror) inside(ctx context.Context) (side, error) {
	s := newSide()
	for after, seen := "", 0; ; {
		reply, err := m.instance.Call(ctx, wire.Control{Op: wire.OpList, Args: wire.ControlArgs{Limit: mirrorEntries, After: after}}, nil, nil)
		if err != nil {
			return s, fmt.Errorf("list the files of the instance: %w", err)
		}
		var body wire.ListBody
		if err := json.Unmarshal(reply.Body, &body); err != nil {
			return s, fmt.Errorf("list the files of the instance: %w", err)
		}
		for _, e := range body.Entries {
			if e.Path <= after {
				return s, errors.New("list the files of the instance: the list is not in order")
			}
			after = e.Path
			s.add(e)
			if e.Closed {
				s.hidden = append(s.hidden, e.Path)
			}
		}
		seen += len(body.Entries)
		switch {
		case seen > mirrorEntries || body.Omitted > 0 && seen+body.Omitted > mirrorEntries:
			return s, tooManyFiles(seen + max(body.Omitted, 0))
		case body.Omitted <= 0:
			return s, nil
		case len(body.Entries) == 0:
			return s, errors.New("list the files of the instance: the list does not go on")
		}
	}
}

func (s side) add(e wire.Entry) {
	switch {
	case strings.ContainsRune(e.Path, '\uFFFD'):
		s.others[e.Path] = "its name is not text"
	case strings.HasPrefix(path.Base(e.Path), puttingPrefix): // on its way
	case e.Kind == string(workspace.File):
		s.files[e.Path] = version{e.Size, e.ModUnix, fs.FileMode(e.Mode) & fs.ModePerm}
	case e.Kind == string(workspace.Dir):
		s.dirs[e.Path] = true
	default:
		s.others[e.Path] = e.Kind
	}
}

func tooManyFiles(n int) error {
	return fmt.Errorf("the workspace has %d files and directories, and no more than %d are carried to an engine elsewhere: %w", n, mirrorEntries, workspace.ErrTooMany)
}

// plan is what has to travel.
type plan struct {
	push, pull             []string
	removeHost, removeThem []string
	both                   []string // changed on both sides: the instance's goes beside the host's
}

// compare finds out what changed on which side.
func (m *mirror) compare(host, inside side) plan {
	var p plan
	names := maps.Clone(host.files)
	maps.Copy(names, inside.files)
	for name := range m.same {
		names[name] = version{}
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		was, agreedOn := m.same[name]
		h, onHost := host.files[name]
		i, within := inside.files[name]
		hostChanged := onHost != agreedOn || onHost && h != was.host
		insideChanged := within != agreedOn || within && i != was.inside
		if !onHost && !host.knows(name) {
			hostChanged = false
		}
		if !within && !inside.knows(name) {
			insideChanged = false
		}
		switch {
		case hostChanged && insideChanged && onHost && within:
			p.both = append(p.both, name)
		case hostChanged && onHost:
			p.push = append(p.push, name)
		case insideChanged && within:
			p.pull = append(p.pull, name)
		case hostChanged && insideChanged:
			delete(m.same, name) // gone on both sides
		case hostChanged:
			p.removeThem = append(p.removeThem, name)
		case insideChanged:
			p.removeHost = append(p.removeHost, name)
		}
	}
	return p
}

func (p plan) empty() bool {
	return len(p.push)+len(p.pull)+len(p.removeHost)+len(p.removeThem)+len(p.both) == 0
}

// before makes the instance's workspace what the host's is, as far as that was
// changed. An error names the file, and then the run must not begin.
func (m *mirror) before(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, carryBound, errTooSlow)
	defer cancel()
	host, err := m.host()
	if err != nil {
		return fmt.Errorf("carry files to the engine: %w", err)
	}
	if m.unchanged(host) {
		return nil
	}
	left, err := m.carry(ctx, host)
	for _, l := range left {
		if l.needed && err == nil {
			err = l.err
		}
	}
	if err != nil {
		return fmt.Errorf("carry files to the engine: %w", err)
	}
	return nil
}

// after brings back what the code changed, and names what could not be brought.
func (m *mirror) after(ctx context.Context) (notes []string) {
	ctx, cancel := context.WithTimeoutCause(ctx, carryBound, errTooSlow)
	defer cancel()
	host, err := m.host()
	var left []leftOut
	if err == nil {
		left, err = m.carry(ctx, host)
	}
	if err != nil {
		notes = append(notes, "the files that the code changed were not brought back, and will be after the next run: "+err.Error())
	}
	for _, l := range left {
		notes = append(notes, l.err.Error())
	}
	notes = append(notes, m.notes...)
	m.notes = nil
	if n := len(notes); n > maxNamed {
		notes = append(notes[:maxNamed], fmt.Sprintf("and %d more were not carried", n-maxNamed))
	}
	return notes
}

// maxNamed is how many files a result names that were not carried.
const maxNamed = 8

// unchanged says that the host's side is as it was when both were the same.
func (m *mirror) unchanged(host side) bool {
	for name, v := range host.files {
		if was, known := m.same[name]; !known || was.host != v {
			return false
		}
	}
	for name := range m.same {
		if _, there := host.files[name]; !there && host.knows(name) {
			return false
		}
	}
	return true
}

// leftOut is a file that did not travel. Both sides have what they had.
type leftOut struct {
	name   string
	err    error
	needed bool // by the run that is about to begin
}

// carry makes both sides the same. The error is about the whole; what concerns
// one file is in left, sorted by name.
func (m *mirror) carry(ctx context.Context, host side) (left []leftOut, err error) {
	inside, err := m.inside(ctx)
	if err != nil {
		return nil, err
	}
	// Nothing else writes much on the host's side: the code is elsewhere.
	defer m.files.Batch()()
	p := m.compare(host, inside)
	m.cannot(host)
	m.cannot(inside)
	if p.empty() {
		return nil, nil
	}
	// Removals first: a name may have become a directory, or a directory a name.
	left = append(left, m.each(ctx, p.removeThem, func(ctx context.Context, name string) error {
		return m.removeThere(ctx, name)
	})...)
	left = append(left, m.each(ctx, p.removeHost, func(_ context.Context, name string) error {
		return m.removeHere(name, host.files[name])
	})...)
	m.clearWay(p.pull, host)
	left = append(left, m.each(ctx, p.pull, func(ctx context.Context, name string) error {
		return m.pull(ctx, name, name, inside.files[name])
	})...)
	push, lost := m.setAside(ctx, p.both, host, inside)
	left = append(left, lost...)
	push = append(push, p.push...)
	m.clearThere(ctx, push, inside, p.removeThem)
	pushed, lost := m.pushAll(ctx, push)
	left = append(left, lost...)
	if len(pushed) > 0 {
		if err := m.confirm(ctx, pushed); err != nil {
			return left, err
		}
	}
	slices.SortStableFunc(left, func(a, b leftOut) int { return strings.Compare(a.name, b.name) })
	return left, nil
}

// each does something with many files, a few at the same time, until ctx ends.
func (m *mirror) each(ctx context.Context, names []string, do func(context.Context, string) error) (left []leftOut) {
	var wg sync.WaitGroup
	var mu sync.Mutex
	turns := make(chan struct{}, carryAtOnce)
	for _, name := range names {
		turns <- struct{}{}
		wg.Go(func() {
			defer func() { <-turns }()
			err := context.Cause(ctx)
			if err == nil {
				err = do(ctx, name)
			}
			if err != nil {
				mu.Lock()
				defer mu.Unlock()
				left = append(left, leftOut{name: name, err: fmt.Errorf("%q was not carried: %w", name, err)})
			}
		})
	}
	wg.Wait()
	return left
}

// cannot names what cannot be carried, once.
func (m *mirror) cannot(s side) {
	say := func(name, why string) {
		if !m.said[name] && len(m.said) < mirrorEntries {
			m.said[name] = true
			m.notes = append(m.notes, fmt.Sprintf("%q was not carried: %s", name, why))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.others)) {
		say(name, words(s.others[name]))
	}
	for _, dir := range s.hidden {
		say(dir, "the directory could not be read")
	}
}

// puttingPrefix is how files are named that are being written.
const puttingPrefix = ".brig-put-"

func words(kind string) string {
	switch kind {
	case string(workspace.Link):
		return "it is a link"
	case string(workspace.Other):
		return "it is a special file"
	}
	return kind
}

// clearWay removes directories of the host that the code replaced by files, once
// nothing is left in them.
func (m *mirror) clearWay(pull []string, host side) {
	for _, name := range pull {
		if !host.dirs[name] {
			continue
		}
		entries, omitted, err := m.files.List(name, mirrorEntries)
		onlyDirs := err == nil && omitted == 0 && !slices.ContainsFunc(entries, func(e workspace.Entry) bool {
			return e.Kind != workspace.Dir || e.Problem != ""
		})
		if onlyDirs {
			_ = m.files.Remove(name) // what stays is met, and named, when the file comes
		}
	}
}

func fileTime(t time.Time) int64 { return t.UnixNano() }

// mode is how open a file is on its way; none is an ordinary one's.
func mode(m fs.FileMode) fs.FileMode {
	if m &= fs.ModePerm; m == 0 {
		return 0o644
	}
	return m
}
