package server

import (
	"errors"
	"net/http"
	"time"

	"brig/orchestrator/api"
)

// writer is an answer that knows what was written of it. The deadlines of the
// connection are not for handlers to set: each write has one (see conn) and so has
// each read of a body, and one that stayed behind would end a long run.
type writer struct {
	http.ResponseWriter
	q      *request
	status int
	bytes  int64
}

func (w *writer) WriteHeader(status int) {
	if w.status == 0 && status >= 200 {
		w.status = status
		if w.q.code == api.CodeTooMany { // whoever has too many of something keeps no connection for it
			w.Header().Set("Connection", "close")
		}
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *writer) Write(p []byte) (int, error) {
	if w.status == 0 {
		w.status = http.StatusOK
	}
	n, err := w.ResponseWriter.Write(p)
	w.bytes += int64(n)
	return n, err
}

// FlushError sends what is held back; an error means that nobody reads any more.
func (w *writer) FlushError() error {
	if w.status == 0 {
		w.status = http.StatusOK
	}
	f, ok := w.ResponseWriter.(interface{ FlushError() error })
	if !ok {
		return errors.ErrUnsupported
	}
	return f.FlushError()
}

// Flush is FlushError for those who do not ask.
func (w *writer) Flush() { _ = w.FlushError() }

// SetReadDeadline does nothing; see writer.
func (w *writer) SetReadDeadline(time.Time) error { return nil }

// SetWriteDeadline does nothing; see writer.
func (w *writer) SetWriteDeadline(time.Time) error { return nil }
