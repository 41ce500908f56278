package server

import (
	"context"
	"errors"
	"net"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"brig/orchestrator/api"
)

// surface is api.Brig as HTTP: every operation of /v1, and its description.
type surface struct {
	mux       *http.ServeMux
	schemas   huma.Registry
	version   string
	brigOf    func(context.Context) api.Brig         // with the rights of the request's credential
	who       func(context.Context) string           // the credential, for the caps of its streams
	root      func(context.Context) string           // whose that credential is
	requestID func(context.Context) string           // as in the log
	note      func(context.Context, api.Code, error) // tells the log of a problem and its cause
	ending    <-chan struct{}                        // closed when brig ends: streams end then
	beat      time.Duration                          // between two signs of life on a stream
	streams   *streamCaps
}

const (
	defaultBeat = 15 * time.Second

	smallBody = 1 << 20  // bytes of JSON
	runBody   = 48 << 20 // bytes of JSON: 16 MiB of source as JSON strings and files beside it

	maxStreams       = 256 // event streams at a time
	maxStreamsAgents = 192 // of all agents and their sessions' tokens together: the rest is the operator's
	maxStreamsPerWho = 64  // of one credential
)

// newSurface fills in what the options leave open.
func newSurface(s surface) *surface {
	if s.who == nil {
		s.who = func(context.Context) string { return "" }
	}
	if s.root == nil {
		s.root = func(context.Context) string { return operatorID }
	}
	if s.requestID == nil {
		s.requestID = func(context.Context) string { return "" }
	}
	if s.note == nil {
		s.note = func(context.Context, api.Code, error) {}
	}
	if s.beat == 0 {
		s.beat = defaultBeat
	}
	if s.streams == nil {
		s.streams = &streamCaps{total: maxStreams, agents: maxStreamsAgents, each: maxStreamsPerWho, of: map[string]int{}}
	}
	return &s
}

// mount puts every operation and the description of all into mux.
func (s *surface) mount(mux *http.ServeMux) (*huma.OpenAPI, error) {
	s.mux = mux
	a := humago.New(mux, s.config())
	s.schemas = a.OpenAPI().Components.Schemas
	a.UseMiddleware(goneIsNoFault, s.strict)
	s.register(a)
	doc := a.OpenAPI()
	finish(doc)
	if err := serveDescription(mux, doc); err != nil {
		return nil, err
	}
	return doc, nil
}

// goneIsNoFault makes an abort of huma's panic about an answer that nobody reads.
func goneIsNoFault(ctx huma.Context, next func(huma.Context)) {
	defer func() {
		fault := recover()
		var network net.Error
		if err, ok := fault.(error); ok && (errors.As(err, &network) || errors.Is(err, net.ErrClosed)) {
			panic(http.ErrAbortHandler)
		}
		if fault != nil {
			panic(fault)
		}
	}()
	next(ctx)
}

func (s *surface) register(a huma.API) {
	s.registerStatus(a)
	s.registerSessions(a)
	s.registerRuns(a)
	s.registerEvents(a)
	s.registerFiles(a)
	s.registerArchive(a)
	s.registerDatasets(a)
	s.registerSelftest(a)
	s.registerOps(a)
}

// add registers one operation that touches these things.
func add[I, O any](a huma.API, op huma.Operation, t touches, h func(context.Context, *I) (*O, error)) {
	if op.Responses == nil {
		op.Responses = map[string]*huma.Response{}
	}
	documentProblems(a, &op, t)
	op.Security = []map[string][]string{{"bearer": {}}}
	op.RejectUnknownQueryParameters = true
	op.BodyReadTimeout = -1 // whole has read it before huma does
	huma.Register(a, op, func(ctx context.Context, in *I) (*O, error) {
		out, err := h(ctx, in)
		if err != nil {
			return nil, failure{asProblem(ctx, err)}
		}
		return out, nil
	})
}

// onlyGet keeps the mux from sending other methods of path on to what is below it.
func (s *surface) onlyGet(path string) {
	s.mux.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Allow", "GET, HEAD")
		s.fail(w, r, api.NewProblem(api.CodeMethod, "this path takes GET, HEAD", ""))
	})
}

// Parts of requests. Their names are exported because huma overlooks embedded
// types whose are not.

// SessionPart names the session.
type SessionPart struct {
	Session string `path:"session" minLength:"1" maxLength:"128" doc:"id or name of the session" example:"analysis"`
}

// RunPart names the run.
type RunPart struct {
	Run string `path:"run" minLength:"1" maxLength:"128" doc:"id of the run"`
}

// PagePart asks for one page of a list.
type PagePart struct {
	Limit  int    `query:"limit" minimum:"1" maximum:"1000" default:"100" doc:"entries of one page"`
	Cursor string `query:"cursor" maxLength:"1024" doc:"next of the page before; without it: the first page"`
}

func (p PagePart) page() api.Page { return api.Page{Limit: p.Limit, Cursor: p.Cursor} }

// none is a request or an answer without parts.
type none struct{}

// answer is a JSON body.
type answer[T any] struct {
	Body T
}

func answered[T any](body T, err error) (*answer[T], error) {
	if err != nil {
		return nil, err
	}
	return &answer[T]{Body: body}, nil
}
