package orchestrator

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"sync"

	"brig/orchestrator/wire"
	"brig/orchestrator/workspace"
)

// pull brings a file of the instance to the host, where it is replaced as a
// whole or not at all, within the workspace's limits.
func (m *mirror) pull(ctx context.Context, name, as string, seen version) error {
	r, w := io.Pipe()
	var wg sync.WaitGroup
	var written int64
	var putErr error
	wg.Go(func() {
		written, putErr = m.files.PutAny(as, r, mode(seen.mode))
		_ = r.CloseWithError(putErr) // it never fails; nil ends the writer where the file has ended
	})
	_, err := m.instance.Call(ctx, wire.Control{Op: wire.OpGet, Args: wire.ControlArgs{Path: name}}, nil, w)
	_ = w.CloseWithError(err) // nil is the end of the file, anything else keeps the old one
	wg.Wait()
	if err := errors.Join(putErr, err); err != nil {
		if putErr != nil && !errors.Is(putErr, err) {
			return putErr // the other is only its consequence
		}
		return err
	}
	if as != name {
		return nil
	}
	now, err := m.look(name)
	if err != nil {
		return err
	}
	if now.size == written { // otherwise somebody was quicker, and it is carried next time
		m.agree(name, agreed{now, seen})
	}
	return nil
}

// setAside brings files that both sides changed to lie beside the host's own, and
// returns those that may be sent over the instance's now. What is the same after
// all is only noted.
func (m *mirror) setAside(ctx context.Context, names []string, host, inside side) (push []string, left []leftOut) {
	var mu sync.Mutex
	left = m.each(ctx, names, func(ctx context.Context, name string) error {
		defer m.arrived()
		h, i := host.files[name], inside.files[name]
		if h.size == i.size && m.equal(ctx, name) {
			m.agree(name, agreed{h, i})
			return nil
		}
		as, err := m.asideName(name)
		if err != nil {
			return err
		}
		if err := m.pull(ctx, name, as, i); err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		push = append(push, name)
		m.remark(fmt.Sprintf("%q was changed by the code and outside of it: the code's is now %q", name, as))
		return nil
	})
	return push, left
}

// mostAside is how many versions of one file lie beside it.
const mostAside = 100

// asideName is a free name beside a file.
func (m *mirror) asideName(name string) (string, error) {
	for n := 1; n <= mostAside; n++ {
		as := fmt.Sprintf("%s.from-run-%d", name, n)
		if _, err := m.look(as); errors.Is(err, fs.ErrNotExist) {
			return as, nil
		}
	}
	return "", fmt.Errorf("there are %d versions beside it already", mostAside)
}

// equal says that both sides' files hold the same; where it cannot tell, they do not.
func (m *mirror) equal(ctx context.Context, name string) bool {
	r, _, err := m.files.Get(name, 0)
	if err != nil {
		return false
	}
	defer r.Close()
	c := &comparer{r: r}
	_, err = m.instance.Call(ctx, wire.Control{Op: wire.OpGet, Args: wire.ControlArgs{Path: name}}, nil, c)
	if err != nil {
		return false
	}
	n, err := r.Read(make([]byte, 1))
	return n == 0 && errors.Is(err, io.EOF)
}

// comparer fails a Write that does not match what r holds.
type comparer struct {
	r   io.Reader
	buf []byte
}

var errDiffers = errors.New("the content differs")

func (c *comparer) Write(p []byte) (int, error) {
	if len(c.buf) < len(p) {
		c.buf = make([]byte, len(p))
	}
	if n, err := io.ReadFull(c.r, c.buf[:len(p)]); err != nil || !bytes.Equal(c.buf[:n], p) {
		return 0, errDiffers
	}
	return len(p), nil
}

