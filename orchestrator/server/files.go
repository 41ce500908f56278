package server

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"brig/orchestrator/api"
)

// fileType is the media type of every file. A workspace holds what an agent wrote: a
// page of it must not be shown as one of brig's own.
const fileType = "application/octet-stream"

// FilePart names a file.
type FilePart struct {
	SessionPart
	Path string `path:"path" minLength:"1" maxLength:"4096" doc:"of the file in the workspace; / may be written as it is" example:"data/sales.csv"`
}

type inFiles struct {
	SessionPart
	PagePart
	Prefix string `query:"prefix" maxLength:"4096" doc:"files below this directory"`
}

type inPutFile struct {
	FilePart
	BodyPart
	IfMatch     string `header:"If-Match" maxLength:"1024" doc:"ETag that the file has to have; *: it has to be there"`
	IfNoneMatch string `header:"If-None-Match" maxLength:"8" enum:"*" doc:"*: nothing may be there"`
}

type inRemoveFile struct {
	FilePart
	IfMatch   string `header:"If-Match" maxLength:"1024" doc:"ETag that the file has to have"`
	Recursive bool   `query:"recursive" doc:"a directory with everything in it"`
}

type outFile struct {
	Status int
	ETag   string `header:"ETag" doc:"of the file"`
	Body   api.File
}

// BodyPart takes the request as it is, so that an upload is never held in memory.
type BodyPart struct {
	r *http.Request
}

// Resolve is how huma hands the request out.
func (b *BodyPart) Resolve(ctx huma.Context) []error {
	b.r, _ = humago.Unwrap(ctx)
	return nil
}

func upload(b BodyPart) (io.Reader, error) {
	if err := identity(b.r); err != nil {
		return nil, err
	}
	return b.r.Body, nil
}

// bytesWanted documents a request's body that is no JSON.
func bytesWanted(about string, required bool) *huma.RequestBody {
	return &huma.RequestBody{Description: about, Required: required, Content: map[string]*huma.MediaType{
		fileType: {Schema: &huma.Schema{Type: huma.TypeString, Format: "binary"}},
	}}
}

func (s *surface) registerFiles(a huma.API) {
	tags := []string{"files"}
	const path = "/v1/sessions/{session}/files/{path...}"
	add(a, huma.Operation{
		OperationID: "list-files", Method: http.MethodGet, Path: "/v1/sessions/{session}/files", Tags: tags,
		Summary: "List files", Description: "Sorted by path, with everything below directories.",
	}, aSession|aFile, func(ctx context.Context, in *inFiles) (*answer[api.FileList], error) {
		return answered(s.brigOf(ctx).Files(ctx, in.Session, in.Prefix, in.page()))
	})
	s.onlyGet("/v1/sessions/{session}/files")
	whole := bytesOf("The file", fileType)
	part := bytesOf("The part asked for", fileType)
	for _, method := range []string{http.MethodGet, http.MethodHead} {
		add(a, huma.Operation{
			OperationID: map[string]string{http.MethodGet: "read-file", http.MethodHead: "stat-file"}[method], Method: method, Path: path, Tags: tags,
			Summary:     map[string]string{http.MethodGet: "Read a file", http.MethodHead: "Describe a file"}[method],
			Description: "With ETag, one range of bytes, and the conditions of RFC 9110. Always as " + fileType + ".",
			Responses: map[string]*huma.Response{
				"200": whole, "206": part,
				"304": {Description: "If-None-Match holds"},
			},
		}, aSession|aFile|aRange, s.readFile)
	}
	written := also[api.File](a, http.StatusCreated, "It was not there before", "ETag")
	add(a, huma.Operation{
		OperationID: "write-file", Method: http.MethodPut, Path: path, Tags: tags, RequestBody: bytesWanted("the file; without one it is empty", false), Responses: written,
		Summary:     "Write a file",
		Description: "Replaces it as a whole; it is on the disk when the answer comes. Directories on the way are made.",
	}, aBody|aSession|aFile, s.writeFile)
	add(a, huma.Operation{
		OperationID: "remove-file", Method: http.MethodDelete, Path: path, Tags: tags, DefaultStatus: http.StatusNoContent,
		Summary: "Remove a file", Description: "Or a directory, with recursive=true with everything in it.",
	}, aSession|aFile, func(ctx context.Context, in *inRemoveFile) (*none, error) {
		return nil, s.brigOf(ctx).RemoveFile(ctx, in.Session, in.Path, api.RemoveOptions{IfMatch: in.IfMatch, Recursive: in.Recursive})
	})
}

func (s *surface) writeFile(ctx context.Context, in *inPutFile) (*outFile, error) {
	content, err := upload(in.BodyPart)
	if err != nil {
		return nil, err
	}
	o := api.WriteOptions{IfMatch: in.IfMatch, New: in.IfNoneMatch == "*", Bytes: max(in.r.ContentLength, 0)}
	f, err := s.brigOf(ctx).WriteFile(ctx, in.Session, in.Path, &told{content, in.r.ContentLength}, o)
	if err != nil {
		return nil, err
	}
	out := &outFile{Status: http.StatusCreated, ETag: f.ETag, Body: f}
	if f.Replaced {
		out.Status = http.StatusOK
	}
	return out, nil
}

// told makes problems of what can go wrong with the reading of a body, so that the
// fault is the request's and not the workspace's.
type told struct {
	r      io.Reader
	length int64 // of the whole body; -1: not known
}

// Size is the length that the sender announced; -1: none.
func (t *told) Size() int64 { return t.length }

func (t *told) Read(b []byte) (int, error) {
	n, err := t.r.Read(b)
	if err != nil && err != io.EOF { //nolint:errorlint // a reader's end is io.EOF itself
		return n, bodyProblem(err)
	}
	return n, err
}

// attachment is how a browser is told to keep a file and not to show it.
func attachment(name string) string {
	base := name[strings.LastIndexByte(name, '/')+1:]
	return "attachment; filename*=UTF-8''" + strings.ReplaceAll(url.QueryEscape(base), "+", "%20")
}

func bytesHeader(w http.ResponseWriter, name, kind string, length int64) {
	h := w.Header()
	h.Set("Content-Type", kind)
	h.Set("Content-Disposition", attachment(name))
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Security-Policy", "default-src 'none'; sandbox")
	if length >= 0 {
		h.Set("Content-Length", strconv.FormatInt(length, 10))
	}
}
