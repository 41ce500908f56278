package server

import (
	"context"
	"net/http"
	"net/url"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"brig/orchestrator/api"
)

// RunPostPart is what both ways to run code share.
type RunPostPart struct {
	KeyPart
	PreferPart
	Accept string `header:"Accept" maxLength:"1024" doc:"text/event-stream: the events of the run as they happen" example:"application/json"`
	Body   api.RunRequest
}

type inSessionRun struct {
	SessionPart
	RunPostPart
}

type inFindRun struct {
	RunPart
	PreferPart
}

type inSessionRuns struct {
	SessionPart
	PagePart
}

type outRun struct {
	Applied string `header:"Preference-Applied" doc:"what was done of Prefer"`
	Body    api.Run
}

func (s *surface) registerRuns(a huma.API) {
	tags := []string{"runs"}
	s.registerRunPost(a, huma.Operation{
		OperationID: "run", Method: http.MethodPost, Path: "/v1/sessions/{session}/runs", Tags: tags,
		Summary: "Run code in a session",
	})
	s.registerOneShot(a, huma.Operation{
		OperationID: "run-once", Method: http.MethodPost, Path: "/v1/run", Tags: tags,
		Summary: "Run code in a session of its own",
	})
	add(a, huma.Operation{
		OperationID: "list-runs", Method: http.MethodGet, Path: "/v1/sessions/{session}/runs", Tags: tags,
		Summary: "List the runs of a session", Description: "The latest first, without their outputs.",
	}, aSession, func(ctx context.Context, in *inSessionRuns) (*answer[api.RunList], error) {
		return answered(s.brigOf(ctx).Runs(ctx, in.Session, in.page()))
	})
	add(a, huma.Operation{
		OperationID: "get-run", Method: http.MethodGet, Path: "/v1/runs/{run}", Tags: tags,
		Summary: "Describe a run", Description: "As it stands, or as it ended; with Prefer: wait=N when it has ended, or after N seconds.",
	}, 0, func(ctx context.Context, in *inFindRun) (*outRun, error) {
		p := in.preferred()
		run, err := s.brigOf(ctx).FindRun(ctx, in.Run, api.FindOptions{Wait: p.wait})
		if err != nil {
			return nil, err
		}
		return &outRun{Applied: p.applied(false), Body: run}, nil
	})
	add(a, huma.Operation{
		OperationID: "cancel-run", Method: http.MethodPost, Path: "/v1/runs/{run}/cancel", Tags: tags,
		Summary: "Cancel a run", Description: "A run that waits is taken out of the queue, one that is under way is ended.",
	}, aRun, func(ctx context.Context, in *RunPart) (*answer[api.Run], error) {
		return answered(s.brigOf(ctx).CancelRun(ctx, in.Run))
	})
}

// aboutRunPost says what both ways to run code do.
const aboutRunPost = "Answers when the run has ended; closing the connection before cancels it. " +
	"With Prefer: respond-async it answers with status 202 when the run is accepted, with wait=N as well after N seconds, and only an explicit cancel ends it then. " +
	"With Accept: text/event-stream it answers with the events of the run; closing that cancels it too."

func runPost(a huma.API, s *surface, op huma.Operation) huma.Operation {
	op.Description = aboutRunPost
	op.Middlewares = huma.Middlewares{s.whole(runBody)}
	op.MaxBodyBytes = 2 * runBody
	op.RequestBody = example(map[string]any{"code": "print(6*7)", "timeout_ms": 10000})
	op.Responses = also[api.Run](a, http.StatusAccepted, "Accepted", "Location", "Preference-Applied")
	op.Responses["200"] = also[api.Run](a, http.StatusOK, "The run has ended", "Preference-Applied")["200"]
	op.Responses["200"].Content[eventStream] = events()["200"].Content[eventStream]
	return op
}

func (s *surface) registerRunPost(a huma.API, op huma.Operation) {
	add(a, runPost(a, s, op), aBody|aSession|anInstance|aRun, func(ctx context.Context, in *inSessionRun) (*huma.StreamResponse, error) {
		return s.run(ctx, in.Session, &in.RunPostPart)
	})
}

func (s *surface) registerOneShot(a huma.API, op huma.Operation) {
	add(a, runPost(a, s, op), aBody|anInstance|aRun, func(ctx context.Context, in *RunPostPart) (*huma.StreamResponse, error) {
		return s.run(ctx, "", in)
	})
}

func (s *surface) run(ctx context.Context, session string, in *RunPostPart) (*huma.StreamResponse, error) {
	switch p := in.preferred(); {
	case p.async:
		return s.runAsync(ctx, session, in, p)
	case wantsEvents(in.Accept):
		return s.streamedRun(ctx, func(ctx context.Context, emit func(api.Event) error) error {
			_, err := s.brigOf(ctx).Run(ctx, session, in.Body, in.options(), emit)
			return err
		})
	default:
		run, err := s.brigOf(ctx).Run(ctx, session, in.Body, in.options(), nil)
		if err != nil {
			return nil, err
		}
		return s.ran(http.StatusOK, "", "", run), nil
	}
}

func (s *surface) runAsync(ctx context.Context, session string, in *RunPostPart, p preference) (*huma.StreamResponse, error) {
	run, err := s.brigOf(ctx).Start(ctx, session, in.Body, in.options())
	if err != nil {
		return nil, err
	}
	if p.wait > 0 && run.State != api.RunEnded {
		if found, err := s.brigOf(ctx).FindRun(ctx, run.ID, api.FindOptions{Wait: p.wait}); err == nil {
			run = found // otherwise the run is accepted all the same, and that is the answer
		}
	}
	status, location := http.StatusAccepted, "/v1/runs/"+url.PathEscape(run.ID)
	if run.State == api.RunEnded {
		status = http.StatusOK
	}
	return s.ran(status, location, p.applied(true), run), nil
}

// ran is the answer of one of the two forms that a POST of a run has.
func (s *surface) ran(status int, location, applied string, run api.Run) *huma.StreamResponse {
	return &huma.StreamResponse{Body: func(c huma.Context) {
		r, w := humago.Unwrap(c)
		if location != "" {
			w.Header().Set("Location", location)
		}
		if applied != "" {
			w.Header().Set("Preference-Applied", applied)
		}
		writeAs(w, r, "application/json", status, run)
	}}
}

// wantsEvents says whether a stream is the first thing that Accept asks for.
func wantsEvents(accept string) bool {
	first, _, _ := strings.Cut(accept, ",")
	kind, _, _ := strings.Cut(first, ";")
	return strings.EqualFold(strings.TrimSpace(kind), eventStream)
}
