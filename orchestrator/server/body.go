package server

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"time"
)

const (
	bodyGap   = 30 * time.Second // between two pieces of a body
	bodyStart = 60 * time.Second // for any body, however small
	bodyPace  = 1 << 10          // bytes per second that one has to keep up beyond that
	bodyRest  = 2 * time.Second  // for what a handler did not want to read
)

// pacedBody is a request's body that has to keep coming. Its deadline is gone as soon as
// the body has ended: what is read afterwards tells that the client has gone, and
// may take as long as the run does.
type pacedBody struct {
	io.ReadCloser
	deadline func(time.Time) error
	begun    time.Time
	gap      time.Duration
	read     int64
	ended    bool
}

// body gives the request a body with deadlines. The first counts from now: before an
// answer goes out, net/http reads what nobody has read, and would wait for it for ever.
func (q *request) body(w *writer, r *http.Request) *pacedBody {
	if r.Body == nil || r.Body == http.NoBody {
		return nil
	}
	b := &pacedBody{ReadCloser: r.Body, deadline: http.NewResponseController(w.ResponseWriter).SetReadDeadline, begun: time.Now(), gap: q.bodyGap}
	_ = b.deadline(b.begun.Add(b.gap)) // an error is the connection's, which shows itself
	r.Body = b
	return b
}

// Read fails with os.ErrDeadlineExceeded where the body comes too slowly.
func (b *pacedBody) Read(p []byte) (int, error) {
	now := time.Now()
	if limit := bodyStart + time.Duration(b.read/bodyPace)*time.Second; now.Sub(b.begun) > limit {
		return 0, fmt.Errorf("read the request: %w", os.ErrDeadlineExceeded)
	}
	if err := b.deadline(now.Add(b.gap)); err != nil {
		return 0, fmt.Errorf("read the request: %w", err)
	}
	n, err := b.ReadCloser.Read(p)
	b.read += int64(n)
	if err == io.EOF {
		b.ended = true
		_ = b.deadline(time.Time{}) // an error is the connection's, which shows itself
	}
	return n, err
}

// finish bounds what the server reads of a body that nobody wanted.
func (b *pacedBody) finish() {
	if b != nil && !b.ended {
		_ = b.deadline(time.Now().Add(bodyRest))
	}
}
