package server

import (
	"crypto/sha256"
	"fmt"
	"net/http"
	"sync"
	"time"

	"brig/orchestrator/api"
	"brig/orchestrator/audit"
	"brig/orchestrator/service"
)

const (
	cookieName  = "brig_page"
	loginBound  = 60 * time.Second
	pageBound   = 12 * time.Hour
	maxPages    = 64 // open pages, and tokens that wait
	maxCookies  = 8  // of our name in one request: another port can set one too
	loginTarget = "/v1/status"
)

// logins are the one-time tokens that wait to be used, and the pages that came of
// them, by their hashes. Nothing of it is on the disk: it ends with this brig.
type logins struct {
	mu      sync.Mutex
	waiting map[[sha256.Size]byte]time.Time // guarded by mu, as below: until when
	pages   map[[sha256.Size]byte]time.Time
}

func newLogins() *logins {
	return &logins{waiting: map[[sha256.Size]byte]time.Time{}, pages: map[[sha256.Size]byte]time.Time{}}
}

// issue remembers a new token until then.
func issue(m map[[sha256.Size]byte]time.Time, until time.Time) (token string, ok bool) {
	for hash, end := range m {
		if time.Now().After(end) {
			delete(m, hash)
		}
	}
	if len(m) >= maxPages {
		return "", false
	}
	token = newToken()
	m[sha256.Sum256([]byte(token))] = until
	return token, true
}

// Login makes a one-time token with which a browser becomes a page of the operator's.
func (s *Server) Login() (api.PageLogin, error) {
	s.mu.Lock()
	address := s.bound
	s.mu.Unlock()
	if address == "" {
		return api.PageLogin{}, api.NewProblem(api.CodeConflict, "brig listens on sockets only, which no browser can open", `set server.listen = "127.0.0.1:7411"`)
	}
	s.logins.mu.Lock()
	defer s.logins.mu.Unlock()
	until := time.Now().Add(loginBound)
	token, ok := issue(s.logins.waiting, until)
	if !ok {
		return api.PageLogin{}, later(api.CodeTooMany, "too many logins wait to be used")
	}
	return api.PageLogin{URL: fmt.Sprintf("http://%s%s?t=%s", address, loginPath, token), Expires: until.UTC()}, nil
}

// login turns a one-time token into the cookie of a page.
func (s *Server) login(w http.ResponseWriter, r *http.Request) {
	q := r.Context().Value(requestKey{}).(*request)
	if r.Method != http.MethodGet { // the mux passes HEAD too, which must not use the login up
		w.Header().Set("Allow", http.MethodGet)
		q.refuse(w, r, api.NewProblem(api.CodeMethod, "this path takes GET", ""))
		return
	}
	hash := sha256.Sum256([]byte(r.URL.Query().Get("t")))
	s.logins.mu.Lock()
	until, known := s.logins.waiting[hash]
	delete(s.logins.waiting, hash)
	var cookie string
	ok := known && time.Now().Before(until) && q.conn.from == loopback
	if ok {
		cookie, ok = issue(s.logins.pages, time.Now().Add(pageBound))
	}
	s.logins.mu.Unlock()
	if !ok {
		s.metrics.strangers.Inc()
		p := s.limits.strange()
		if p == nil {
			p = api.NewProblem(api.CodeUnauthorized, "this login was used, has expired, or never was one", "ask for a new one: POST /v1/login on operator.sock")
		}
		q.refuse(w, r, p)
		return
	}
	if s.options.Audit != nil { // who can do everything is on record before that
		if _, err := s.options.Audit.Append(r.Context(), audit.Entry{
			Kind: audit.KindLogin, Actor: operatorID + " through " + q.conn.via(), Data: audit.EventData{Event: "opened", Values: map[string]string{"request": q.id}},
		}); err != nil {
			q.refuse(w, r, api.NewProblem(api.CodeStorage, "the audit log takes nothing, so nobody is let in", "df -h"))
			return
		}
	}
	http.SetCookie(w, &http.Cookie{Name: cookieName, Value: cookie, Path: "/", HttpOnly: true, SameSite: http.SameSiteStrictMode, MaxAge: int(pageBound.Seconds())})
	http.Redirect(w, r, loginTarget, http.StatusSeeOther)
}

// noLogin leaves a login for whoever opens it: what only looks at an address uses HEAD.
func (s *Server) noLogin(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Allow", http.MethodGet)
	r.Context().Value(requestKey{}).(*request).refuse(w, r, api.NewProblem(api.CodeMethod, "this path takes GET", ""))
}

// pageCaller is the operator, where the request has the cookie of a page and the
// browser says that nobody else's page made it. A browser sends the cookie to every
// port of the host, so what came from elsewhere is not told by the cookie.
func (q *request) pageCaller(r *http.Request) *service.Caller {
	if from := r.Header.Get("Sec-Fetch-Site"); q.conn.from != loopback || from != "same-origin" && from != "none" {
		return nil
	}
	cookies := r.CookiesNamed(cookieName)
	q.logins.mu.Lock()
	defer q.logins.mu.Unlock()
	for _, c := range cookies[:min(len(cookies), maxCookies)] {
		hash := sha256.Sum256([]byte(c.Value))
		if until, ok := q.logins.pages[hash]; ok && time.Now().Before(until) {
			return &service.Caller{Role: service.Operator, ID: operatorID}
		}
	}
	return nil
}
