package server

import (
	"context"
	"net/http"
	"strings"
	"time"

	"brig/orchestrator/api"
)

// chain is what every request passes, whatever it asks for, in this order: it is
// seen (id, log, panics), its body has deadlines, its form, its host, the site that
// made it, its media type, whether brig is ending, who sends it, and how much that
// credential may do. Only then the mux looks at the path.
func (s *Server) chain() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, _ := r.Context().Value(connKey{}).(*conn)
		if c == nil {
			panic("BUG: a request without a connection of this server")
		}
		c.busy.Store(true)
		q := &request{Server: s, conn: c, id: newID(), begun: time.Now()}
		out := &writer{ResponseWriter: w, q: q}
		r = r.WithContext(context.WithValue(r.Context(), requestKey{}, q))
		defer q.settle(out, r)
		q.headers(out)
		q.serve(out, r)
	})
}

// serve lets a request pass or says why not.
func (q *request) serve(w *writer, r *http.Request) {
	b := q.body(w, r)
	defer b.finish()
	for _, check := range []func(*http.Request) *api.Problem{q.form, q.noted(q.host), q.noted(q.site), q.media, q.ending, q.authenticate} {
		if p := check(r); p != nil {
			q.refuse(w, r, p)
			return
		}
	}
	release, p := q.limits.enter(q.key())
	if p != nil {
		q.refuse(w, r, p)
		return
	}
	defer release()
	if q.revoked != nil {
		ctx, cancel := context.WithCancel(r.Context())
		defer cancel()
		go func() {
			select {
			case <-q.revoked: // also what was begun with it ends
				cancel()
			case <-ctx.Done():
			}
		}()
		r = r.WithContext(ctx)
	}
	q.dispatch(w, r)
}

// form refuses what no client of ours sends.
func (q *request) form(r *http.Request) *api.Problem {
	if r.Method == http.MethodConnect || r.Method == "PRI" { // which name no path
		return api.NewProblem(api.CodeMethod, "this is no proxy, and speaks HTTP/1.1", "")
	}
	if !strings.HasPrefix(r.URL.Path, "/") {
		return api.NewProblem(api.CodeMalformed, "the request names no path", "")
	}
	// The mux would answer these with a redirection to another path, which a client
	// that sends a body or a credential must not follow unseen.
	for part := range strings.SplitSeq(r.URL.EscapedPath()[1:], "/") {
		if part == "." || part == ".." {
			return api.NewProblem(api.CodeMalformed, "the path has a part that is . or .. in it", "")
		}
	}
	if strings.Contains(r.URL.EscapedPath(), "//") {
		return api.NewProblem(api.CodeMalformed, "the path has an empty part in it", "write an inner / of a name as %2F")
	}
	for _, name := range []string{"Authorization", "Origin", "Sec-Fetch-Site", "Content-Type"} {
		if len(r.Header[name]) > 1 {
			return api.NewProblem(api.CodeMalformed, "the header "+name+" is there more than once", "")
		}
	}
	return nil
}

// media refuses what a web page can post without being asked first whether it may.
func (q *request) media(r *http.Request) *api.Problem {
	if r.Method != http.MethodPost {
		return nil
	}
	kind, _, _ := strings.Cut(r.Header.Get("Content-Type"), ";")
	switch strings.ToLower(strings.TrimSpace(kind)) {
	case "text/plain", "application/x-www-form-urlencoded", "multipart/form-data":
		return api.NewProblem(api.CodeMedia, "a POST is JSON here", "send the header: Content-Type: application/json")
	}
	return nil
}

// ending refuses what is new while brig ends.
func (q *request) ending(r *http.Request) *api.Problem {
	if !q.isDraining() || r.URL.Path == healthPath {
		return nil
	}
	p := api.NewProblem(api.CodeShuttingDown, "brig is ending", "brig up")
	p.RetryAfter = retryDraining
	return p
}

// dispatch is the mux with problems where it would answer in plain text.
func (q *request) dispatch(w *writer, r *http.Request) {
	h, pattern := q.mux.Handler(r)
	q.route = pattern
	if pattern != "" {
		q.mux.ServeHTTP(w, r)
		return
	}
	probe := &discarded{header: http.Header{}}
	h.ServeHTTP(probe, r)
	if probe.status == http.StatusMethodNotAllowed {
		allowed := probe.header.Get("Allow")
		w.Header().Set("Allow", allowed)
		q.refuse(w, r, api.NewProblem(api.CodeMethod, "this path takes "+allowed, ""))
		return
	}
	q.refuse(w, r, api.NewProblem(api.CodeNotFound, "there is nothing at this path", "the paths are in /openapi.json"))
}

// discarded takes an answer of which only status and header matter.
type discarded struct {
	header http.Header
	status int
}

func (d *discarded) Header() http.Header         { return d.header }
func (d *discarded) WriteHeader(status int)      { d.status = status }
func (d *discarded) Write(p []byte) (int, error) { return len(p), nil }
