package mcp

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"brig/orchestrator/api"
)

// Peer is who calls a tool.
type Peer struct {
	Brig api.Brig // seen with the caller's rights
	// ID is the credential. An MCP session that one credential opened serves no other.
	ID string
	// Session is the id of the only session that the credential is for; empty: any of its own.
	Session string
	// Operator is the person's own credential, for which a part of what is bounded is kept.
	Operator bool
}

// Options of a Server.
type Options struct {
	// Brig is what tools ask whose caller no request names: all of stdio, and the look
	// at whether a sandbox can be had.
	Brig    api.Brig
	Version string
	// Session is the name of the brig session that calls use which name none. It stays
	// when the server ends. Empty: each client gets one of its own, which is closed then.
	Session string
}

// Server serves MCP clients until Close.
type Server struct {
	o      Options
	sdk    *sdk.Server
	offer  *offer
	homes  *homes
	memory *memory
	ctx    context.Context // of what outlives a call: the watch, sessions being opened
	cancel context.CancelFunc
	tasks  sync.WaitGroup
	calls  calls
}

// instructions are what a model is told of the server before it sees the tools.
const instructions = `brig runs Python in a sandbox. Variables, imports and files stay between calls that use the same session; without the argument "session" all your calls share one. Files live in the session's workspace, the current directory of the code. Every result says what contained the code: believe that, not the tool's name. A run that takes longer than a call may take is answered with its id: ask again with run_wait, or end it with run_cancel.`

// New makes a server and begins to look at what can be offered. Nothing is asked of
// brig before a client comes.
func New(o Options) (*Server, error) {
	if o.Brig == nil || o.Version == "" {
		return nil, errors.New("BUG: mcp needs a brig and a version")
	}
	s := &Server{o: o, memory: newMemory()}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.homes = newHomes(s)
	options := &sdk.ServerOptions{
		// What is listed and read is one caller's.
		SetCacheable: func(_ context.Context, _ sdk.Request, c *sdk.Cacheable) { c.CacheScope = "private" },
		Instructions: instructions,
		Capabilities: &sdk.ServerCapabilities{
			Tools: &sdk.ToolCapabilities{ListChanged: true}, Resources: &sdk.ResourceCapabilities{},
		},
	}
	extendOptions(options)
	s.sdk = sdk.NewServer(&sdk.Implementation{Name: "brig", Title: "brig: contained Python", Version: o.Version}, options)
	s.offer = newOffer(s)
	s.addResources()
	s.sdk.AddReceivingMiddleware(s.receive)
	extend(s.sdk)
	return s, nil
}

// Close ends the watch and the clients' own sessions. ctx bounds it.
func (s *Server) Close(ctx context.Context) error {
	s.cancel()
	err := s.homes.close(ctx)
	ended := make(chan struct{})
	go func() { s.tasks.Wait(); close(ended) }()
	select {
	case <-ended:
	case <-ctx.Done():
		err = errors.Join(err, fmt.Errorf("end what MCP clients began: %w", context.Cause(ctx)))
	}
	return err
}

// hangUpWait is how long answers that are on their way may take when all clients are left.
const hangUpWait = time.Second

// HangUp leaves all clients: a stream on which one waits for news would hold up the end
// of whoever serves it. It is for after Close, when what calls had begun has ended.
func (s *Server) HangUp() {
	wait := time.NewTimer(hangUpWait)
	defer wait.Stop()
	select {
	case <-s.calls.quiet():
	case <-wait.C:
	}
	for client := range s.sdk.Sessions() {
		go client.Close() // which waits for its handlers
	}
}

// receive is in front of every request: it keeps the list of tools true, and counts.
func (s *Server) receive(next sdk.MethodHandler) sdk.MethodHandler {
	return func(ctx context.Context, method string, req sdk.Request) (sdk.Result, error) {
		defer s.calls.begin()()
		switch method {
		case "initialize":
			// A client that begins with initialize has sessions: the revision without them,
			// asked for this way, would be kept as the client's though it was never agreed on.
			if p, ok := req.GetParams().(*sdk.InitializeParams); ok && p != nil && p.ProtocolVersion >= statelessSince {
				p.ProtocolVersion = latestStateful
			}
			s.offer.watch()
		case "server/discover", "tools/list":
			_ = s.offer.refresh(ctx, 0)
		case "subscriptions/listen":
			s.offer.watch()
		case "tools/call":
			if p, ok := req.GetParams().(*sdk.CallToolParamsRaw); ok && p.Name == toolRun {
				if why := s.offer.refresh(ctx, fresh); why != nil {
					return failure(why), nil
				}
			}
		}
		return next(ctx, method, req)
	}
}

const (
	// statelessSince is the first revision without sessions.
	statelessSince = "2026-07-28"
	latestStateful = "2025-11-25"
	// fresh is how old a look at the containment may be when code is about to run; a
	// change is told by the watch in between.
	fresh = 2 * time.Second
)

// peer is who sent req.
func (s *Server) peer(req sdk.Request) (Peer, error) {
	if extra := req.GetExtra(); extra != nil && extra.TokenInfo != nil {
		if p, ok := extra.TokenInfo.Extra[peerKey].(Peer); ok {
			return p, nil
		}
		return Peer{}, api.NewProblem(api.CodeUnauthorized, "the request carries no credential", "")
	}
	if extra := req.GetExtra(); extra != nil && extra.Header != nil {
		return Peer{}, api.NewProblem(api.CodeUnauthorized, "the request carries no credential", "")
	}
	return Peer{Brig: s.o.Brig}, nil
}

// calls counts requests in flight, so that the end of the input can wait for answers.
type calls struct {
	mu   sync.Mutex
	n    int
	idle chan struct{} // closed when none is left; nil: nobody waits
}

func (c *calls) begin() (end func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.n++
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.n--; c.n == 0 && c.idle != nil {
			close(c.idle)
			c.idle = nil
		}
	}
}

// quiet is closed when no request is in flight.
func (c *calls) quiet() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	done := make(chan struct{})
	if c.n == 0 {
		close(done)
		return done
	}
	if c.idle == nil {
		c.idle = done
	}
	return c.idle
}

// randomName is a name for a session that nobody named.
func randomName() string { return "mcp-" + strings.ToLower(rand.Text()[:10]) }
