package server

import (
	"net/http"

	"brig/orchestrator/api"
)

// site refuses what a web page of another site made, and of another port of this
// machine, whatever the method: there is no reader and no writer from elsewhere, so
// there are no CORS headers either. net/http's own check lets reads through.
func (q *request) site(r *http.Request) *api.Problem {
	foreign := api.NewProblem(api.CodeForbidden, "the request was made by a page of another site", "open the address itself, or send it from a program")
	if http.NewCrossOriginProtection().Check(r) != nil {
		return foreign
	}
	switch r.Header.Get("Sec-Fetch-Site") {
	case "", "none", "same-origin":
	default: // same-site is another port of this machine
		return foreign
	}
	if origin := r.Header.Get("Origin"); origin != "" && origin != "http://"+r.Host {
		return foreign
	}
	return nil
}
