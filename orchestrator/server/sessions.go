package server

import (
	"context"
	"net/http"
	"net/url"

	"github.com/danielgtaylor/huma/v2"

	"brig/orchestrator/api"
)

type inOpen struct {
	Body *api.SessionRequest `required:"false"`
}

type outOpen struct {
	Status   int
	Location string `header:"Location" doc:"of the session"`
	Body     api.Session
}

type inRenew struct {
	SessionPart
	Body *api.Renewal `required:"false"`
}

func (s *surface) registerSessions(a huma.API) {
	tags := []string{"sessions"}
	open := huma.Operation{
		OperationID: "open-session", Method: http.MethodPost, Path: "/v1/sessions", Tags: tags, DefaultStatus: http.StatusCreated,
		RequestBody: example(map[string]any{"name": "analysis"}),
		Summary:     "Open a session, or find one by its name",
		Description: "With a name that exists that session is returned, with status 200; what the request asks for besides the name is not held against it.",
		Middlewares: huma.Middlewares{s.whole(smallBody)}, MaxBodyBytes: 2 * smallBody,
	}
	open.Responses = also[api.Session](a, http.StatusOK, "A session of that name exists", "Location")
	add(a, open, anInstance|aSession|aBody, func(ctx context.Context, in *inOpen) (*outOpen, error) {
		var r api.SessionRequest
		if in.Body != nil {
			r = *in.Body
		}
		session, created, err := s.brigOf(ctx).OpenSession(ctx, r)
		if err != nil {
			return nil, err
		}
		out := &outOpen{Status: http.StatusOK, Location: "/v1/sessions/" + url.PathEscape(session.ID), Body: session}
		if created {
			out.Status = http.StatusCreated
		}
		return out, nil
	})
	add(a, huma.Operation{
		OperationID: "list-sessions", Method: http.MethodGet, Path: "/v1/sessions", Tags: tags,
		Summary:     "List sessions",
		Description: "Those that this credential may see.",
	}, 0, func(ctx context.Context, in *PagePart) (*answer[api.SessionList], error) {
		return answered(s.brigOf(ctx).Sessions(ctx, in.page()))
	})
	add(a, huma.Operation{
		OperationID: "get-session", Method: http.MethodGet, Path: "/v1/sessions/{session}", Tags: tags,
		Summary: "Describe a session", Description: "With what its instance takes now and what contains it.",
	}, aSession, func(ctx context.Context, in *SessionPart) (*answer[api.Session], error) {
		return answered(s.brigOf(ctx).Session(ctx, in.Session))
	})
	add(a, huma.Operation{
		OperationID: "close-session", Method: http.MethodDelete, Path: "/v1/sessions/{session}", Tags: tags, DefaultStatus: http.StatusNoContent,
		Summary: "Close a session", Description: "Its run is cancelled, its instance ends, and its workspace is removed.",
	}, aSession, func(ctx context.Context, in *SessionPart) (*none, error) {
		return nil, s.brigOf(ctx).CloseSession(ctx, in.Session)
	})
	add(a, huma.Operation{
		OperationID: "renew-session", Method: http.MethodPost, Path: "/v1/sessions/{session}/renew", Tags: tags,
		Summary: "Keep a session", Description: "Counts as a use, and moves the end of its lifetime where the request says so.",
		Middlewares: huma.Middlewares{s.whole(smallBody)}, MaxBodyBytes: 2 * smallBody,
	}, aSession|aBody, func(ctx context.Context, in *inRenew) (*answer[api.Session], error) {
		var r api.Renewal
		if in.Body != nil {
			r = *in.Body
		}
		return answered(s.brigOf(ctx).RenewSession(ctx, in.Session, r))
	})
	s.registerInterpreter(a, tags)
	add(a, huma.Operation{
		OperationID: "create-session-token", Method: http.MethodPost, Path: "/v1/sessions/{session}/token", Tags: tags, DefaultStatus: http.StatusCreated,
		Summary: "Make a token for one session", Description: "It opens this session and nothing else, and replaces an earlier one. It is told once.",
	}, aSession, func(ctx context.Context, in *SessionPart) (*answer[api.Token], error) {
		return answered(s.brigOf(ctx).SessionToken(ctx, in.Session))
	})
}

type inReset struct {
	SessionPart
	Now bool `query:"now" doc:"interrupt the run that has the interpreter instead of waiting for its end"`
}

// registerInterpreter: what is asked of the interpreter of a session.
func (s *surface) registerInterpreter(a huma.API, tags []string) {
	add(a, huma.Operation{
		OperationID: "reset-session", Method: http.MethodPost, Path: "/v1/sessions/{session}/reset", Tags: tags,
		Summary: "Start the interpreter afresh", Description: "Variables are gone, files and datasets stay. It waits for the runs before it.",
	}, anInstance|aSession, func(ctx context.Context, in *inReset) (*answer[api.Session], error) {
		return answered(s.brigOf(ctx).Reset(ctx, in.Session, api.ResetOptions{Now: in.Now}))
	})
	add(a, huma.Operation{
		OperationID: "interrupt-session", Method: http.MethodPost, Path: "/v1/sessions/{session}/interrupt", Tags: tags, DefaultStatus: http.StatusNoContent,
		Summary: "Interrupt the run that has the interpreter", Description: "As Ctrl-C does; where the code does not listen, its process is ended.",
	}, aSession, func(ctx context.Context, in *SessionPart) (*none, error) {
		return nil, s.brigOf(ctx).Interrupt(ctx, in.Session)
	})
	add(a, huma.Operation{
		OperationID: "list-variables", Method: http.MethodGet, Path: "/v1/sessions/{session}/variables", Tags: tags,
		Summary: "List the variables of the interpreter", Description: "Names, types, shapes and shallow sizes.",
	}, anInstance|aSession, func(ctx context.Context, in *SessionPart) (*answer[api.VariableList], error) {
		return answered(s.brigOf(ctx).Variables(ctx, in.Session))
	})
}
