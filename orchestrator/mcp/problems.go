package mcp

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"

	"brig/orchestrator/api"
)

// refuse answers with a problem, as every other path of brig does.
func refuse(w http.ResponseWriter, p *api.Problem) {
	text, err := json.Marshal(p)
	if err != nil {
		panic("BUG: a problem cannot be written: " + err.Error())
	}
	h := w.Header()
	h.Set("Content-Type", api.ProblemType)
	if p.RetryAfter > 0 {
		h.Set("Retry-After", strconv.Itoa(p.RetryAfter))
	}
	w.WriteHeader(p.Status)
	_, _ = w.Write(text) // who is gone needs no answer
}

// maxSentence bounds what is passed on of the SDK's own words, in bytes.
const maxSentence = 300

// problems makes a problem of what the SDK refuses in plain text.
type problems struct {
	http.ResponseWriter
	code int // of a refusal in plain text; 0: it passes as it is
	text []byte
}

func (p *problems) WriteHeader(code int) {
	if code >= 400 && strings.HasPrefix(p.Header().Get("Content-Type"), "text/plain") {
		p.code = code
		return
	}
	p.ResponseWriter.WriteHeader(code)
}

func (p *problems) Write(b []byte) (int, error) {
	if p.code == 0 {
		return p.ResponseWriter.Write(b)
	}
	p.text = append(p.text, b[:min(len(b), maxSentence-len(p.text))]...)
	return len(b), nil
}

func (p *problems) Unwrap() http.ResponseWriter { return p.ResponseWriter }

// end writes the problem, where there was a refusal.
func (p *problems) end() {
	if p.code == 0 {
		return
	}
	code, known := map[int]api.Code{
		400: api.CodeMalformed, 401: api.CodeUnauthorized, 403: api.CodeForbidden, 404: api.CodeNotFound, 405: api.CodeMethod,
		406: api.CodeNotAccepted, 409: api.CodeConflict, 413: api.CodeTooLarge, 415: api.CodeMedia, 429: api.CodeTooMany,
	}[p.code]
	if !known {
		code = api.CodeInternal
	}
	told := api.NewProblem(code, strings.ToValidUTF8(strings.TrimSpace(string(p.text)), "\uFFFD"), "")
	p.code = 0
	p.Header().Del("Content-Length")
	refuse(p.ResponseWriter, told)
}
