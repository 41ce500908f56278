package server

import (
	"log"
	"net/http"
	"strings"
	"time"

	"github.com/rs/zerolog"
)

// log writes one line per request. What the client sent is only in fields.
func (q *request) log(w *writer, r *http.Request) {
	level := zerolog.DebugLevel
	switch {
	case w.status >= 500:
		level = zerolog.ErrorLevel
	case w.status == http.StatusUnauthorized || w.status == http.StatusForbidden || w.status == http.StatusMisdirectedRequest:
		level = zerolog.WarnLevel
	}
	e := q.options.Log.WithLevel(level).Str("request", q.id).Str("via", q.conn.via()).Str("caller", q.key()).
		Str("method", r.Method).Str("route", q.route).Int("status", w.status).Int64("bytes", w.bytes).Dur("took", time.Since(q.begun))
	if q.code != "" {
		e = e.Str("code", string(q.code))
	}
	e.Msg("request")
}

// quiet sends what net/http has to say to the log, as a field: it may quote clients.
func quiet(l zerolog.Logger) *log.Logger { return log.New(lines{l}, "", 0) }

type lines struct{ log zerolog.Logger }

func (l lines) Write(p []byte) (int, error) {
	l.log.Debug().Str("said", strings.TrimSpace(string(p))).Msg("http server")
	return len(p), nil
}
