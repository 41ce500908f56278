package server

import (
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"brig/orchestrator/api"
)

// touches says what an operation has to do with, and so which problems it can meet
// beside those of every operation.
type touches uint

const (
	aBody touches = 1 << iota
	aSession
	anInstance // it may have to be started
	aFile
	aStream
	aRun
	aRange
)

func (t touches) codes() []api.Code {
	codes := []api.Code{
		api.CodeMalformed, api.CodeUnauthorized, api.CodeForbidden, api.CodeNotFound, api.CodeTooSlow, api.CodeHost, api.CodeInvalid,
		api.CodeRate, api.CodeTooMany, api.CodeHeader, api.CodeInternal, api.CodeStorage, api.CodeShuttingDown, api.CodeDeadline,
	}
	for _, more := range []struct {
		of    touches
		codes []api.Code
	}{
		{aBody, []api.Code{api.CodeTooLarge, api.CodeMedia}},
		{aSession, []api.Code{api.CodeConflict, api.CodeNameTaken, api.CodeNotRunning, api.CodeGone}},
		{anInstance, []api.Code{api.CodeConflict, api.CodeBusy, api.CodeRefused, api.CodeBackendLost, api.CodeQuota}},
		{aFile, []api.Code{api.CodeConflict, api.CodePrecondition, api.CodeTooLarge, api.CodeUnusable, api.CodeQuota}},
		{aRange, []api.Code{api.CodeRange}},
		{aRun, []api.Code{api.CodeKeyInUse, api.CodeKeyReused, api.CodeNotRunning, api.CodeGone, api.CodeUnusable, api.CodeQuota}},
	} {
		if t&more.of != 0 {
			codes = append(codes, more.codes...)
		}
	}
	return codes
}

// documentProblems adds to op a response for every problem that it can answer with.
func documentProblems(a huma.API, op *huma.Operation, t touches) {
	schema := a.OpenAPI().Components.Schemas.Schema(reflect.TypeFor[api.Problem](), true, "")
	byStatus := map[int][]string{}
	for _, c := range t.codes() {
		status := api.NewProblem(c, "", "").Status
		if !slices.Contains(byStatus[status], string(c)) {
			byStatus[status] = append(byStatus[status], string(c))
		}
	}
	for status, codes := range byStatus {
		op.Responses[strconv.Itoa(status)] = &huma.Response{
			Description: fmt.Sprintf("%s: code %s", http.StatusText(status), strings.Join(codes, ", ")),
			Content:     map[string]*huma.MediaType{api.ProblemType: {Schema: schema}},
		}
	}
}

// also is a second success beside an operation's usual one.
func also[T any](a huma.API, status int, about string, headers ...string) map[string]*huma.Response {
	r := &huma.Response{
		Description: about, Headers: map[string]*huma.Param{},
		Content: map[string]*huma.MediaType{"application/json": {Schema: a.OpenAPI().Components.Schemas.Schema(reflect.TypeFor[T](), true, "")}},
	}
	for _, h := range headers {
		r.Headers[h] = &huma.Param{Schema: &huma.Schema{Type: huma.TypeString}}
	}
	return map[string]*huma.Response{strconv.Itoa(status): r}
}

// events documents a stream of them; the schema is of one event.
func events() map[string]*huma.Response {
	text := func(about string) *huma.Schema { return &huma.Schema{Type: huma.TypeString, Description: about} }
	return map[string]*huma.Response{"200": {
		Description: "Server-sent events",
		Content: map[string]*huma.MediaType{eventStream: {Schema: &huma.Schema{
			Type: huma.TypeObject, Description: "one event",
			Properties: map[string]*huma.Schema{
				"id": text("the event's number; none for reset and problem"), "event": text("its kind"), "data": text("a whole Event as JSON"), "retry": {Type: huma.TypeInteger},
			},
		}}},
	}}
}

// example is a body of JSON to begin with.
func example(v any) *huma.RequestBody {
	return &huma.RequestBody{Content: map[string]*huma.MediaType{"application/json": {Example: v}}}
}

// bytesOf documents an answer that is no JSON.
func bytesOf(about string, types ...string) *huma.Response {
	r := &huma.Response{Description: about, Headers: map[string]*huma.Param{}, Content: map[string]*huma.MediaType{}}
	for _, t := range types {
		r.Content[t] = &huma.MediaType{Schema: &huma.Schema{Type: huma.TypeString, Format: "binary"}}
		if strings.HasSuffix(t, "+json") {
			r.Content[t].Schema = &huma.Schema{Type: huma.TypeObject}
		}
	}
	return r
}

func (s *surface) config() huma.Config {
	jsonFormat := huma.DefaultJSONFormat
	return huma.Config{
		OpenAPI: &huma.OpenAPI{
			OpenAPI: "3.1.0",
			Info: &huma.Info{
				Title: "brig", Version: s.version,
				Description: "Runs the code that agents write, each session in a sandbox of its own, and says on every result what really contained it. " +
					"Names of members carry their unit; times are RFC 3339 in UTC; lists are bounded and have a cursor; every error is a problem (RFC 9457) with a stable code.",
				License: &huma.License{Name: "Apache-2.0", Identifier: "Apache-2.0"},
			},
			Servers: []*huma.Server{{URL: "/", Description: "this brig"}},
			Components: &huma.Components{
				Schemas: huma.NewMapRegistry("#/components/schemas/", huma.DefaultSchemaNamer),
				SecuritySchemes: map[string]*huma.SecurityScheme{
					"bearer": {Type: "http", Scheme: "bearer", Description: "On TCP: the content of agent.token or operator.token in brig's runtime directory, or the token of one session. On a socket a session's token narrows what may be done."},
				},
			},
			Tags: []*huma.Tag{
				{Name: "status", Description: "Where code would run now"},
				{Name: "sessions", Description: "Live interpreters, each with a workspace"},
				{Name: "runs", Description: "Executions of code"},
				{Name: "events", Description: "Server-sent events: id, event and a whole Event as data; a comment every 15 s; resumed by Last-Event-ID"},
				{Name: "files", Description: "The workspace of a session"},
				{Name: "datasets", Description: "Files that the interpreter finds as tables"},
				{Name: "selftest", Description: "Forbidden operations, really attempted"},
				{Name: "operator", Description: "For the operator's credential alone"},
			},
		},
		Formats:                      map[string]huma.Format{"application/json": jsonFormat, "json": jsonFormat},
		DefaultFormat:                "application/json",
		RejectUnknownQueryParameters: true,
		Transformers:                 []huma.Transformer{s.scrub},
	}
}

// finish makes of what huma gathered what is published.
func finish(doc *huma.OpenAPI) {
	for path, item := range doc.Paths {
		if plain := strings.ReplaceAll(path, "...}", "}"); plain != path { // the mux's word for the rest of a path
			delete(doc.Paths, path)
			doc.Paths[plain] = item
		}
	}
	link(doc)
	for _, unused := range []string{"ErrorModel", "ErrorDetail"} { // huma's own form of an error, which nobody gets
		delete(doc.Components.Schemas.Map(), unused)
	}
}