// clearThere removes directories of the instance in whose place the host has a
// file, once nothing is left in them that the host has not removed as well.
func (m *mirror) clearThere(ctx context.Context, push []string, inside side, removed []string) {
	for _, name := range push {
		if !inside.dirs[name] || !inside.knows(name+"/x") {
			continue
		}
		below := func(other string) bool { return strings.HasPrefix(other, name+"/") }
		full := slices.ContainsFunc(slices.Collect(maps.Keys(inside.others)), below)
		for other := range inside.files {
			full = full || below(other) && !slices.Contains(removed, other)
		}
		if !full {
			_ = m.removeThere(ctx, name) // what stays is met, and named, when the file comes
		}
	}
}

// pushed is a file that was sent to the instance.
type pushed struct {
	host version
	size int64
}

func (m *mirror) pushAll(ctx context.Context, names []string) (map[string]pushed, []leftOut) {
	var mu sync.Mutex
	done := map[string]pushed{}
	left := m.each(ctx, names, func(ctx context.Context, name string) error {
		defer m.arrived()
		p, err := m.push(ctx, name)
		if err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		done[name] = p
		return nil
	})
	for n := range left {
		left[n].needed = true
	}
	return done, left
}

// push sends a file of the host to the instance.
func (m *mirror) push(ctx context.Context, name string) (pushed, error) {
	r, info, err := m.files.Get(name, 0)
	if err != nil {
		return pushed{}, err
	}
	defer r.Close()
	counted := &counter{r: r}
	args := wire.ControlArgs{Path: name, Mode: uint32(mode(info.Mode()))}
	_, err = m.instance.Call(ctx, wire.Control{Op: wire.OpPut, Args: args}, counted, nil)
	var refused *wire.CallError
	if errors.As(err, &refused) && refused.Code == wire.CodeInvalid {
		// A directory stands there that the host does not have: it is the code's, and in the way.
		return pushed{}, fmt.Errorf("the instance has something else of that name: %w", err)
	}
	if err != nil {
		return pushed{}, err
	}
	return pushed{versionOf(workspace.Entry{Size: info.Size(), ModTime: info.ModTime(), Changed: workspace.ChangeTime(info)}), counted.n}, nil
}

// counter counts what was read.
type counter struct {
	r io.Reader
	n int64
}

func (c *counter) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n += int64(n)
	return n, err
}

// confirm looks at what was sent as it lies in the instance now.
func (m *mirror) confirm(ctx context.Context, sent map[string]pushed) error {
	inside, err := m.inside(ctx)
	if err != nil {
		return err
	}
	for name, p := range sent {
		if v, there := inside.files[name]; there && v.size == p.size {
			m.agree(name, agreed{p.host, v})
		}
	}
	return nil
}

func (m *mirror) removeThere(ctx context.Context, name string) error {
	_, err := m.instance.Call(ctx, wire.Control{Op: wire.OpRemove, Args: wire.ControlArgs{Path: name}}, nil, nil)
	var refused *wire.CallError
	if err != nil && (!errors.As(err, &refused) || refused.Code != wire.CodeNotFound) {
		return err
	}
	m.disagree(name)
	return nil
}

// removeHere removes a file of the host that the code removed, unless the host's
// is another one by now.
func (m *mirror) removeHere(name string, seen version) error {
	now, err := m.look(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return err
	case now != seen:
		return nil // it stays, and is carried next time
	default:
		if err := m.files.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	m.disagree(name)
	return nil
}

// look is one file of the host.
func (m *mirror) look(name string) (version, error) {
	entries, _, err := m.files.List(name, 1)
	if err != nil {
		return version{}, err
	}
	if len(entries) != 1 || entries[0].Path != name || entries[0].Kind != workspace.File {
		return version{}, &fs.PathError{Op: "look at", Path: name, Err: fs.ErrNotExist}
	}
	return versionOf(entries[0]), nil
}

// remark keeps a sentence for the next result.
func (m *mirror) remark(sentence string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.notes = append(m.notes, sentence)
}

func (m *mirror) agree(name string, a agreed) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.same[name] = a
}

func (m *mirror) disagree(name string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.same, name)
}
