package server

import (
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"brig/orchestrator/api"
)

// whole reads a JSON body of at most limit bytes before huma does, which would take one
// of any type and encoding, and answer to one that breaks off with a fault of brig.
func (s *surface) whole(limit int64) func(huma.Context, func(huma.Context)) {
	return func(ctx huma.Context, next func(huma.Context)) {
		r, w := humago.Unwrap(ctx)
		body, err := readWhole(r, limit)
		if err != nil {
			s.fail(w, r, err)
			return
		}
		if wrong := strictKeys(body, ctx.Operation().RequestBody.Content["application/json"].Schema, s.schemas); wrong != nil {
			p := api.NewProblem(api.CodeInvalid, "the request is not valid", "compare it with /openapi.json")
			p.Errors = wrong
			s.fail(w, r, p)
			return
		}
		next(&withBody{asked: ctx, body: body})
	}
}

// asked is huma's context under a name that is none of its methods.
type asked huma.Context

// withBody is a request whose body was read.
type withBody struct {
	asked
	body string
}

func (c *withBody) BodyReader() io.Reader           { return strings.NewReader(c.body) }
func (c *withBody) SetReadDeadline(time.Time) error { return nil }
func (c *withBody) Unwrap() huma.Context            { return c.asked }

func readWhole(r *http.Request, limit int64) (string, error) {
	if r.ContentLength > limit {
		return "", tooLarge(limit)
	}
	if err := identity(r); err != nil {
		return "", err
	}
	var all strings.Builder
	if r.ContentLength > 0 {
		all.Grow(int(r.ContentLength))
	}
	n, err := io.Copy(&all, io.LimitReader(r.Body, limit+1))
	switch {
	case err != nil:
		return "", bodyProblem(err)
	case n > limit:
		return "", tooLarge(limit)
	case n == 0:
		return "", nil
	}
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		return "", api.NewProblem(api.CodeMedia, "the body has to be application/json", "send the header Content-Type: application/json")
	}
	if !utf8.ValidString(all.String()) {
		return "", api.NewProblem(api.CodeMalformed, "the body is not UTF-8", "send JSON in UTF-8")
	}
	return all.String(), nil
}

// identity refuses bodies that are packed once more.
func identity(r *http.Request) error {
	if e := r.Header.Get("Content-Encoding"); e != "" && !strings.EqualFold(e, "identity") {
		return api.NewProblem(api.CodeMedia, "bodies have to come without a Content-Encoding", "send the bytes as they are")
	}
	return nil
}

func tooLarge(limit int64) error {
	return api.NewProblem(api.CodeTooLarge, fmt.Sprintf("the body may have %d bytes at most", limit), "upload large files by PUT …/files/{path}")
}

// bodyProblem says why a body did not come.
func bodyProblem(err error) error {
	var p *api.Problem
	var network net.Error
	var tooMany *http.MaxBytesError
	switch {
	case errors.As(err, &p):
		return p
	case errors.As(err, &tooMany):
		return tooLarge(tooMany.Limit)
	case errors.As(err, &network) && network.Timeout():
		return api.NewProblem(api.CodeTooSlow, "the body came too slowly", "send it again")
	default:
		return api.NewProblem(api.CodeMalformed, "the body broke off", "send it again")
	}
}
