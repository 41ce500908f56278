package api

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// filePath is the URL of a file: its segments stay segments.
func filePath(session, name string) string {
	return path(append([]string{"sessions", session, "files"}, strings.Split(name, "/")...)...)
}

func (c *Client) Files(ctx context.Context, session, prefix string, p Page) (l FileList, err error) {
	q := page(p)
	if prefix != "" {
		q.Set("prefix", prefix)
	}
	return l, c.do(ctx, call{method: http.MethodGet, path: path("sessions", session, "files"), query: q, out: &l})
}

func (c *Client) StatFile(ctx context.Context, session, name string) (File, error) {
	answer, err := c.send(ctx, call{method: http.MethodHead, path: filePath(session, name)})
	if err != nil {
		return File{}, headProblem(ctx, c, session, name, err)
	}
	defer answer.Body.Close()
	return fileOf(name, answer), nil
}

// headProblem asks for the problem that an answer to HEAD cannot hold: for one byte.
func headProblem(ctx context.Context, c *Client, session, name string, err error) error {
	r, _, second := c.ReadFile(ctx, session, name, Range{Length: 1})
	if second == nil {
		r.Close()
		return err
	}
	return second
}

func (c *Client) ReadFile(ctx context.Context, session, name string, r Range) (io.ReadCloser, File, error) {
	header := http.Header{"Accept": {"*/*"}}
	switch {
	case r.Length > 0:
		header.Set("Range", fmt.Sprintf("bytes=%d-%d", r.Offset, r.Offset+r.Length-1))
	case r.Offset > 0:
		header.Set("Range", fmt.Sprintf("bytes=%d-", r.Offset))
	}
	answer, err := c.send(ctx, call{method: http.MethodGet, path: filePath(session, name), header: header})
	if err != nil {
		return nil, File{}, err
	}
	return &answerBody{ctx, answer.Body}, fileOf(name, answer), nil
}

// fileOf reads what the headers say about a file.
func fileOf(name string, answer *http.Response) File {
	f := File{Path: name, Kind: "file", Bytes: answer.ContentLength, ETag: answer.Header.Get("ETag")}
	if _, total, found := strings.Cut(answer.Header.Get("Content-Range"), "/"); found {
		if n, err := strconv.ParseInt(total, 10, 64); err == nil {
			f.Bytes = n
		}
	}
	f.Bytes = max(f.Bytes, 0)
	if at, err := http.ParseTime(answer.Header.Get("Last-Modified")); err == nil {
		f.Modified = at.UTC()
	}
	// To the nanosecond, which HTTP's own header does not hold.
	if at, err := time.Parse(time.RFC3339Nano, answer.Header.Get(ModifiedHeader)); err == nil {
		f.Modified = at
	}
	return f
}

// ModifiedHeader is when a file was modified, as RFC 3339 with nanoseconds.
const ModifiedHeader = "Brig-Modified"

// answerBody is content on its way; what breaks it off is a Problem.
type answerBody struct {
	ctx context.Context
	io.ReadCloser
}

func (b *answerBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil && err != io.EOF { //nolint:errorlint // a reader's own mark, as it is
		err = broke(b.ctx, err)
	}
	return n, err
}

// WriteFile may read a little of content after it returned an error.
func (c *Client) WriteFile(ctx context.Context, session, name string, content io.Reader, o WriteOptions) (f File, err error) {
	header := http.Header{}
	if o.IfMatch != "" {
		header.Set("If-Match", o.IfMatch)
	}
	if o.New {
		header.Set("If-None-Match", "*")
	}
	return f, c.do(ctx, call{
		method: http.MethodPut, path: filePath(session, name), header: header, body: content, length: o.Bytes, out: &f,
	})
}

func (c *Client) RemoveFile(ctx context.Context, session, name string, o RemoveOptions) error {
	r := call{method: http.MethodDelete, path: filePath(session, name), header: http.Header{}, query: url.Values{}}
	if o.IfMatch != "" {
		r.header.Set("If-Match", o.IfMatch)
	}
	if o.Recursive {
		r.query.Set("recursive", "true")
	}
	return c.do(ctx, r)
}

// archiveTypes are the media types of archives.
func archiveType(f ArchiveFormat) string {
	switch f {
	case TarGz:
		return "application/gzip"
	case Zip:
		return "application/zip"
	default:
		return "application/x-tar"
	}
}

func archiveQuery(prefix string, f ArchiveFormat) url.Values {
	q := url.Values{"format": {string(cmp.Or(f, Tar))}}
	if prefix != "" {
		q.Set("prefix", prefix)
	}
	return q
}

func (c *Client) ReadArchive(ctx context.Context, session, prefix string, f ArchiveFormat) (io.ReadCloser, error) {
	return c.read(ctx, path("sessions", session, "archive"), archiveQuery(prefix, f))
}

func (c *Client) WriteArchive(ctx context.Context, session, prefix string, f ArchiveFormat, content io.Reader) (r ArchiveResult, err error) {
	return r, c.do(ctx, call{
		method: http.MethodPut, path: path("sessions", session, "archive"), query: archiveQuery(prefix, f),
		header: http.Header{"Content-Type": {archiveType(f)}}, body: content, out: &r,
	})
}

func (c *Client) Export(ctx context.Context, session string, f ExportFormat) (io.ReadCloser, error) {
	return c.read(ctx, path("sessions", session, "export"), url.Values{"format": {string(cmp.Or(f, Notebook))}})
}

// read opens content of any kind.
func (c *Client) read(ctx context.Context, path string, q url.Values) (io.ReadCloser, error) {
	answer, err := c.send(ctx, call{method: http.MethodGet, path: path, query: q, header: http.Header{"Accept": {"*/*"}}})
	if err != nil {
		return nil, err
	}
	return &answerBody{ctx, answer.Body}, nil
}

func (c *Client) PutDataset(ctx context.Context, session, name string, r DatasetRequest) (d Dataset, err error) {
	return d, c.do(ctx, call{method: http.MethodPut, path: path("sessions", session, "datasets", name), in: r, out: &d})
}

func (c *Client) Datasets(ctx context.Context, session string) (l DatasetList, err error) {
	return l, c.do(ctx, call{method: http.MethodGet, path: path("sessions", session, "datasets"), out: &l})
}

func (c *Client) RemoveDataset(ctx context.Context, session, name string) error {
	return c.do(ctx, call{method: http.MethodDelete, path: path("sessions", session, "datasets", name)})
}
