package mcp

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path"
	"strings"
	"time"
	"unicode/utf8"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"brig/orchestrator/api"
)

const (
	listPage  = 200
	usualRead = 32 << 10
	mostRead  = 64 << 10
)

type listedFile struct {
	Path     string `json:"path"`
	Kind     string `json:"kind"`
	Bytes    int64  `json:"bytes"`
	Modified string `json:"modified,omitempty"`
	Problem  string `json:"problem,omitempty"`
}

func list(ctx context.Context, c *call) (*sdk.CallToolResult, error) {
	var a struct {
		Prefix  string `json:"prefix"`
		Cursor  string `json:"cursor"`
		Session string `json:"session"`
	}
	if err := c.decode(&a); err != nil {
		return nil, err
	}
	var l api.FileList
	if err := c.in(ctx, a.Session, false, func(session string) (err error) {
		if session == "" {
			c.note = "your session has not been opened yet, so there are no files"
			return nil
		}
		l, err = c.brig.Files(ctx, session, a.Prefix, api.Page{Limit: listPage, Cursor: a.Cursor})
		return err
	}); err != nil {
		return nil, err
	}
	out := struct {
		Files []listedFile `json:"files"`
		Next  string       `json:"next,omitempty"`
		Note  string       `json:"note,omitempty"`
	}{Files: []listedFile{}, Next: l.Next, Note: c.note}
	if l.Omitted {
		out.Note = strings.TrimPrefix(out.Note+"; the workspace holds more files than brig lists", "; ")
	}
	var b strings.Builder
	for _, f := range l.Files {
		e := listedFile{Path: f.Path, Kind: f.Kind, Bytes: f.Bytes, Problem: clean(f.Problem)}
		if !f.Modified.IsZero() {
			e.Modified = f.Modified.UTC().Format(time.RFC3339)
		}
		out.Files = append(out.Files, e)
		fmt.Fprintf(&b, "%s\t%s\t%d\n", clean(e.Path), e.Kind, e.Bytes)
	}
	switch {
	case len(l.Files) == 0:
		b.WriteString("No files.\n")
	case l.Next != "":
		fmt.Fprintf(&b, "There are more: call again with cursor %q.\n", l.Next)
	}
	if out.Note != "" {
		b.WriteString("Note: " + out.Note + ".\n")
	}
	return structured(out, b.String()), nil
}

// structured is an answer of one text and the same as data.
func structured(out any, text string, more ...sdk.Content) *sdk.CallToolResult {
	return &sdk.CallToolResult{
		StructuredContent: out, Content: append([]sdk.Content{&sdk.TextContent{Text: strings.TrimRight(text, "\n")}}, more...),
	}
}

type readResult struct {
	Path   string `json:"path"`
	Bytes  int64  `json:"bytes"`
	MIME   string `json:"mime_type,omitempty"`
	Text   string `json:"text,omitempty"`
	Offset int64  `json:"offset,omitempty"`
	Next   int64  `json:"next_offset,omitempty"`
	ETag   string `json:"etag,omitempty"`
	Note   string `json:"note,omitempty"`
}

func read(ctx context.Context, c *call) (*sdk.CallToolResult, error) {
	var a struct {
		Path    string  `json:"path"`
		Offset  number  `json:"offset"`
		Max     *number `json:"max_bytes"`
		Session string  `json:"session"`
	}
	if err := c.decode(&a); err != nil {
		return nil, err
	}
	most := number(usualRead)
	if a.Max != nil {
		most = *a.Max
	}
	switch {
	case a.Path == "":
		return nil, invalid(`"path" is missing`)
	case a.Offset < 0:
		return nil, invalid(`"offset" may not be negative`)
	case most < 1 || most > mostRead:
		return nil, invalid(`"max_bytes" may be 1 to %d`, mostRead)
	}
	var f api.File
	var piece []byte
	used := ""
	err := c.in(ctx, a.Session, false, func(session string) error {
		if session == "" {
			return api.NewProblem(api.CodeNotFound, "there is no such file: your session has not been opened yet", "write the file, or run the code that makes it, first")
		}
		used = session
		var err error
		f, piece, err = c.piece(ctx, session, a.Path, int64(a.Offset), int(most)+utf8.UTFMax)
		return err
	})
	if err != nil {
		return nil, err
	}
	out := readResult{Path: a.Path, Bytes: f.Bytes, ETag: f.ETag, Note: c.note, Offset: int64(a.Offset)}
	out.MIME = kindOf(a.Path, piece)
	if a.Offset == 0 && pictured(out.MIME) {
		return c.picture(ctx, used, out)
	}
	text, begin, ok := textOf(piece, int(most), a.Offset > 0, int64(a.Offset)+int64(len(piece)) >= f.Bytes)
	if !ok {
		out.Note = "the file is not text; open it with code"
		return structured(out, fmt.Sprintf("%s is %s of %d bytes: %s.", clean(out.Path), out.MIME, f.Bytes, out.Note), linkTo(used, a.Path, out)), nil
	}
	out.Offset += int64(begin)
	if end := out.Offset + int64(len(text)); end < f.Bytes {
		out.Next = end
	}
	out.Text = text
	// The text of a file is given as it is: it is asked for to be edited and written back.
	return structured(out, out.says(), &sdk.TextContent{Text: text}), nil
}

