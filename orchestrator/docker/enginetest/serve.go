package enginetest

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strconv"
	"strings"
)

// request is one of a client, with what its path names.
type request struct {
	*http.Request
	name  string
	op    Op
	do    func(e *Engine, d *daemon, w http.ResponseWriter, r *request)
	fault Fault // that it meets
}

// route is one line of the API. Of a pattern's groups the first is the name.
type route struct {
	method  string
	pattern *regexp.Regexp
	op      Op
	do      func(e *Engine, d *daemon, w http.ResponseWriter, r *request)
}

func routes() []route {
	on := func(method, pattern string, op Op, do func(*Engine, *daemon, http.ResponseWriter, *request)) route {
		return route{method, regexp.MustCompile("^" + pattern + "$"), op, do}
	}
	const name = "/([^/]+)"
	return []route{
		on("GET", "/_ping", Ping, (*Engine).ping),
		on("HEAD", "/_ping", Ping, (*Engine).ping),
		on("GET", "/version", Version, (*Engine).version),
		on("GET", "/info", Info, (*Engine).info),
		on("GET", "/events", Events, (*Engine).events),
		on("POST", "/build", Build, (*Engine).build),
		on("GET", "/images/json", ListImages, (*Engine).listImages),
		on("GET", "/images/(.+)/json", InspectImage, (*Engine).inspectImage),
		on("POST", "/images/(.+)/tag", TagImage, (*Engine).tagImage),
		on("DELETE", "/images/(.+)", RemoveImage, (*Engine).removeImage),
		on("GET", "/containers/json", List, (*Engine).list),
		on("POST", "/containers/create", Create, (*Engine).create),
		on("POST", "/containers/prune", Prune, (*Engine).prune),
		on("GET", "/containers"+name+"/json", Inspect, (*Engine).inspect),
		on("POST", "/containers"+name+"/attach", Attach, (*Engine).attach),
		on("POST", "/containers"+name+"/start", Start, (*Engine).start),
		on("POST", "/containers"+name+"/wait", Wait, (*Engine).wait),
		on("POST", "/containers"+name+"/kill", KillContainer, (*Engine).killOne),
		on("POST", "/containers"+name+"/pause", PauseOp, (*Engine).pause),
		on("POST", "/containers"+name+"/unpause", UnpauseOp, (*Engine).unpause),
		on("DELETE", "/containers"+name, Remove, (*Engine).remove),
	}
}

// streams tells which requests are answered bit by bit.
func (op Op) streams() bool { return op == Attach || op == Wait || op == Events || op == Build }

func (e *Engine) handle(d *daemon, w http.ResponseWriter, r *http.Request) {
	if !d.pass() {
		abort()
	}
	asked, ok := e.parse(w, r)
	if !ok {
		return
	}
	injected := e.fault(asked.op)
	if injected == nil {
		e.carryOut(d, asked).send(w)
		return
	}
	f := injected.fault
	asked.fault = f
	if f.CutAfter > 0 && asked.op != Attach {
		r.Context().Value(connKey{}).(*conn).cutAfter(f.CutAfter)
	}
	switch {
	case !f.After:
		if !injected.wait(r.Context(), d) {
			abort()
		}
		if f.replaces() {
			injected.answer(e, w)
			return
		}
		e.carryOut(d, asked).send(w)
	case asked.op.streams():
		panic("BUG: " + string(asked.op) + " is a stream, which has no time after its effect")
	default:
		done := e.carryOut(d, asked)
		if !injected.wait(r.Context(), d) {
			abort()
		}
		if f.replaces() {
			injected.answer(e, w)
			return
		}
		done.send(w)
	}
}

// abort ends a request of a daemon that is gone: returning would be an answer.
func abort() { panic(http.ErrAbortHandler) }

// carriedOut is what became of a request: an answer, or a stream that is still to come.
type carriedOut struct {
	recorded *httptest.ResponseRecorder
	stream   func(w http.ResponseWriter)
}

