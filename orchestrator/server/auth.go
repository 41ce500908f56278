package server

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"net/http"
	"strings"

	"brig/orchestrator/api"
	"brig/orchestrator/audit"
	"brig/orchestrator/service"
)

const (
	healthPath = "/healthz"
	loginPath  = "/login"
	// Programs look there for an authority before they have any credential, and take
	// anything but a plain "no" for one.
	wellKnown = "/.well-known/"

	toolsPath = "/mcp"

	maxCredential = 512 // bytes of a header
)

// ids of the credentials that are nobody's in particular.
const (
	operatorID = "operator"
	agentID    = "agent"
	mcpID      = "mcp" // of clients that are to reach the tools of /mcp and nothing else
	nobodyID   = "nobody"
)

// public are the paths that need no credential.
func public(path string) bool {
	return path == healthPath || path == loginPath || strings.HasPrefix(path, wellKnown)
}

// authenticate finds out who asks. A credential that was sent counts, also through
// a socket, where it can only narrow; one that is wrong is never overlooked.
func (q *request) authenticate(r *http.Request) *api.Problem {
	c := q.bearer(r)
	if c == nil && r.Header.Get("Authorization") == "" {
		if c = q.conn.caller(); c == nil {
			c = q.pageCaller(r)
		}
	}
	if c == nil && public(r.URL.Path) && r.Header.Get("Authorization") == "" {
		return nil
	}
	if c == nil {
		return q.unknown(r)
	}
	if c.ID == mcpID && r.URL.Path != toolsPath && !public(r.URL.Path) {
		return api.NewProblem(api.CodeForbidden, "the token of mcp.token is good for /mcp alone", "a program that uses the HTTP API takes agent.token")
	}
	c.Via = q.conn.via()
	c.Approval = api.ApprovedByCredential
	if c.Role == service.Operator {
		c.Approval = api.ApprovedByOperator
	} else if r.Header.Get(api.ViaHeader) == api.ViaMCP {
		c.Via, c.Approval = c.Via+" mcp", api.ApprovedByProfile // which the service holds against the profile
	}
	q.caller = c
	return nil
}

// unknown refuses a credential. Guessing is slowed down, so that neither log nor
// audit fills with it.
func (q *request) unknown(r *http.Request) *api.Problem {
	q.metrics.strangers.Inc()
	sent := "no credential" // which is no guess
	if r.Header.Get("Authorization") != "" {
		sent = "an unknown credential"
		if p := q.limits.strange(); p != nil {
			return p
		}
		q.notice(r.Context(), audit.KindAuth, nobodyID, audit.EventData{Event: "refused", Detail: sent, Values: map[string]string{"request": q.id}})
	}
	return api.NewProblem(api.CodeUnauthorized, sent+" came with the request",
		"send the header Authorization: Bearer and the token of the file agent.token or operator.token in brig's runtime directory, or use a socket there")
}

// bearer is who holds the token that was sent; nil where none was or nobody does.
func (q *request) bearer(r *http.Request) *service.Caller {
	scheme, token, ok := strings.Cut(r.Header.Get("Authorization"), " ")
	token = strings.Trim(token, " ")
	if !ok || !strings.EqualFold(scheme, "Bearer") || token == "" || len(token) > maxCredential {
		return nil
	}
	sum := sha256.Sum256([]byte(token))
	// All are compared, so that the time says nothing about which one it was.
	operator := subtle.ConstantTimeCompare(sum[:], q.tokens.operator[:])
	agent := subtle.ConstantTimeCompare(sum[:], q.tokens.agent[:])
	tools := subtle.ConstantTimeCompare(sum[:], q.tokens.mcp[:])
	switch {
	case operator == 1 && q.conn.from != agentSocket: // which is for agents, whatever they hold
		return &service.Caller{Role: service.Operator, ID: operatorID}
	case agent == 1:
		return &service.Caller{ID: agentID}
	case tools == 1:
		return &service.Caller{ID: mcpID}
	}
	if session, revoked, ok := q.options.Service.Hold(token); ok {
		q.revoked = revoked
		return &service.Caller{ID: "session:" + session, Session: session}
	}
	return nil
}

// noted puts what a check refuses into the audit log: it is how an attempt of a web
// page looks. Attempts beyond a few are only counted.
func (q *request) noted(check func(*http.Request) *api.Problem) func(*http.Request) *api.Problem {
	return func(r *http.Request) *api.Problem {
		p := check(r)
		if p != nil {
			q.metrics.elsewhere.Inc()
			q.notice(r.Context(), audit.KindAuth, nobodyID, audit.EventData{Event: "refused", Detail: p.Detail, Values: map[string]string{"request": q.id}})
		}
		return p
	}
}

// notice notes in the audit log what was refused, as far as there is not too much of
// it. That it cannot is no reason to answer otherwise: nothing was let in.
func (q *request) notice(ctx context.Context, kind audit.Kind, who string, data audit.EventData) {
	if q.options.Audit == nil || !q.limits.noticed.Allow() {
		return
	}
	if _, err := q.options.Audit.Note(ctx, audit.Entry{Kind: kind, Actor: who + " through " + q.conn.via(), Data: data}); err != nil {
		q.options.Log.Error().Str("request", q.id).Err(err).Msg("the audit log takes nothing")
	}
}

// key is what a request is counted under.
func (q *request) key() string {
	if q.caller == nil {
		return nobodyID
	}
	return q.caller.ID
}

// root is whose the credential is, for what is shared by all that one may make itself:
// the sessions' tokens of agents are the agents'.
func (q *request) root() string {
	if q.caller != nil && q.caller.Role == service.Operator {
		return operatorID
	}
	return agentID
}

// operator refuses everybody else.
func (q *request) operatorOnly() *api.Problem {
	if q.caller != nil && q.caller.Role == service.Operator {
		return nil
	}
	return api.NewProblem(api.CodeForbidden, fmt.Sprintf("this is for the operator, and the request came as %s", q.key()),
		"use operator.sock or operator.token in brig's runtime directory")
}
