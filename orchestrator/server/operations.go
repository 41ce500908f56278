package server

import (
	"context"

	"brig/orchestrator/api"
	"brig/orchestrator/audit"
)

// operations puts what a caller may ask into the mux, as huma operations.
func (s *Server) operations() error {
	_, err := newSurface(surface{
		version: s.options.Version, brigOf: s.brig, requestID: RequestID, note: s.noteProblem, ending: s.draining,
		who: func(ctx context.Context) string {
			c, _ := CallerFrom(ctx)
			return c.ID
		},
		root: func(ctx context.Context) string {
			q, _ := ctx.Value(requestKey{}).(*request)
			return q.root()
		},
	}).mount(s.mux)
	return err
}

// noteProblem puts the code into the request's line of the log, and a fault's cause
// into one of its own: the client is not told it.
func (s *Server) noteProblem(ctx context.Context, code api.Code, cause error) {
	q, _ := ctx.Value(requestKey{}).(*request)
	if q == nil {
		return
	}
	q.code = code
	if code == api.CodeForbidden { // as every refusal: who tried what, within the same bound
		detail := "a request that this credential may not make"
		if cause != nil {
			detail = cause.Error()
		}
		q.notice(ctx, audit.KindAuth, q.key(), audit.EventData{Event: "refused", Detail: detail, Values: map[string]string{"request": q.id, "route": q.route}})
	}
	if code == api.CodeInternal {
		s.options.Log.Error().Str("request", q.id).Err(cause).Msg("a request met a fault")
	}
}
