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
	// carryBound is how long a side may take to say what it has, and the least that
	// files may take to travel before or after a run; see carryTime.
	carryBound = 2 * time.Minute
	// carryMost bounds the way of any number of files.
	carryMost = 15 * time.Minute
	// carryAtOnce is how many files travel at the same time.
	carryAtOnce = 24
	// mirrorEntries is how many entries a workspace may have that is elsewhere: each
	// is compared on both sides before and after every run. It is as many as the
	// runner looks at.
	mirrorEntries = 100_000
)

// mirror keeps the host's workspace and that of an instance which does not see
// it (Posture.Detached) the same. The host directory is the truth: it outlives the
// instance, is what a snapshot, a quota and a person look at, and what a fresh
// instance is filled from.
//
// Both sides are compared, by path, size, mode and times, with what they were when they
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
	notes []string          // guarded by mu: for the next result
	lost  []string          // guarded by mu: of files that the code made, for the next result

	pacing sync.Mutex
	pace   pace // guarded by pacing
	// progress is told how many of how many files have arrived, one call at a time,
	// and at the end that there are none; nil: nobody looks. Guarded by pacing.
	progress func(done, total int)
}

// agreed is one file as it was on each side when both were the same.
type agreed struct {
	host, inside version
}

// version tells two contents of a file apart.
type version struct {
	size    int64
	time    int64       // nanoseconds; only ever compared for equality
	changed int64       // the same, of anything about the file: code sets the other back, and not this one
	mode    fs.FileMode // of the instance's side; 0 where it is not known
}

// side is what one side has now.
type side struct {
	files map[string]version
	dirs  map[string]bool
	// hidden are directories that could not be read: of what is in them nothing is known.
	hidden []string
	// others are entries that cannot be carried, by path.
	others map[string]string
	// nameless are files whose names cannot be carried.
	nameless []string
	// missing is how many entries there are beyond those that were looked at.
	missing int
}

func newSide() side {
	return side{files: map[string]version{}, dirs: map[string]bool{}, others: map[string]string{}}
}

// knows says whether the absence of a path means that it is not there.
func (s side) knows(name string) bool {
	return s.missing == 0 && !slices.ContainsFunc(s.hidden, func(dir string) bool { return strings.HasPrefix(name, dir+"/") })
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
			s.files[e.Path] = versionOf(e)
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
	ctx, cancel := context.WithTimeoutCause(ctx, carryBound, errTooSlow)
	defer cancel()
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
		case body.Omitted <= 0:
			return s, nil
		case seen >= mirrorEntries: // carried is what was named
			s.missing = body.Omitted
			return s, nil
		case len(body.Entries) == 0:
			return s, errors.New("list the files of the instance: the list does not go on")
		}
	}
}

func (s *side) add(e wire.Entry) {
	switch {
	case strings.ContainsRune(e.Path, '\uFFFD'):
		if e.Kind == string(workspace.File) || e.Kind == string(workspace.Dir) {
			s.nameless = append(s.nameless, e.Path)
		} else {
			s.others[e.Path] = e.Kind
		}
	case strings.HasPrefix(path.Base(e.Path), puttingPrefix): // on its way
	case e.Kind == string(workspace.File):
		s.files[e.Path] = version{e.Size, e.ModUnix, e.Changed, fs.FileMode(e.Mode) & fs.ModePerm}
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

// uncarried is what did not travel: sentences for people, and which of them are
// about files that the code made or changed and that the host does not have.
type uncarried struct{ notes, lost []string }

// after brings back what the code changed, and names what could not be brought.
func (m *mirror) after(ctx context.Context) uncarried {
	host, err := m.host()
	var left []leftOut
	if err == nil {
		left, err = m.carry(ctx, host)
	}
	var u uncarried
	if err != nil {
		u.lost = append(u.lost, "the files that the code changed were not brought back: "+err.Error())
	}
	for _, l := range left {
		if l.lost {
			u.lost = append(u.lost, l.err.Error())
		} else {
			u.notes = append(u.notes, l.err.Error())
		}
	}
	m.mu.Lock()
	u.lost, u.notes = append(u.lost, m.lost...), append(u.notes, m.notes...)
	m.lost, m.notes = nil, nil
	m.mu.Unlock()
	u.lost = named(u.lost)
	u.notes = append(slices.Clone(u.lost), named(u.notes)...)
	return u
}

// maxNamed is how many files a result names that were not carried.
const maxNamed = 8

func named(all []string) []string {
	if n := len(all); n > maxNamed {
		return append(slices.Clone(all[:maxNamed]), fmt.Sprintf("and %d more were not carried", n-maxNamed))
	}
	return all
}

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
	lost   bool // the code made it, and the host does not have it
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
	m.cannot(host, false)
	m.cannot(inside, true)
	if p.empty() {
		return nil, nil
	}
	whole := ctx
	ctx, cancel := context.WithTimeoutCause(whole, p.time(host, inside), errTooSlow)
	defer cancel()
	defer m.follow(len(p.pull) + len(p.push) + len(p.both))()
	// Removals first: a name may have become a directory, or a directory a name.
	left = append(left, m.each(ctx, p.removeThem, func(ctx context.Context, name string) error {
		return m.removeThere(ctx, name)
	})...)
	left = append(left, m.each(ctx, p.removeHost, func(_ context.Context, name string) error {
		return m.removeHere(name, host.files[name])
	})...)
	m.clearWay(p.pull, host)
	left = append(left, lostly(m.each(ctx, p.pull, func(ctx context.Context, name string) error {
		defer m.arrived()
		return m.pull(ctx, name, name, inside.files[name])
	}))...)
	push, lost := m.setAside(ctx, p.both, host, inside)
	left = append(left, lostly(lost)...)
	push = append(push, p.push...)
	m.clearThere(ctx, push, inside, p.removeThem)
	pushed, lost := m.pushAll(ctx, push)
	left = append(left, lost...)
	if len(pushed) > 0 {
		if err := m.confirm(whole, pushed); err != nil {
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

// lostly marks what the code made and the host did not get.
func lostly(left []leftOut) []leftOut {
	for n := range left {
		left[n].lost = true
	}
	return left
}

// cannot names what cannot be carried, once.
func (m *mirror) cannot(s side, theirs bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	say := func(name, why string, lost bool) {
		if m.said[name] || len(m.said) >= mirrorEntries {
			return
		}
		m.said[name] = true
		sentence := fmt.Sprintf("%q was not carried: %s", name, why)
		if lost {
			m.lost = append(m.lost, sentence)
		} else {
			m.notes = append(m.notes, sentence)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.others)) {
		say(name, words(s.others[name]), false)
	}
	for _, name := range s.nameless {
		say(name, "its name is not text", theirs)
	}
	for _, dir := range s.hidden {
		say(dir, "the directory could not be read", theirs)
	}
	if s.missing > 0 && theirs {
		m.lost = append(m.lost, tooManyFiles(mirrorEntries+s.missing).Error())
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

// versionOf is a file of the host as a list has it.
func versionOf(e workspace.Entry) version {
	return version{size: e.Size, time: e.ModTime.UnixNano(), changed: e.Changed}
}

// mode is how open a file is on its way; none is an ordinary one's.
func mode(m fs.FileMode) fs.FileMode {
	if m &= fs.ModePerm; m == 0 {
		return 0o644
	}
	return m
}
