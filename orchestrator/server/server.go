package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"brig/orchestrator/api"
	"brig/orchestrator/audit"
	"brig/orchestrator/config"
	"brig/orchestrator/service"
)

const (
	headerBound   = 5 * time.Second   // for the header of a request
	idleBound     = 120 * time.Second // between two requests of a connection
	headerBytes   = 16 << 10
	drainedBound  = 2 * time.Second // for answers to leave after everything was told to end
	retryDraining = 5               // seconds, what a client is told while brig ends
)

// Options of New. Service, Paths, Listen and Version are required.
type Options struct {
	Service *service.Service
	Paths   config.Paths // sockets, tokens and where it listens are told below Runtime
	// Listen is server.listen: a loopback address with a port, or "none" for sockets only.
	Listen string
	// Free says that any other free port will do where that of Listen is taken.
	Free    bool
	Version string
	Log     zerolog.Logger
	// MCP makes the handler of /mcp; peer is who sent a request, and
	// what that one may ask. nil: there is none.
	MCP func(peer func(*http.Request) (service.Caller, api.Brig, error)) http.Handler
	// Audit gets what a reviewer has to see: refused credentials and logins. nil: nothing does.
	Audit *audit.Log
}

// Server listens, once Listen was called. Its methods may be called concurrently.
type Server struct {
	options Options
	mux     *http.ServeMux
	handler http.Handler
	tokens  *tokens
	logins  *logins
	limits  *limits
	metrics *metrics
	http    *http.Server

	writeGap, bodyGap time.Duration    // for a piece of an answer, and of a body
	room              func(from) int64 // connections of a listener

	life     context.Context // of requests; ends when Shutdown cannot wait any longer
	end      context.CancelFunc
	draining chan struct{} // closed when streams have to end and nothing new is taken
	drain    sync.Once

	mu        sync.Mutex
	listeners []*listener // guarded by mu, as all below
	bound     string
}

// New puts the handlers together. Nothing listens yet.
func New(o Options) (*Server, error) {
	if o.Service == nil || o.Paths.Runtime == "" || o.Listen == "" || o.Version == "" {
		return nil, errors.New("make the server: it needs a service, a runtime directory, where to listen and a version")
	}
	s := &Server{
		options: o, mux: http.NewServeMux(), draining: make(chan struct{}),
		tokens: newTokens(), logins: newLogins(), limits: newLimits(), writeGap: writeGap, bodyGap: bodyGap, room: roomOf,
	}
	s.life, s.end = context.WithCancel(context.Background())
	s.metrics = newMetrics(s)
	if err := s.routes(); err != nil {
		return nil, fmt.Errorf("make the server: %w", err)
	}
	s.handler = s.chain()
	s.http = &http.Server{
		Handler:           s.handler,
		ReadHeaderTimeout: headerBound, IdleTimeout: idleBound, MaxHeaderBytes: headerBytes,
		// No WriteTimeout: it would cut long runs. Each write has a deadline; see conn.
		BaseContext: func(net.Listener) context.Context { return s.life },
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			return context.WithValue(ctx, connKey{}, c)
		},
		ConnState:                    settled,
		DisableGeneralOptionsHandler: true,
		ErrorLog:                     quiet(o.Log),
	}
	return s, nil
}

// routes puts everything into the mux that is served behind the chain.
func (s *Server) routes() error {
	s.mux.HandleFunc("GET /healthz", s.health)
	s.mux.HandleFunc("GET "+loginPath, s.login)
	s.mux.HandleFunc("HEAD "+loginPath, s.noLogin) // which the line above would mean too
	s.mux.Handle("GET /metrics", s.metrics.handler())
	s.profiles()
	if s.options.MCP != nil {
		s.mux.Handle(toolsPath, s.options.MCP(s.peerOfTools))
	}
	return s.operations()
}

// brig is what a request may ask, with the rights of who sent it.
func (s *Server) brig(ctx context.Context) api.Brig {
	c, _ := CallerFrom(ctx)
	return s.options.Service.As(c)
}

// peerOfTools is who sent a request to the MCP handler. Runs of agents are stamped
// with the profile, without which the tool that runs code is not offered.
func (s *Server) peerOfTools(r *http.Request) (service.Caller, api.Brig, error) {
	c, ok := CallerFrom(r.Context())
	if !ok {
		return c, nil, api.NewProblem(api.CodeUnauthorized, "the request has no credential", "")
	}
	c.Via += " mcp"
	if c.Role == service.Agent {
		c.Approval = api.ApprovedByProfile
	}
	return c, s.options.Service.As(c), nil
}

// Draining is closed when streams have to end because brig does.
func (s *Server) Draining() <-chan struct{} { return s.draining }

// Drain refuses what is new from now on and ends the event streams. Requests under
// way go on. It is idempotent.
func (s *Server) Drain() { s.drain.Do(func() { close(s.draining) }) }

func (s *Server) isDraining() bool {
	select {
	case <-s.draining:
		return true
	default:
		return false
	}
}

// Shutdown drains, waits for requests under way until ctx ends, cancels the rest,
// and removes sockets and tokens. It is idempotent.
func (s *Server) Shutdown(ctx context.Context) error {
	s.Drain()
	err := s.http.Shutdown(ctx)
	if err != nil { // some did not end in time
		s.end()
		last, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainedBound)
		defer cancel()
		if err = s.http.Shutdown(last); err != nil {
			err = errors.Join(fmt.Errorf("wait for requests under way: %w", err), s.http.Close())
		}
	}
	s.end()
	return errors.Join(err, s.unlisten())
}
