package mcp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"brig/orchestrator/api"
)

// maxResource bounds what one resource may hold, in bytes; clients read at most 1 MiB of
// an event of a stream. Larger files are read in pieces.
const maxResource = 512 << 10

func (s *Server) addResources() {
	for _, t := range []sdk.ResourceTemplate{
		{Name: "run output", URITemplate: "brig://runs/{run}/{stream}", Description: "stdout or stderr of a run: its beginning and its end, as far as brig keeps it", MIMEType: "text/plain"},
		{Name: "run display", URITemplate: "brig://runs/{run}/displays/{number}", Description: "a figure or result of a run"},
		{Name: "workspace file", URITemplate: "brig://sessions/{session}/files/{+path}", Description: "a file of a session's workspace"},
	} {
		s.sdk.AddResourceTemplate(&t, s.resource)
	}
}

func (s *Server) resource(ctx context.Context, req *sdk.ReadResourceRequest) (*sdk.ReadResourceResult, error) {
	p, err := s.peer(req)
	if err != nil {
		return nil, rpcError(req.Params.URI, err)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, callTime, errCallTime)
	defer cancel()
	c, err := contents(ctx, p.Brig, req.Params.URI)
	if err != nil {
		return nil, rpcError(req.Params.URI, err)
	}
	c.URI = req.Params.URI
	return &sdk.ReadResourceResult{Contents: []*sdk.ResourceContents{c}}, nil
}

// rpcError is an error of the protocol, which is all that a resource can answer with.
func rpcError(uri string, err error) error {
	p := problemOf(err)
	if gone(p) {
		return sdk.ResourceNotFoundError(uri)
	}
	code := int64(jsonrpc.CodeInternalError)
	if p.Status >= 400 && p.Status < 500 {
		code = jsonrpc.CodeInvalidParams
	}
	return &jsonrpc.Error{Code: code, Message: clean(p.Error())}
}

// contents is what a brig:// address names.
func contents(ctx context.Context, b api.Brig, address string) (*sdk.ResourceContents, error) {
	none := api.NewProblem(api.CodeNotFound, "there is no such resource", "")
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "brig" || u.RawQuery != "" || u.Fragment != "" {
		return nil, none
	}
	parts := strings.SplitN(strings.TrimPrefix(u.Path, "/"), "/", 3)
	switch {
	case u.Host == "sessions" && len(parts) == 3 && parts[1] == "files" && parts[0] != "" && parts[2] != "":
		return file(ctx, b, parts[0], parts[2])
	case u.Host != "runs" || len(parts) < 2 || parts[0] == "":
		return nil, none
	}
	r, err := b.FindRun(ctx, parts[0], api.FindOptions{})
	if err != nil {
		return nil, err
	}
	switch parts[1] {
	case "stdout":
		return stream(r.Stdout), nil
	case "stderr":
		return stream(r.Stderr), nil
	case "displays":
		if len(parts) < 3 {
			return nil, none
		}
		if i, err := strconv.Atoi(parts[2]); err == nil && i >= 0 && i < len(r.Displays) {
			return part(r.Displays[i]), nil
		}
	}
	return nil, none
}

func stream(o api.Output) *sdk.ResourceContents {
	return &sdk.ResourceContents{MIMEType: "text/plain", Text: bound(o, maxResource, "").text}
}

// part is a display as an image where it is one, otherwise its first representation.
func part(d api.Display) *sdk.ResourceContents {
	best := api.DisplayPart{MIME: "text/plain"}
	for i, p := range d.Data {
		if i == 0 || pictured(p.MIME) && !pictured(best.MIME) {
			best = p
		}
	}
	if len(best.Base64) > 0 {
		return &sdk.ResourceContents{MIMEType: best.MIME, Blob: best.Base64}
	}
	return &sdk.ResourceContents{MIMEType: best.MIME, Text: best.Text}
}

func file(ctx context.Context, b api.Brig, session, path string) (*sdk.ResourceContents, error) {
	r, f, err := b.ReadFile(ctx, session, path, api.Range{})
	if err != nil {
		return nil, err
	}
	if f.Bytes > maxResource {
		_ = r.Close()
		return nil, api.NewProblem(api.CodeTooLarge, fmt.Sprintf("the file has %d bytes, and a resource at most %d", f.Bytes, maxResource), "read it in pieces with read_file")
	}
	content, err := io.ReadAll(io.LimitReader(r, maxResource+1))
	if err = errors.Join(err, r.Close()); err != nil {
		return nil, err
	}
	c := &sdk.ResourceContents{MIMEType: kindOf(path, content)}
	if utf8.Valid(content) && !strings.ContainsRune(string(content), 0) {
		c.Text = string(content)
	} else {
		c.Blob = content
	}
	return c, nil
}
