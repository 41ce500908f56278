package service

import (
	"context"
	"encoding/base64"
	"errors"
	"io"
	"io/fs"
	"os"
	"strings"

	"brig/orchestrator/api"
	"brig/orchestrator/workspace"
)

// files are those of a session that the caller may use.
func (v *view) files(ctx context.Context, name string) (*session, *workspace.Workspace, error) {
	s, err := v.find(ctx, name)
	if err != nil {
		return nil, nil, err
	}
	return s, s.live.Workspace(), nil
}

func (v *view) Files(ctx context.Context, session, prefix string, p api.Page) (api.FileList, error) {
	_, w, err := v.files(ctx, session)
	if err != nil {
		return api.FileList{}, err
	}
	after, err := base64.RawURLEncoding.DecodeString(p.Cursor)
	if err != nil {
		return api.FileList{}, badCursor()
	}
	limit := p.Limit
	if limit <= 0 {
		limit = 100
	}
	limit = min(limit, 1000)
	entries, more, err := w.ListAfter(prefix, string(after), limit)
	list := api.FileList{Files: make([]api.File, 0, len(entries)), Omitted: errors.Is(err, workspace.ErrTooMany)}
	if err != nil && !list.Omitted {
		return api.FileList{}, fileProblem(err)
	}
	for _, e := range entries {
		list.Files = append(list.Files, fileOf(e))
	}
	if more > 0 && len(entries) > 0 {
		list.Next = base64.RawURLEncoding.EncodeToString([]byte(entries[len(entries)-1].Path))
	}
	return list, nil
}

func badCursor() error {
	p := api.NewProblem(api.CodeInvalid, "the cursor is of no page of this list", "leave it out for the first page")
	p.Errors = []api.FieldError{{Location: "query.cursor", Message: "not a cursor of this list"}}
	return p
}

func (v *view) StatFile(ctx context.Context, session, path string) (api.File, error) {
	_, w, err := v.files(ctx, session)
	if err != nil {
		return api.File{}, err
	}
	e, err := w.Stat(path)
	if err != nil {
		return api.File{}, fileProblem(err)
	}
	return fileOf(e), nil
}

func (v *view) ReadFile(ctx context.Context, session, path string, r api.Range) (io.ReadCloser, api.File, error) {
	_, w, err := v.files(ctx, session)
	if err != nil {
		return nil, api.File{}, err
	}
	content, e, err := w.GetPart(path, r.Offset, r.Length)
	if errors.Is(err, workspace.ErrRange) {
		return nil, fileOf(e), fileProblem(err)
	}
	if err != nil {
		return nil, api.File{}, fileProblem(err)
	}
	return content, fileOf(e), nil
}

func (v *view) WriteFile(ctx context.Context, session, path string, content io.Reader, o api.WriteOptions) (api.File, error) {
	_, w, err := v.files(ctx, session)
	if err != nil {
		return api.File{}, err
	}
	var allow func(*workspace.Entry) error
	if o.New || o.IfMatch != "" {
		allow = func(e *workspace.Entry) error { return holds(o, e) }
	}
	if o.Bytes > 0 {
		if err := w.Room(o.Bytes); err != nil {
			return api.File{}, fileProblem(err)
		}
	}
	written, err := w.PutIf(path, workspace.While(ctx, content), 0, allow)
	if err != nil {
		return api.File{}, fileProblem(err)
	}
	f := fileOf(written.Entry)
	f.Replaced = written.Replaced
	return f, nil
}

// holds says whether a file may be written over what is there; nil: nothing is.
func holds(o api.WriteOptions, e *workspace.Entry) error {
	switch {
	case o.New && e != nil:
		return api.NewProblem(api.CodePrecondition, "something of that name is there already", "")
	case o.IfMatch == "":
		return nil
	case e == nil:
		return api.NewProblem(api.CodePrecondition, "there is no such file", "")
	case !matches(o.IfMatch, *e):
		return api.NewProblem(api.CodePrecondition, "the file has changed", "read it again")
	}
	return nil
}

