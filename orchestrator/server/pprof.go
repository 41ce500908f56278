package server

import (
	"net/http"
	"net/http/pprof"
)

// profiles are for the operator. Importing the package puts handlers into the
// default mux, which nothing here serves.
func (s *Server) profiles() {
	for path, h := range map[string]http.HandlerFunc{
		"/debug/pprof/": pprof.Index, "/debug/pprof/cmdline": pprof.Cmdline, "/debug/pprof/profile": pprof.Profile,
		"/debug/pprof/symbol": pprof.Symbol, "/debug/pprof/trace": pprof.Trace,
	} {
		s.mux.Handle("GET "+path, s.forOperator(h))
	}
}

// forOperator refuses everybody else.
func (s *Server) forOperator(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		q := r.Context().Value(requestKey{}).(*request)
		if p := q.operatorOnly(); p != nil {
			q.refuse(w, r, p)
			return
		}
		h.ServeHTTP(w, r)
	})
}
