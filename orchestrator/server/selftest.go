package server

import (
	"context"
	"net/http"
	"net/url"

	"github.com/danielgtaylor/huma/v2"

	"brig/orchestrator/api"
)

type inSelftest struct {
	PreferPart
	Body *api.SelftestRequest `required:"false"`
}

type inFindSelftest struct {
	SelftestPart
	PreferPart
}

// SelftestPart names a self-test.
type SelftestPart struct {
	ID string `path:"id" minLength:"1" maxLength:"128" doc:"id of the self-test"`
}

type inSelftestEvents struct {
	SelftestPart
	ResumePart
}

type outSelftest struct {
	Location string `header:"Location" doc:"of the self-test"`
	Applied  string `header:"Preference-Applied" doc:"what was done of Prefer"`
	Body     api.Selftest
}

func (s *surface) registerSelftest(a huma.API) {
	tags := []string{"selftest"}
	for _, at := range []struct{ path, suffix string }{{"/v1/selftest", ""}, {"/api/sandbox/selftest", "-alias"}} {
		add(a, huma.Operation{
			OperationID: "start-selftest" + at.suffix, Method: http.MethodPost, Path: at.path, Tags: tags, DefaultStatus: http.StatusAccepted,
			Summary:     "Begin a self-test",
			Description: "Each forbidden operation is really attempted, inside of the very runtime that runs the code. It answers when the self-test is accepted, with Prefer: wait=N after N seconds or its end. For operators.",
			Middlewares: huma.Middlewares{s.whole(smallBody)}, MaxBodyBytes: 2 * smallBody,
		}, aBody|anInstance, s.startSelftest)
		add(a, huma.Operation{
			OperationID: "get-latest-selftest" + at.suffix, Method: http.MethodGet, Path: at.path, Tags: tags,
			Summary: "Describe the latest self-test", Description: "With Prefer: wait=N when it has ended, or after N seconds.",
		}, 0, func(ctx context.Context, in *PreferPart) (*outSelftest, error) {
			return s.findSelftest(ctx, "", *in)
		})
	}
	add(a, huma.Operation{
		OperationID: "get-selftest", Method: http.MethodGet, Path: "/v1/selftest/{id}", Tags: tags,
		Summary: "Describe a self-test", Description: "With its report when it has ended; with Prefer: wait=N after N seconds at most.",
	}, 0, func(ctx context.Context, in *inFindSelftest) (*outSelftest, error) {
		return s.findSelftest(ctx, in.ID, in.PreferPart)
	})
	add(a, huma.Operation{
		OperationID: "follow-selftest", Method: http.MethodGet, Path: "/v1/selftest/{id}/events", Tags: tags,
		Summary: "Follow a self-test", Description: "One event for every probe, and the verdict as the last. Closing the stream does not end the self-test.",
		Responses: events(),
	}, aStream, func(ctx context.Context, in *inSelftestEvents) (*huma.StreamResponse, error) {
		after, err := in.from()
		if err != nil {
			return nil, err
		}
		return s.streamed(ctx, func(ctx context.Context, emit func(api.Event) error) error {
			return s.brigOf(ctx).FollowSelftest(ctx, in.ID, after, emit)
		})
	})
	add(a, huma.Operation{
		OperationID: "list-selftests", Method: http.MethodGet, Path: "/v1/selftests", Tags: tags,
		Summary: "List self-tests", Description: "The latest first, without reports.",
	}, 0, func(ctx context.Context, in *PagePart) (*answer[api.SelftestList], error) {
		return answered(s.brigOf(ctx).Selftests(ctx, in.page()))
	})
}

func (s *surface) startSelftest(ctx context.Context, in *inSelftest) (*outSelftest, error) {
	var r api.SelftestRequest
	if in.Body != nil {
		r = *in.Body
	}
	test, err := s.brigOf(ctx).Selftest(ctx, r)
	if err != nil {
		return nil, err
	}
	p := in.preferred()
	if p.wait > 0 {
		if found, err := s.brigOf(ctx).FindSelftest(ctx, test.ID, api.FindOptions{Wait: p.wait}); err == nil {
			test = found // otherwise it is accepted all the same
		}
	}
	return &outSelftest{Location: "/v1/selftest/" + url.PathEscape(test.ID), Applied: p.applied(true), Body: test}, nil
}

func (s *surface) findSelftest(ctx context.Context, id string, in PreferPart) (*outSelftest, error) {
	p := in.preferred()
	test, err := s.brigOf(ctx).FindSelftest(ctx, id, api.FindOptions{Wait: p.wait})
	if err != nil {
		return nil, err
	}
	return &outSelftest{Applied: p.applied(false), Body: test}, nil
}