// carryOut lets a request have its effect. Nothing is written to the client under a
// lock of the engine: one that does not read would hold everybody.
func (e *Engine) carryOut(d *daemon, r *request) carriedOut {
	if r.op.streams() {
		return carriedOut{stream: func(w http.ResponseWriter) { r.do(e, d, w, r) }}
	}
	recorded := httptest.NewRecorder()
	r.do(e, d, recorded, r)
	return carriedOut{recorded: recorded}
}

func (c carriedOut) send(w http.ResponseWriter) {
	if c.stream != nil {
		c.stream(w)
		return
	}
	for name, values := range c.recorded.Header() {
		w.Header()[name] = values
	}
	w.WriteHeader(c.recorded.Code)
	_, _ = w.Write(c.recorded.Body.Bytes())
}

// parse finds out what is asked, and answers what no part of the API is.
func (e *Engine) parse(w http.ResponseWriter, r *http.Request) (*request, bool) {
	path := r.URL.Path
	if version, rest, ok := strings.Cut(strings.TrimPrefix(path, "/v"), "/"); ok && strings.HasPrefix(path, "/v") && version[0] <= '9' {
		path = "/" + rest
		switch {
		case compare(version, e.flavor.API) > 0:
			e.fail(w, http.StatusBadRequest, "client version "+version+" is too new. Maximum supported API version is "+e.flavor.API)
			return nil, false
		case compare(version, e.flavor.MinAPI) < 0:
			e.fail(w, http.StatusBadRequest, "client version "+version+" is too old. Minimum supported API version is "+e.flavor.MinAPI+", please upgrade your client to a newer version")
			return nil, false
		}
	}
	for _, route := range routes() {
		if match := route.pattern.FindStringSubmatch(path); match != nil && route.method == r.Method {
			asked := &request{Request: r, op: route.op, do: route.do}
			if len(match) > 1 {
				asked.name = match[1]
			}
			return asked, true
		}
	}
	answer(w, http.StatusNotFound, map[string]string{"message": "page not found"})
	return nil, false
}

// headers are in every answer of a handler.
func (e *Engine) headers(w http.ResponseWriter) {
	h := w.Header()
	h.Set("Api-Version", e.flavor.API)
	h.Set("Docker-Experimental", "false")
	h.Set("Ostype", "linux")
	h.Set("Server", "Docker/"+e.flavor.Version+" (linux)")
	if e.flavor.Podman {
		h.Set("Server", "Libpod/"+e.flavor.Version+" (linux)")
	}
}

func (e *Engine) fail(w http.ResponseWriter, status int, message string) {
	e.headers(w)
	answer(w, status, map[string]string{"message": message})
}

func (e *Engine) ok(w http.ResponseWriter, status int, body any) {
	e.headers(w)
	answer(w, status, body)
}

func answer(w http.ResponseWriter, status int, body any) {
	if body == nil {
		w.WriteHeader(status)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body)
}

// filters are how lists and events are narrowed: name → values. Clients send each
// set of values as a list or as an object whose keys they are.
func filters(r *request) map[string][]string {
	found := map[string][]string{}
	var sets map[string]json.RawMessage
	if json.Unmarshal([]byte(r.URL.Query().Get("filters")), &sets) != nil {
		return found
	}
	for name, set := range sets {
		var keys map[string]bool
		var list []string
		if json.Unmarshal(set, &keys) == nil {
			for key := range keys {
				list = append(list, key)
			}
		} else {
			_ = json.Unmarshal(set, &list)
		}
		found[name] = list
	}
	return found
}

// labelled tells whether labels have every one that is wanted, "name" or "name=value".
func labelled(labels map[string]string, wanted []string) bool {
	for _, want := range wanted {
		name, value, valued := strings.Cut(want, "=")
		have, ok := labels[name]
		if !ok || valued && have != value {
			return false
		}
	}
	return true
}

func compare(a, b string) int {
	x, y := strings.Split(a, "."), strings.Split(b, ".")
	for n := range max(len(x), len(y)) {
		var i, j int
		if n < len(x) {
			i, _ = strconv.Atoi(x[n])
		}
		if n < len(y) {
			j, _ = strconv.Atoi(y[n])
		}
		if i != j {
			return i - j
		}
	}
	return 0
}
