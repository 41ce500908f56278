package server

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"runtime/debug"
	"strconv"
	"time"

	"brig/orchestrator/api"
	"brig/orchestrator/service"
)

type (
	requestKey struct{}
	connKey    struct{}
)

// RequestIDHeader is on every answer; the id is also in the log and in problems.
const RequestIDHeader = "X-Request-ID"

// request is one request on its way through the chain.
type request struct {
	*Server
	conn   *conn
	id     string
	begun  time.Time
	caller *service.Caller // nil: nobody was asked for
	// revoked is closed when the token that came with it counts no more; nil: never.
	revoked <-chan struct{}
	route   string   // pattern of the mux
	code    api.Code // why it was refused
}

// newID is a request's id. It is ours alone: what a client sends is not taken up.
func newID() string {
	var b [8]byte
	rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

// CallerFrom is who sent the request; ok is false where nobody has to say.
func CallerFrom(ctx context.Context) (c service.Caller, ok bool) {
	q, _ := ctx.Value(requestKey{}).(*request)
	if q == nil || q.caller == nil {
		return service.Caller{}, false
	}
	return *q.caller, true
}

// RequestID is the request's id, as in the log; empty outside of a request.
func RequestID(ctx context.Context) string {
	if q, _ := ctx.Value(requestKey{}).(*request); q != nil {
		return q.id
	}
	return ""
}

// headers are on every answer. A page of brig's may load what brig serves and
// nothing else; nobody else may embed, frame or keep anything.
func (q *request) headers(w http.ResponseWriter) {
	h := w.Header()
	h.Set(api.VersionHeader, q.options.Version)
	h.Set(RequestIDHeader, q.id)
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'self'")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("X-Content-Type-Options", "nosniff")
}

// refuse answers with a problem. What the client still sends is not waited for.
func (q *request) refuse(w http.ResponseWriter, r *http.Request, p *api.Problem) {
	q.code = p.Code
	told := *p
	told.Instance = q.id
	text, err := json.Marshal(told)
	if err != nil {
		panic(fmt.Sprintf("BUG: a problem cannot be written: %v", err))
	}
	h := w.Header()
	for _, name := range []string{"ETag", "Content-Encoding", "Content-Range", "Content-Disposition", "Last-Modified"} {
		h.Del(name)
	}
	h.Set("Content-Type", api.ProblemType)
	h.Set("Content-Length", strconv.Itoa(len(text)))
	if p.RetryAfter > 0 {
		h.Set("Retry-After", strconv.Itoa(p.RetryAfter))
	}
	switch p.Code {
	case api.CodeUnauthorized:
		h.Set("WWW-Authenticate", `Bearer realm="brig"`)
		h.Set("Connection", "close") // a stranger holds no connection
	case api.CodeShuttingDown, api.CodeTooMany, api.CodeHost:
		h.Set("Connection", "close")
	}
	w.WriteHeader(p.Status)
	if r.Method != http.MethodHead {
		_, _ = w.Write(text) // a client that has gone needs no answer
	}
}

// settle ends a request: a panic becomes a problem, or a broken connection where
// the answer had begun, and the log and the metrics are told.
func (q *request) settle(w *writer, r *http.Request) {
	fault := recover()
	abort := fault == http.ErrAbortHandler
	if fault != nil && !abort {
		q.options.Log.Error().Str("request", q.id).Str("fault", fmt.Sprint(fault)).Str("stack", string(debug.Stack())).Msg("a request met a fault of brig")
		if abort = w.status != 0; !abort {
			q.refuse(w, r, api.NewProblem(api.CodeInternal, "brig met a fault of its own", "brig doctor"))
		}
	}
	q.metrics.observe(q, w, r)
	q.log(w, r)
	if abort {
		panic(http.ErrAbortHandler)
	}
}
