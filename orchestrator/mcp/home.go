package mcp

import (
	"context"
	"errors"
	"sync"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"brig/orchestrator/api"
)

const (
	// openTime bounds the opening of a session. It is not the caller's time: where an
	// image has to be built first, a call ends long before that and a later one finds it done.
	openTime = 20 * time.Minute
	// sharedName is the session of a credential whose clients have no MCP sessions.
	sharedName = "mcp"
)

// homes are the brig sessions of calls that name none: one for each client that can
// be told apart.
type homes struct {
	s     *Server
	mu    sync.Mutex
	all   map[string]*home    // guarded by mu
	names map[string]*opening // sessions on their way that calls named; guarded by mu
	ended bool                // guarded by mu
}

// home is the brig session of one client.
type home struct {
	name string
	brig api.Brig // as the client that opened it sees brig
	ends bool     // the session is the client's alone and ends with it

	mu      sync.Mutex
	id      string   // of the open session; empty: none is known; guarded by mu
	had     bool     // there was one; guarded by mu
	opening *opening // guarded by mu
}

// opening is a session on its way.
type opening struct {
	done    chan struct{}
	session api.Session
	err     error
}

func newHomes(s *Server) *homes {
	return &homes{s: s, all: map[string]*home{}, names: map[string]*opening{}}
}

// of is the home of whoever sent req, and whether it lasts longer than the request.
func (h *homes) of(p Peer, ss *sdk.ServerSession) (*home, error) {
	name, key, ends := h.s.o.Session, "", false
	switch {
	case p.ID == "": // stdio: one client, which is this process's
		if name == "" {
			name, ends = randomName(), true
		}
	case ss != nil && ss.ID() != "":
		name, key, ends = randomName(), "session "+ss.ID(), true
	default:
		name, key = sharedOf(p.ID), "credential "+p.ID
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ended {
		return nil, api.NewProblem(api.CodeShuttingDown, "brig's MCP server ends", "")
	}
	if known := h.all[key]; known != nil {
		return known, nil
	}
	made := &home{name: name, brig: p.Brig, ends: ends}
	h.all[key] = made
	if ends && key != "" {
		// When the client is gone without a word its session stays until it was idle for
		// too long, as every other: somebody may come back for the files by its name.
		h.s.tasks.Go(func() {
			gone := make(chan struct{})
			go func() { _ = ss.Wait(); close(gone) }()
			select {
			case <-gone:
				h.forget(key)
			case <-h.s.ctx.Done():
			}
		})
	}
	return made, nil
}

// sharedOf is the name of a credential's shared session, which no other's has.
func sharedOf(id string) string {
	if id == sharedName {
		return sharedName
	}
	return sharedName + "-" + id
}

func (h *homes) forget(key string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.all, key)
}

func (h *homes) find(key string) *home {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.all[key]
}

// end closes the brig session of a client that said goodbye.
func (h *homes) end(known *home) {
	h.s.tasks.Go(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(h.s.ctx), 15*time.Second)
		defer cancel()
		_ = known.close(ctx) // what brig could not close it has in its log
	})
}

// close closes all sessions that are their clients' alone.
func (h *homes) close(ctx context.Context) error {
	h.mu.Lock()
	all := h.all
	h.all, h.ended = map[string]*home{}, true
	h.mu.Unlock()
	var errs []error
	for _, known := range all {
		errs = append(errs, known.close(ctx))
	}
	return errors.Join(errs...)
}

// close closes the session if it is the client's alone.
func (h *home) close(ctx context.Context) error {
	h.mu.Lock()
	id, under := h.id, h.opening
	h.mu.Unlock()
	if !h.ends {
		return nil
	}
	if id == "" && under != nil {
		select {
		case <-under.done:
			id = under.session.ID
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	if id == "" {
		return nil
	}
	err := h.brig.CloseSession(ctx, id)
	if gone(err) {
		return nil
	}
	return err
}

// known is the id of the open session, or empty.
func (h *home) known() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.id
}

// open returns the id of the session and opens it where there is none. anew says that
// there was one that is no more. When ctx ends the opening goes on.
func (h *home) open(ctx context.Context, s *Server) (id string, anew bool, err error) {
	h.mu.Lock()
	if h.id != "" {
		defer h.mu.Unlock()
		return h.id, false, nil
	}
	anew = h.had
	under := h.opening
	if under == nil {
		under = s.open(h.brig, h.name)
		h.opening = under
	}
	h.mu.Unlock()
	session, err := under.wait(ctx)
	if ctx.Err() != nil && err != nil {
		return "", anew, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.opening == under {
		h.opening = nil
		if err == nil {
			h.id, h.had = session.ID, true
		}
	}
	return session.ID, anew, err
}

// lost says that the session with that id is no more.
func (h *home) lost(id string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.id == id {
		h.id = ""
	}
}

// open begins to open a session by its name.
func (s *Server) open(b api.Brig, name string) *opening {
	o := &opening{done: make(chan struct{})}
	s.tasks.Go(func() {
		defer close(o.done)
		ctx, cancel := context.WithTimeout(s.ctx, openTime)
		defer cancel()
		o.session, _, o.err = b.OpenSession(ctx, api.SessionRequest{Name: name})
	})
	return o
}

// wait waits for the session; when ctx ends first it says that the session is on its way.
func (o *opening) wait(ctx context.Context) (api.Session, error) {
	select {
	case <-o.done:
		return o.session, o.err
	case <-ctx.Done():
		return api.Session{}, &api.Problem{
			Type: "urn:brig:problem:" + string(api.CodeDeadline), Title: "Took too long", Status: 504, Code: api.CodeDeadline,
			Detail:     "the sandbox is still being prepared; the first one of a machine may take some minutes, because its image is built",
			Remedy:     "call again with the same arguments: the preparation goes on meanwhile",
			RetryAfter: 5,
		}
	}
}

// join opens a session that a call named, or waits with those who asked before.
func (h *homes) join(p Peer, name string) *opening {
	key := p.ID + "\x00" + name
	h.mu.Lock()
	defer h.mu.Unlock()
	if under := h.names[key]; under != nil {
		return under
	}
	under := h.s.open(p.Brig, name)
	h.names[key] = under
	h.s.tasks.Go(func() {
		<-under.done
		h.mu.Lock()
		defer h.mu.Unlock()
		delete(h.names, key)
	})
	return under
}

// gone tells whether an error says that there is no such session.
func gone(err error) bool {
	return errors.Is(err, &api.Problem{Code: api.CodeNotFound}) || errors.Is(err, &api.Problem{Code: api.CodeGone})
}
