package mcp

import (
	"context"
	"errors"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"brig/orchestrator/api"
)

// callTime bounds one call. Many clients give up after 60 s and ask for no progress.
const callTime = 45 * time.Second

// call is one call of a tool.
type call struct {
	s    *Server
	req  *sdk.CallToolRequest
	peer Peer
	brig api.Brig
	// note is what the model has to know about the session beside the answer.
	note string
	// waits says that the run was begun by an earlier call: the end of this one is not its end.
	waits bool
	// turned says that nobody reads the answer any more.
	turned bool
}

// made turns the work of a tool into a handler: the time is bounded, an error becomes
// an answer that the model can read.
func (s *Server) made(work func(ctx context.Context, c *call) (*sdk.CallToolResult, error)) sdk.ToolHandler {
	return func(ctx context.Context, req *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		p, err := s.peer(req)
		if err != nil {
			return failure(err), nil
		}
		ctx, cancel := context.WithTimeoutCause(ctx, callTime, errCallTime)
		defer cancel()
		r, err := work(ctx, &call{s: s, req: req, peer: p, brig: p.Brig})
		if err != nil {
			return failure(err), nil
		}
		return r, nil
	}
}

var errCallTime = errors.New("a call may take 45 seconds")

// in calls do with the session that a call is for: the named one, or the client's
// own. make opens one where there is none; otherwise it is empty then. A client's
// own session that ended meanwhile is opened anew, once, and noted.
func (c *call) in(ctx context.Context, name string, make bool, do func(session string) error) error {
	switch {
	case c.peer.Session != "" && name != "" && name != c.peer.Session:
		s, err := c.brig.Session(ctx, name)
		if err != nil && !gone(err) {
			return err
		}
		if err != nil || s.ID != c.peer.Session {
			return api.NewProblem(api.CodeNotFound, "your credential is for one session only, and that is another one", `leave the argument "session" out`)
		}
		return do(s.ID)
	case c.peer.Session != "":
		return do(c.peer.Session)
	case name != "":
		if err := c.foreign(ctx, name); err != nil {
			return err
		}
		err := do(name)
		if !gone(err) || !make || c.there(ctx, name) {
			return err
		}
		if !nameable(name) {
			return api.NewProblem(api.CodeInvalid, "no session has that name, and none can: a name has 1 to 64 characters of A-Z a-z 0-9 . _ -", "choose another name, or leave it out")
		}
		s, err := c.s.homes.join(c.peer, name).wait(ctx)
		if err != nil {
			return err
		}
		return do(s.ID)
	}
	return c.home(ctx, make, do)
}

// home is in for the client's own session.
func (c *call) home(ctx context.Context, make bool, do func(session string) error) error {
	h, err := c.s.homes.of(c.peer, c.req.Session)
	if err != nil {
		return err
	}
	if !make && h.known() == "" {
		if h.ends {
			return do("")
		}
		if err := c.foreign(ctx, h.name); err != nil {
			return err
		}
		if err := do(h.name); !gone(err) || c.there(ctx, h.name) {
			return err
		}
		return do("")
	}
	for try := 0; ; try++ {
		id, anew, err := h.open(ctx, c.s)
		if err != nil {
			return err
		}
		if anew {
			c.note = "your earlier session ended (it was idle for too long, or somebody closed it): this is a new one, without its variables and files"
		}
		err = do(id)
		if !gone(err) || try > 0 || c.there(ctx, id) {
			return err
		}
		h.lost(id)
	}
}

// foreign refuses a session that the caller may see and another credential opened,
// under a name that may be there to be taken for the caller's own. Only the operator
// sees such.
func (c *call) foreign(ctx context.Context, name string) error {
	if !c.peer.Operator {
		return nil
	}
	s, err := c.brig.Session(ctx, name)
	if err != nil || s.Creator == c.peer.ID {
		return nil // what else is wrong the work itself meets
	}
	return api.NewProblem(api.CodeNameTaken, "the credential "+s.Creator+" opened that session, and not you", "choose another name, or leave it out")
}

// there tells whether the session exists: what was not found may be something in it.
func (c *call) there(ctx context.Context, session string) bool {
	_, err := c.brig.Session(ctx, session)
	return !gone(err)
}

// nameable tells whether a session may have that name.
func nameable(name string) bool {
	for i := range len(name) {
		c := name[i]
		word := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
		if !word && (i == 0 || c != '.' && c != '_' && c != '-') {
			return false
		}
	}
	return len(name) >= 1 && len(name) <= 64
}
