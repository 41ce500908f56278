package server

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"brig/orchestrator/api"
)

// DatasetPart names a dataset.
type DatasetPart struct {
	SessionPart
	Name string `path:"name" minLength:"1" maxLength:"64" pattern:"^[A-Za-z0-9_][A-Za-z0-9_-]*$" doc:"what the table is called" example:"sales"`
}

type inPutDataset struct {
	DatasetPart
	Body api.DatasetRequest
}

func (s *surface) registerDatasets(a huma.API) {
	tags := []string{"datasets"}
	add(a, huma.Operation{
		OperationID: "list-datasets", Method: http.MethodGet, Path: "/v1/sessions/{session}/datasets", Tags: tags,
		Summary: "List the datasets of a session", Description: "Those that cannot be read now say why.",
	}, aSession, func(ctx context.Context, in *SessionPart) (*answer[api.DatasetList], error) {
		return answered(s.brigOf(ctx).Datasets(ctx, in.Session))
	})
	add(a, huma.Operation{
		OperationID: "put-dataset", Method: http.MethodPut, Path: "/v1/sessions/{session}/datasets/{name}", Tags: tags,
		RequestBody: example(map[string]any{"path": "data/sales.csv", "active": true}),
		Summary:     "Register a file as a table",
		Description: "The interpreter finds it as tables[name], the active one as df. It is loaded when it is first used, and is there again after every restart of the interpreter.",
		Middlewares: huma.Middlewares{s.whole(smallBody)}, MaxBodyBytes: 2 * smallBody,
	}, anInstance|aSession|aBody|aFile, func(ctx context.Context, in *inPutDataset) (*answer[api.Dataset], error) {
		return answered(s.brigOf(ctx).PutDataset(ctx, in.Session, in.Name, in.Body))
	})
	add(a, huma.Operation{
		OperationID: "remove-dataset", Method: http.MethodDelete, Path: "/v1/sessions/{session}/datasets/{name}", Tags: tags, DefaultStatus: http.StatusNoContent,
		Summary: "Forget a dataset", Description: "The file stays.",
	}, aSession, func(ctx context.Context, in *DatasetPart) (*none, error) {
		return nil, s.brigOf(ctx).RemoveDataset(ctx, in.Session, in.Name)
	})
}
