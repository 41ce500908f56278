package server

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"brig/orchestrator/api"
)

// ArchivePart says what is packed and how.
type ArchivePart struct {
	SessionPart
	Prefix string `query:"prefix" maxLength:"4096" doc:"the directory; without it: the whole workspace"`
	Format string `query:"format" enum:"tar,tar.gz,zip" default:"tar.gz"`
}

type inPutArchive struct {
	ArchivePart
	BodyPart
}

type inExport struct {
	SessionPart
	Format string `query:"format" enum:"ipynb,py,zip" default:"ipynb" doc:"notebook, script, or both with the session's files"`
}

// packed are the media types of what is packed on the way.
func packed(format string) string {
	return map[string]string{
		string(api.Tar): "application/x-tar", string(api.TarGz): "application/gzip", string(api.Zip): "application/zip",
		string(api.Notebook): "application/x-ipynb+json", string(api.Script): "text/x-python",
	}[format]
}

func (s *surface) registerArchive(a huma.API) {
	tags := []string{"files"}
	add(a, huma.Operation{
		OperationID: "read-archive", Method: http.MethodGet, Path: "/v1/sessions/{session}/archive", Tags: tags,
		Summary: "Download files as one archive", Description: "Everything below prefix.",
		Responses: map[string]*huma.Response{"200": bytesOf("The archive", packed("tar"), packed("tar.gz"), packed("zip"))},
	}, aSession|aFile, func(ctx context.Context, in *ArchivePart) (*huma.StreamResponse, error) {
		content, err := s.brigOf(ctx).ReadArchive(ctx, in.Session, in.Prefix, api.ArchiveFormat(in.Format))
		if err != nil {
			return nil, err
		}
		return produced(content, "workspace."+in.Format, packed(in.Format))
	})
	some := bytesWanted("the archive", true)
	some.Content[fileType].Schema.MinLength = new(1)
	add(a, huma.Operation{
		OperationID: "write-archive", Method: http.MethodPut, Path: "/v1/sessions/{session}/archive", Tags: tags, RequestBody: some,
		Summary:     "Upload files as one archive",
		Description: "They come beside what is there. Links, special files and names that lead out are skipped and named.",
	}, aBody|aSession|aFile, func(ctx context.Context, in *inPutArchive) (*answer[api.ArchiveResult], error) {
		if in.r.ContentLength == 0 {
			return nil, api.NewProblem(api.CodeMalformed, "the body is missing", "send the archive as the body")
		}
		content, err := upload(in.BodyPart)
		if err != nil {
			return nil, err
		}
		return answered(s.brigOf(ctx).WriteArchive(ctx, in.Session, in.Prefix, api.ArchiveFormat(in.Format), &told{content, in.r.ContentLength}))
	})
	add(a, huma.Operation{
		OperationID: "export-session", Method: http.MethodGet, Path: "/v1/sessions/{session}/export", Tags: tags,
		Summary: "Export what ran", Description: "What really ran in the session, in its order.",
		Responses: map[string]*huma.Response{"200": bytesOf("The export", packed("ipynb"), packed("py"), packed("zip"))},
	}, aSession|aFile, func(ctx context.Context, in *inExport) (*huma.StreamResponse, error) {
		content, err := s.brigOf(ctx).Export(ctx, in.Session, api.ExportFormat(in.Format))
		if err != nil {
			return nil, err
		}
		return produced(content, "session."+in.Format, packed(in.Format))
	})
}

// firstPiece is how much of an answer is made before its status is sent, so that what
// goes wrong early has a status of its own.
const firstPiece = 64 << 10 // bytes

// produced sends what is made while it is sent.
func produced(content io.ReadCloser, name, kind string) (*huma.StreamResponse, error) {
	first := make([]byte, firstPiece)
	n, err := io.ReadFull(content, first)
	length := int64(-1)
	switch {
	case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF):
		length = int64(n)
	case err != nil:
		_ = content.Close() // err says more
		return nil, err
	}
	return &huma.StreamResponse{Body: func(c huma.Context) {
		defer func() { _ = content.Close() }() // it was only read
		r, w := humago.Unwrap(c)
		bytesHeader(w, name, kind, length)
		w.WriteHeader(http.StatusOK)
		if r.Method != http.MethodHead {
			copyOut(w, io.MultiReader(bytes.NewReader(first[:n]), content), length)
		}
	}}, nil
}
