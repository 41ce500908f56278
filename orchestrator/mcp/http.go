package mcp

import (
	"context"
	"net/http"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"brig/orchestrator/api"
)

const (
	// maxBody bounds one request; larger files go through the HTTP API.
	maxBody = 16 << 20
	// maxSessions bounds MCP sessions that are open at the same time; each costs some
	// memory until its client says goodbye or says nothing for sessionIdle.
	maxSessions = 256
	// maxSessionsAgents are those of all agents together: the rest is the operator's.
	maxSessionsAgents = 192
	maxSessionsEach   = 48 // of one agent's credential
	sessionIdle       = time.Hour

	versionHeader = "Mcp-Protocol-Version"
	sessionHeader = "Mcp-Session-Id"
	peerKey       = "brig"
)

// handler serves both ways on one path: the revision without sessions cannot be
// served by a handler that keeps them, and the older ones need one that does.
type handler struct {
	s                   *Server
	seats               seats
	peer                func(*http.Request) (Peer, error)
	stateful, stateless http.Handler
}

// Handler serves MCP over HTTP. peer names the caller of each request, which was
// authenticated before; its error refuses the request. Host, origin and rate are
// the listener's business.
func (s *Server) Handler(peer func(*http.Request) (Peer, error)) http.Handler {
	server := func(*http.Request) *sdk.Server { return s.sdk }
	return &handler{
		s: s, peer: peer,
		stateful: own(sdk.NewStreamableHTTPHandler(server, &sdk.StreamableHTTPOptions{
			SessionTimeout: sessionIdle, MaxRequestBodyBytes: maxBody,
		})),
		// There the POST is all there is of a request: when it is closed, nobody can be answered.
		stateless: own(sdk.NewStreamableHTTPHandler(server, &sdk.StreamableHTTPOptions{
			Stateless: true, PropagateRequestCancellation: true, MaxRequestBodyBytes: maxBody,
		})),
	}
}

type peerContext struct{}

// own binds what comes to the caller: the SDK keeps the UserID with an MCP session
// and refuses the requests of others in it, and hands the peer to the tools.
func own(next http.Handler) http.Handler {
	return auth.RequireBearerToken(func(ctx context.Context, _ string, _ *http.Request) (*auth.TokenInfo, error) {
		p, ok := ctx.Value(peerContext{}).(Peer)
		if !ok {
			return nil, auth.ErrInvalidToken
		}
		return &auth.TokenInfo{UserID: p.ID, Extra: map[string]any{peerKey: p}}, nil
	}, &auth.RequireBearerTokenOptions{AllowMissingExpiration: true})(next)
}

func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p, err := h.peer(r)
	if err != nil || p.Brig == nil || p.ID == "" {
		refuse(w, api.NewProblem(api.CodeUnauthorized, "the request carries no credential", ""))
		return
	}
	plain := &problems{ResponseWriter: w}
	defer plain.end()
	w = plain
	r = r.Clone(context.WithValue(r.Context(), peerContext{}, p))
	// The caller is known; the SDK sees neither token nor cookie.
	r.Header.Set("Authorization", "Bearer known")
	r.Header.Del("Cookie")
	id := r.Header.Get(sessionHeader)
	if r.Method == http.MethodPost && id == "" {
		// Before there is a session: it must not be told of a change to a list that it has not seen.
		_ = h.s.offer.refresh(r.Context(), fresh)
	}
	if r.Header.Get(versionHeader) >= statelessSince {
		h.stateless.ServeHTTP(w, r)
		return
	}
	if id == "" && r.Method == http.MethodPost {
		settle, ok := h.seats.take(h.s.sdk.Sessions(), p)
		if !ok {
			told := api.NewProblem(api.CodeTooMany, "too many MCP sessions are open", "end one, or use a later revision of the protocol, which has none")
			told.RetryAfter = 60
			refuse(w, told)
			return
		}
		defer func() { settle(w.Header().Get(sessionHeader)) }()
	}
	if r.Method != http.MethodDelete || id == "" {
		h.stateful.ServeHTTP(w, r)
		return
	}
	// It is looked up before: when the MCP session has ended nobody knows it any more.
	home := h.s.homes.find("session " + id)
	said := &status{ResponseWriter: w}
	h.stateful.ServeHTTP(said, r)
	if said.code == http.StatusNoContent && home != nil {
		h.s.homes.end(home)
	}
}

// status remembers what a handler answered.
type status struct {
	http.ResponseWriter
	code int
}

func (s *status) WriteHeader(code int) {
	s.code = code
	s.ResponseWriter.WriteHeader(code)
}

func (s *status) Unwrap() http.ResponseWriter { return s.ResponseWriter }