// picture shows an image, where there is room for it.
func (c *call) picture(ctx context.Context, session string, out readResult) (*sdk.CallToolResult, error) {
	if out.Bytes > int64(c.room()) {
		out.Note = "the image is too large to be shown; make a smaller one with code"
		return structured(out, fmt.Sprintf("%s is an image of %d bytes: %s.", clean(out.Path), out.Bytes, out.Note), linkTo(session, out.Path, out)), nil
	}
	_, whole, err := c.piece(ctx, session, out.Path, 0, c.room())
	if err != nil {
		return nil, err
	}
	return structured(out, fmt.Sprintf("%s, %s, %d bytes.", clean(out.Path), out.MIME, out.Bytes), &sdk.ImageContent{Data: whole, MIMEType: out.MIME}), nil
}

// says which part of a text file this is.
func (out readResult) says() string {
	says := fmt.Sprintf("%s, %d bytes, etag %s.", clean(out.Path), out.Bytes, out.ETag)
	if out.Next > 0 || out.Offset > 0 {
		says = fmt.Sprintf("%s, bytes %d to %d of %d, etag %s.", clean(out.Path), out.Offset, out.Offset+int64(len(out.Text)), out.Bytes, out.ETag)
	}
	if out.Next > 0 {
		says += fmt.Sprintf(" There is more: call again with offset %d.", out.Next)
	}
	return says
}

// piece reads at most n bytes of a file.
func (c *call) piece(ctx context.Context, session, name string, offset int64, n int) (api.File, []byte, error) {
	r, f, err := c.brig.ReadFile(ctx, session, name, api.Range{Offset: offset})
	if err != nil {
		return f, nil, err
	}
	b, err := io.ReadAll(io.LimitReader(r, int64(n)))
	return f, b, errors.Join(err, r.Close())
}

// textOf is at most n bytes of a piece as text, whole characters only, and at which byte it
// begins. middle says that the piece begins inside of the file, last that it is the end.
func textOf(piece []byte, n int, middle, last bool) (text string, begin int, ok bool) {
	if middle {
		for begin < len(piece) && begin < utf8.UTFMax-1 && !utf8.RuneStart(piece[begin]) {
			begin++
		}
	}
	b := piece[begin:]
	if len(b) > n {
		b, last = b[:n], false
	}
	if !last {
		for i := 0; i < utf8.UTFMax-1 && len(b) > 0; i++ {
			if r, size := utf8.DecodeLastRune(b); r != utf8.RuneError || size != 1 {
				break
			}
			b = b[:len(b)-1]
		}
	}
	if len(b) == 0 && len(piece) > 0 || !utf8.Valid(b) || bytes.IndexByte(b, 0) >= 0 {
		return "", 0, false
	}
	return string(b), begin, true
}

func linkTo(session, name string, out readResult) *sdk.ResourceLink {
	return &sdk.ResourceLink{URI: fileURI(session, name), Name: path.Base(out.Path), MIMEType: out.MIME, Size: &out.Bytes}
}

// kindOf is the media type of a file, by its first bytes, and by its name where those are text.
func kindOf(name string, head []byte) string {
	kind, _, _ := strings.Cut(http.DetectContentType(head), ";")
	if kind != "text/plain" {
		return kind
	}
	switch strings.ToLower(path.Ext(name)) {
	case ".csv":
		return "text/csv"
	case ".json", ".ipynb":
		return "application/json"
	case ".md":
		return "text/markdown"
	case ".py":
		return "text/x-python"
	case ".svg":
		return "image/svg+xml"
	}
	return kind
}

func write(ctx context.Context, c *call) (*sdk.CallToolResult, error) {
	var a struct {
		Path    string  `json:"path"`
		Text    *string `json:"text"`
		Base64  *string `json:"base64"`
		New     bool    `json:"create_only"`
		ETag    string  `json:"if_etag"`
		Session string  `json:"session"`
	}
	if err := c.decode(&a); err != nil {
		return nil, err
	}
	switch {
	case a.Path == "":
		return nil, invalid(`"path" is missing`)
	case (a.Text == nil) == (a.Base64 == nil):
		return nil, invalid("give exactly one of text and base64")
	case a.New && a.ETag != "":
		return nil, invalid("create_only and if_etag exclude each other")
	}
	var content []byte
	if a.Text != nil {
		content = []byte(*a.Text)
	} else {
		var err error
		if content, err = base64.StdEncoding.DecodeString(*a.Base64); err != nil {
			return nil, invalid(`"base64" is not base64`)
		}
	}
	var f api.File
	used := ""
	err := c.in(ctx, a.Session, true, func(session string) (err error) {
		used = session
		f, err = c.brig.WriteFile(ctx, session, a.Path, bytes.NewReader(content), api.WriteOptions{IfMatch: a.ETag, New: a.New, Bytes: int64(len(content))})
		return err
	})
	if err != nil {
		return nil, err
	}
	out := struct {
		Path     string `json:"path"`
		Bytes    int64  `json:"bytes"`
		Replaced bool   `json:"replaced"`
		ETag     string `json:"etag,omitempty"`
		Session  string `json:"session,omitempty"`
		Note     string `json:"note,omitempty"`
	}{f.Path, f.Bytes, f.Replaced, f.ETag, used, c.note}
	did := "Written"
	if f.Replaced {
		did = "Replaced"
	}
	text := fmt.Sprintf("%s: %s, %d bytes, etag %s, session %s.", did, clean(out.Path), out.Bytes, out.ETag, used)
	if c.note != "" {
		text += "\nNote: " + c.note + "."
	}
	return structured(out, text), nil
}
