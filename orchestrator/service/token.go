package service

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"strings"
	"time"

	"brig/orchestrator/api"
	"brig/orchestrator/audit"
	"brig/orchestrator/store"
)

// tokenPrefix begins every session's token, so that a leaked one is recognised.
const tokenPrefix = "brig_session_"

// SessionToken makes a credential for one session; only its hash is kept. An earlier
// one of the session counts no more, and what is under way with it ends.
func (v *view) SessionToken(ctx context.Context, session string) (api.Token, error) {
	x, err := v.find(ctx, session)
	if err != nil {
		return api.Token{}, err
	}
	if v.c.Session != "" {
		return api.Token{}, api.NewProblem(api.CodeForbidden, "a session's own credential makes no others", "")
	}
	var secret [32]byte
	rand.Read(secret[:]) // never fails: it ends the program instead
	token := tokenPrefix + base64.RawURLEncoding.EncodeToString(secret[:])
	hash := sha256.Sum256([]byte(token))
	x.token.Lock()
	defer x.token.Unlock()
	if err := v.s.append(ctx, audit.KindToken, v.actor(), audit.EventData{Event: "made", Session: x.id}); err != nil {
		return api.Token{}, err
	}
	if err := v.s.options.Store.PutToken(ctx, store.Token{Session: x.id, Hash: hash, Created: time.Now()}); err != nil {
		if x.closing() {
			return api.Token{}, api.NewProblem(api.CodeGone, "the session is closed", "brig session list")
		}
		return api.Token{}, v.s.storage(ctx, err)
	}
	v.s.mu.Lock()
	defer v.s.mu.Unlock()
	if v.s.sessions[x.id] == x {
		v.s.revoke(x.id)
		v.s.tokens[x.id] = hash
	}
	return api.Token{Token: token, Scope: "session", Session: x.id}, nil
}

// SessionOf tells which session a bearer token is for. Only hashes are compared, and
// all of them, whichever it is.
func (s *Service) SessionOf(token string) (session string, ok bool) {
	session, _, ok = s.Hold(token)
	return session, ok
}

// Hold is SessionOf for who does something with the token that takes its time: when
// revoked is closed the token counts no more, because another was made or the session
// is gone.
func (s *Service) Hold(token string) (session string, revoked <-chan struct{}, ok bool) {
	if !strings.HasPrefix(token, tokenPrefix) {
		return "", nil, false
	}
	hash := sha256.Sum256([]byte(token))
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, known := range s.tokens {
		if subtle.ConstantTimeCompare(hash[:], known[:]) == 1 {
			session, ok = id, true
		}
	}
	if !ok {
		return "", nil, false
	}
	c := s.holds[session]
	if c == nil {
		c = make(chan struct{})
		s.holds[session] = c
	}
	return session, c, true
}

// revoke ends what is done with a session's token; the caller holds mu.
func (s *Service) revoke(session string) {
	if c := s.holds[session]; c != nil {
		close(c)
		delete(s.holds, session)
	}
}

func (x *session) closing() bool {
	select {
	case <-x.live.Gone():
		return true
	default:
		return x.live.Reason() != ""
	}
}
