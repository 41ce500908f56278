package api

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Bounds of what is read into memory, in bytes. A brig keeps to its own; these are
// for what is none.
const (
	maxAnswer  = 256 << 20
	maxProblem = 1 << 20
)

// call is one request.
type call struct {
	method, path string
	query        url.Values
	header       http.Header
	in           any       // JSON
	body         io.Reader // instead of in
	length       int64     // of body, 0: not known
	out          any       // JSON; nil: the answer has no body, or is taken raw
	may          []int     // statuses that are no error, beside 2xx
}

// path makes a path of segments, each escaped.
func path(segments ...string) string {
	var b strings.Builder
	b.WriteString("/v1")
	for _, s := range segments {
		b.WriteString("/" + url.PathEscape(s))
	}
	return b.String()
}

// page is a Page as a query.
func page(p Page) url.Values {
	q := url.Values{}
	if p.Limit > 0 {
		q.Set("limit", strconv.Itoa(p.Limit))
	}
	if p.Cursor != "" {
		q.Set("cursor", p.Cursor)
	}
	return q
}

// do sends a request and decodes its answer into r.out.
func (c *Client) do(ctx context.Context, r call) error {
	answer, err := c.send(ctx, r)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	return c.decode(ctx, answer, r.out)
}

// decode reads a JSON answer to its end, so that the connection can be used again.
func (c *Client) decode(ctx context.Context, answer *http.Response, out any) error {
	if out == nil {
		_, err := io.Copy(io.Discard, io.LimitReader(answer.Body, maxProblem))
		return broke(ctx, err)
	}
	text, err := io.ReadAll(io.LimitReader(answer.Body, maxAnswer+1))
	if err != nil {
		return broke(ctx, err)
	}
	if len(text) > maxAnswer {
		return NewProblem(CodeInterruptedIO, fmt.Sprintf("brig's answer has more than %d bytes", int64(maxAnswer)), "")
	}
	if err := json.Unmarshal(text, out); err != nil {
		return NewProblem(CodeInterruptedIO, "brig's answer could not be read: "+err.Error(), "brig status")
	}
	return nil
}

// send sends a request. Whoever gets the answer closes its body.
func (c *Client) send(ctx context.Context, r call) (*http.Response, error) {
	request, err := c.request(ctx, r)
	if err != nil {
		return nil, err
	}
	answer, err := c.http.Do(request)
	if err != nil {
		return nil, unanswered(ctx, err)
	}
	if answer.Header.Get(VersionHeader) == "" {
		answer.Body.Close()
		return nil, errNoBrig()
	}
	if answer.StatusCode/100 == 2 || slices.Contains(r.may, answer.StatusCode) {
		return answer, nil
	}
	defer answer.Body.Close()
	return nil, readProblem(answer)
}

func (c *Client) request(ctx context.Context, r call) (*http.Request, error) {
	body, length := r.body, r.length
	if r.in != nil {
		text, err := json.Marshal(r.in)
		if err != nil {
			return nil, NewProblem(CodeMalformed, "the request cannot be written as JSON: "+err.Error(), "")
		}
		body, length = bytes.NewReader(text), int64(len(text))
	}
	target := c.base + r.path
	if len(r.query) > 0 {
		target += "?" + r.query.Encode()
	}
	request, err := http.NewRequestWithContext(ctx, r.method, target, body)
	if err != nil {
		return nil, NewProblem(CodeMalformed, "the request cannot be made: "+err.Error(), "")
	}
	for name, values := range r.header {
		request.Header[name] = values
	}
	if body != nil && length > 0 {
		request.ContentLength = length
	}
	if request.Header.Get("Accept") == "" {
		request.Header.Set("Accept", "application/json")
	}
	switch {
	case r.in != nil:
		request.Header.Set("Content-Type", "application/json")
	case body != nil:
		if request.Header.Get("Content-Type") == "" {
			request.Header.Set("Content-Type", "application/octet-stream")
		}
		// What is refused is refused before it travels.
		request.Header.Set("Expect", "100-continue")
	}
	if c.end.Token != "" {
		request.Header.Set("Authorization", "Bearer "+c.end.Token)
	}
	if c.end.Via != "" {
		request.Header.Set(ViaHeader, c.end.Via)
	}
	return request, nil
}

// readProblem is the error in an answer.
func readProblem(answer *http.Response) *Problem {
	text, _ := io.ReadAll(io.LimitReader(answer.Body, maxProblem))
	kind, _, _ := mime.ParseMediaType(answer.Header.Get("Content-Type"))
	p := &Problem{}
	if kind != ProblemType || json.Unmarshal(text, p) != nil || p.Code == "" {
		return NewProblem(CodeInterruptedIO,
			fmt.Sprintf("brig answered with status %d, which is neither a result nor a problem", answer.StatusCode), "brig status")
	}
	p.Status = cmp.Or(p.Status, answer.StatusCode)
	if after, err := strconv.Atoi(answer.Header.Get("Retry-After")); err == nil && p.RetryAfter == 0 {
		p.RetryAfter = after
	}
	return p
}

// unanswered is why a request got no answer.
func unanswered(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ended(ctx)
	}
	if nobody(err) {
		return NewProblem(CodeUnreachable, "no brig answers: "+plain(err), "brig up")
	}
	return NewProblem(CodeInterruptedIO, "the connection to brig broke before it answered: "+plain(err), "brig status")
}

// broke is why an answer did not come to its end.
func broke(ctx context.Context, err error) error {
	var told *Problem
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return ended(ctx)
	case errors.As(err, &told):
		return err
	default:
		return NewProblem(CodeInterruptedIO, "brig's answer broke off: "+plain(err), "brig status")
	}
}

// endedError is the end of a caller's context, as a problem and as what it is.
type endedError struct {
	*Problem
	cause error
}

func (e *endedError) Unwrap() []error { return []error{e.Problem, e.cause} }

func ended(ctx context.Context) error {
	return &endedError{NewProblem(CodeDeadline, "the call was ended before brig answered: "+context.Cause(ctx).Error(), ""), context.Cause(ctx)}
}

// plain is a transport's error without the address that it repeats.
func plain(err error) string {
	var wrapped *url.Error
	if errors.As(err, &wrapped) {
		err = wrapped.Err
	}
	if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
		return "it was closed"
	}
	return err.Error()
}

// prefer is a Prefer header.
func prefer(words ...string) http.Header { return http.Header{"Prefer": {strings.Join(words, ", ")}} }

// waits is how long a call may wait, in whole seconds.
func waits(d time.Duration) http.Header {
	if d <= 0 {
		return nil
	}
	return prefer("wait=" + strconv.FormatInt(int64((d+time.Second-1)/time.Second), 10))
}
