package server

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/danielgtaylor/huma/v2"

	"brig/orchestrator/api"
)

// failure is a problem in the form that huma passes on: with status, media type
// and headers.
type failure struct {
	*api.Problem
}

func (f failure) GetStatus() int            { return f.Status }
func (f failure) ContentType(string) string { return api.ProblemType }
func (f failure) Unwrap() error             { return f.Problem }

func (f failure) GetHeaders() http.Header { return problemHeaders(f.Problem) }

func problemHeaders(p *api.Problem) http.Header {
	h := http.Header{}
	if p.RetryAfter > 0 {
		h.Set("Retry-After", strconv.Itoa(p.RetryAfter))
	}
	return h
}

// asProblem makes a problem of any error. What is not one already is a fault of
// brig, whose text is for the log and not for the caller.
func asProblem(ctx context.Context, err error) *api.Problem {
	var p *api.Problem
	switch {
	case errors.As(err, &p):
		if p.Status < 400 || p.Status > 599 { // the client's own codes say nothing in an answer
			return api.NewProblem(api.CodeBackendLost, p.Detail, p.Remedy)
		}
		return p
	case errors.Is(err, context.DeadlineExceeded):
		return api.NewProblem(api.CodeDeadline, "it took longer than is allowed", "try again")
	case errors.Is(err, context.Canceled) && ctx.Err() != nil:
		return api.NewProblem(api.CodeDeadline, "the request was given up", "")
	default:
		return api.NewProblem(api.CodeInternal, "brig met a fault; its log has more", "look for the request's id in brig's log")
	}
}

// fail answers with a problem where huma has no part.
func (s *surface) fail(w http.ResponseWriter, r *http.Request, err error) {
	p := s.stamped(r.Context(), asProblem(r.Context(), err), err)
	for _, name := range []string{"ETag", "Content-Disposition", "Last-Modified"} {
		w.Header().Del(name)
	}
	for k, v := range problemHeaders(p) {
		w.Header()[k] = v
	}
	writeAs(w, r, api.ProblemType, p.Status, p)
}

// writeAs answers with v as JSON. Who is gone needs no answer: an error of the
// connection is nobody's.
func writeAs(w http.ResponseWriter, r *http.Request, kind string, status int, v any) {
	w.Header().Set("Content-Type", kind)
	w.WriteHeader(status)
	if r.Method == http.MethodHead {
		return
	}
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(v)
}

// stamped is p with the request's id, and the log is told.
func (s *surface) stamped(ctx context.Context, p *api.Problem, cause error) *api.Problem {
	s.note(ctx, p.Code, cause)
	stamped := *p
	if stamped.Instance == "" {
		stamped.Instance = s.requestID(ctx)
	}
	return &stamped
}

// scrub turns what huma says of a request into a problem without the values that it
// would repeat.
func (s *surface) scrub(ctx huma.Context, _ string, v any) (any, error) {
	switch e := v.(type) {
	case failure:
		return s.stamped(ctx.Context(), e.Problem, e), nil
	case *huma.ErrorModel:
		return s.stamped(ctx.Context(), fromHuma(e), errors.New(e.Detail)), nil
	default:
		return v, nil
	}
}

// statusCode is the kind of a problem that huma itself finds.
func statusCode(status int) api.Code {
	switch status {
	case http.StatusBadRequest:
		return api.CodeMalformed
	case http.StatusNotAcceptable:
		return api.CodeNotAccepted
	case http.StatusRequestTimeout:
		return api.CodeTooSlow
	case http.StatusRequestEntityTooLarge:
		return api.CodeTooLarge
	case http.StatusUnsupportedMediaType:
		return api.CodeMedia
	case http.StatusUnprocessableEntity:
		return api.CodeInvalid
	default:
		return api.CodeInternal
	}
}

// maxFieldErrors and maxLocation bound an answer whose size a request decides.
const (
	maxFieldErrors = 20
	maxLocation    = 120 // bytes
)

func fromHuma(e *huma.ErrorModel) *api.Problem {
	p := api.NewProblem(statusCode(e.Status), "the request is not valid", "compare it with /openapi.json")
	switch p.Code {
	case api.CodeInternal:
		p.Detail, p.Remedy = "brig met a fault; its log has more", "look for the request's id in brig's log"
	case api.CodeMalformed:
		p.Detail = "the body is missing or is not JSON"
	case api.CodeTooLarge:
		p.Detail = "the body is too large"
	}
	for _, d := range e.Errors {
		if d == nil || len(p.Errors) == maxFieldErrors {
			break
		}
		message := d.Message
		if strings.HasPrefix(message, "json: ") { // names Go types, and sometimes values
			message = "not of the type that belongs there"
		}
		p.Errors = append(p.Errors, api.FieldError{Location: plain(d.Location, maxLocation), Message: plain(message, 300)})
	}
	slices.SortStableFunc(p.Errors, func(a, b api.FieldError) int { return strings.Compare(a.Location, b.Location) })
	return p
}

// plain is s without what a terminal could take for a command, at most limit bytes long.
func plain(s string, limit int) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	s = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return '\uFFFD'
		}
		return r
	}, s)
	if len(s) <= limit {
		return s
	}
	return strings.ToValidUTF8(s[:limit], "") + "…"
}