// matches says whether one of the ETags of a list, or *, is the file's.
func matches(list string, e workspace.Entry) bool {
	for tag := range strings.SplitSeq(list, ",") {
		if tag = strings.TrimSpace(tag); tag == "*" || e.Tag() != "" && tag == etag(e) {
			return true
		}
	}
	return false
}

func (v *view) RemoveFile(ctx context.Context, session, path string, o api.RemoveOptions) error {
	_, w, err := v.files(ctx, session)
	if err != nil {
		return err
	}
	err = w.RemoveIf(path, func(e workspace.Entry) error {
		switch {
		case o.IfMatch != "" && !matches(o.IfMatch, e):
			return api.NewProblem(api.CodePrecondition, "the file has changed", "read it again")
		case e.Kind == workspace.Dir && !o.Recursive:
			return api.NewProblem(api.CodeConflict, "it is a directory", "ask for it with recursive, and everything in it goes")
		}
		return nil
	})
	return fileProblem(err)
}

// fileOf is an entry as the API tells it.
func fileOf(e workspace.Entry) api.File {
	return api.File{
		Path: e.Path, Kind: string(e.Kind), Bytes: e.Size, Modified: e.ModTime.UTC(), ETag: etag(e), Problem: e.Problem,
	}
}

// etag is the tag as HTTP writes it; empty where there is none.
func etag(e workspace.Entry) string {
	if tag := e.Tag(); tag != "" {
		return `"` + tag + `"`
	}
	return ""
}

// fileProblem is what a failure in a workspace means to the caller. Names are left
// out: the caller knows what was asked for.
func fileProblem(err error) error {
	if err == nil {
		return nil
	}
	var ready *api.Problem
	if errors.As(err, &ready) {
		return ready
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return api.NewProblem(api.CodeDeadline, "the request ended before it was done", "")
	}
	for _, known := range []struct {
		err  error
		code api.Code
	}{
		{fs.ErrNotExist, api.CodeNotFound},
		{workspace.ErrName, api.CodeUnusable},
		{workspace.ErrEscapes, api.CodeUnusable},
		{workspace.ErrNotRegular, api.CodeUnusable},
		{workspace.ErrLinked, api.CodeUnusable},
		{workspace.ErrTooDeep, api.CodeUnusable},
		{fs.ErrPermission, api.CodeUnusable},
		{fs.ErrExist, api.CodeConflict},
		{workspace.ErrBusy, api.CodeConflict},
		{workspace.ErrTooLarge, api.CodeTooLarge},
		{workspace.ErrQuota, api.CodeQuota},
		{workspace.ErrNoSpace, api.CodeQuota},
		{workspace.ErrTooMany, api.CodeQuota},
		{workspace.ErrRange, api.CodeRange},
		{os.ErrClosed, api.CodeGone},
	} {
		if errors.Is(err, known.err) {
			remedy := ""
			if known.code == api.CodeQuota {
				remedy = "remove files that are not needed, or raise limits.workspace"
			}
			return api.NewProblem(known.code, sentence(err), remedy)
		}
	}
	var e *workspace.Error
	if errors.As(err, &e) && e.Why != "" && e.Kind == nil {
		return api.NewProblem(api.CodeUnusable, sentence(err), "")
	}
	return retry(api.NewProblem(api.CodeStorage, sentence(err), "df -h"), 5)
}

// sentence is what a workspace says about a failure, without the name.
func sentence(err error) string {
	var e *workspace.Error
	if !errors.As(err, &e) {
		return err.Error()
	}
	switch {
	case e.Why != "":
		return e.Why
	case e.Kind != nil:
		return e.Kind.Error()
	case e.Err != nil:
		return "the disk refuses: " + e.Err.Error()
	}
	return "the disk refuses"
}
