package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"brig/orchestrator/api"
)

type inReadFile struct {
	FilePart
	Range       string `header:"Range" maxLength:"1024" doc:"one range of bytes; more than one, or another unit: the whole file" example:"bytes=0-1023"`
	IfRange     string `header:"If-Range" maxLength:"1024" doc:"the range is meant of the file with this ETag, otherwise the whole is wanted"`
	IfMatch     string `header:"If-Match" maxLength:"1024"`
	IfNoneMatch string `header:"If-None-Match" maxLength:"1024"`
}

// changing is how often a file is looked at anew that changes between look and read.
const changing = 3

func (s *surface) readFile(ctx context.Context, in *inReadFile) (*huma.StreamResponse, error) {
	b := s.brigOf(ctx)
	for range changing {
		f, err := b.StatFile(ctx, in.Session, in.Path)
		if err != nil {
			return nil, err
		}
		if in.IfMatch != "" && !matches(in.IfMatch, f.ETag, false) {
			return nil, api.NewProblem(api.CodePrecondition, "the file is not the one of If-Match", "read it anew")
		}
		if in.IfNoneMatch != "" && matches(in.IfNoneMatch, f.ETag, true) {
			return unchanged(f), nil
		}
		part, partial, err := in.part(f)
		if api.IsProblem(err, api.CodeRange) {
			return s.outside(f, err), nil
		}
		if err != nil {
			return nil, err
		}
		answer, again, err := s.openFile(ctx, b, in, f, part, partial)
		if err != nil {
			return nil, err
		}
		if !again {
			return answer, nil
		}
	}
	return nil, api.NewProblem(api.CodeConflict, "the file changes all the time", "try again when what writes it has ended")
}

// openFile opens what was looked at. again: it is another file by now.
func (s *surface) openFile(ctx context.Context, b api.Brig, in *inReadFile, seen api.File, part api.Range, partial bool) (_ *huma.StreamResponse, again bool, err error) {
	if partial && part.Length == 0 { // a length of zero would mean the rest
		return nil, false, rangeProblem(seen.Bytes)
	}
	content, f, err := b.ReadFile(ctx, in.Session, in.Path, part)
	if err != nil {
		return nil, false, err
	}
	if f.ETag != seen.ETag || f.Bytes != seen.Bytes {
		return nil, true, content.Close()
	}
	return &huma.StreamResponse{Body: func(c huma.Context) {
		defer func() { _ = content.Close() }() // it was only read
		r, w := humago.Unwrap(c)
		length, status := f.Bytes, http.StatusOK
		if partial {
			length, status = part.Length, http.StatusPartialContent
			w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", part.Offset, part.Offset+part.Length-1, f.Bytes))
		}
		fileHeader(w, f)
		bytesHeader(w, f.Path, fileType, length)
		w.WriteHeader(status)
		if r.Method == http.MethodHead {
			return
		}
		copyOut(w, io.LimitReader(content, length), length)
	}}, false, nil
}

// outside refuses a range and says, as RFC 9110 wants it, how much there is.
func (s *surface) outside(f api.File, err error) *huma.StreamResponse {
	return &huma.StreamResponse{Body: func(c huma.Context) {
		r, w := humago.Unwrap(c)
		w.Header().Set("Content-Range", fmt.Sprintf("bytes */%d", f.Bytes))
		s.fail(w, r, err)
	}}
}

func fileHeader(w http.ResponseWriter, f api.File) {
	w.Header().Set("ETag", f.ETag)
	w.Header().Set("Accept-Ranges", "bytes")
	w.Header().Set("Last-Modified", f.Modified.UTC().Format(http.TimeFormat))
	w.Header().Set(api.ModifiedHeader, f.Modified.UTC().Format(time.RFC3339Nano))
}

func unchanged(f api.File) *huma.StreamResponse {
	return &huma.StreamResponse{Body: func(c huma.Context) {
		_, w := humago.Unwrap(c)
		fileHeader(w, f)
		w.WriteHeader(http.StatusNotModified)
	}}
}

// copyOut sends content, which has length bytes (-1: not known). An answer that cannot
// be completed is cut off, so that nobody takes a part for the whole.
func copyOut(w http.ResponseWriter, content io.Reader, length int64) {
	n, err := io.Copy(w, content)
	if err != nil || length >= 0 && n != length {
		panic(http.ErrAbortHandler)
	}
}

// part is the range that is asked for; partial is false where the whole is.
func (in *inReadFile) part(f api.File) (_ api.Range, partial bool, _ error) {
	if in.Range == "" || in.IfRange != "" && !matches(in.IfRange, f.ETag, false) {
		return api.Range{}, false, nil
	}
	first, last, err := byteRange(in.Range, f.Bytes)
	switch {
	case errors.Is(err, errIgnoreRange):
		return api.Range{}, false, nil
	case err != nil:
		return api.Range{}, false, err
	}
	return api.Range{Offset: first, Length: last - first + 1}, true, nil
}

// errIgnoreRange says that the whole is the answer, as RFC 9110 allows.
var errIgnoreRange = errors.New("not one range of bytes")

// byteRange reads one range of bytes of something with size bytes; last is included.
func byteRange(header string, size int64) (first, last int64, err error) {
	unit, spec, ok := strings.Cut(header, "=")
	if !ok || !strings.EqualFold(strings.TrimSpace(unit), "bytes") || strings.Contains(spec, ",") {
		return 0, 0, errIgnoreRange
	}
	from, to, ok := strings.Cut(strings.TrimSpace(spec), "-")
	if !ok {
		return 0, 0, errIgnoreRange
	}
	if from == "" { // the last so many
		n, ok := decimal(to)
		if !ok {
			return 0, 0, errIgnoreRange
		}
		if n == 0 || size == 0 {
			return 0, 0, rangeProblem(size)
		}
		return max(size-n, 0), size - 1, nil
	}
	first, ok = decimal(from)
	if !ok {
		return 0, 0, errIgnoreRange
	}
	last = size - 1
	if to != "" {
		end, ok := decimal(to)
		if !ok || end < first {
			return 0, 0, errIgnoreRange
		}
		last = min(last, end)
	}
	if first >= size {
		return 0, 0, rangeProblem(size)
	}
	return first, last, nil
}

// decimal reads digits; a number that is too large for a file is the largest.
func decimal(s string) (int64, bool) {
	if s == "" || strings.Trim(s, "0123456789") != "" {
		return 0, false
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		return 1<<63 - 1, true
	}
	return n, true
}

func rangeProblem(size int64) error {
	return api.NewProblem(api.CodeRange, fmt.Sprintf("the file has %d bytes; the range lies outside", size), "")
}

// matches says whether a list of ETags, or *, holds for tag. weak: a weak one counts as
// well, as If-None-Match wants it.
func matches(list, tag string, weak bool) bool {
	if strings.TrimSpace(list) == "*" {
		return true
	}
	for one := range strings.SplitSeq(list, ",") {
		one = strings.TrimSpace(one)
		if weak {
			one = strings.TrimPrefix(one, "W/")
		}
		if one == tag {
			return true
		}
	}
	return false
}
