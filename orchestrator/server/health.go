package server

import (
	"encoding/json"
	"net/http"

	"brig/orchestrator/service"
)

// health answers whoever asks that brig lives and can work: it does not while it
// ends, and while its state cannot be written. Why it is less than well is for those
// who are known, what the system says about it for the operator.
func (s *Server) health(w http.ResponseWriter, r *http.Request) {
	answer := map[string]any{"status": "ok"}
	status := http.StatusOK
	stuck := s.options.Service.Writable()
	switch {
	case s.isDraining():
		answer["status"], status = "ending", http.StatusServiceUnavailable
	case stuck != nil:
		answer["status"], status = "failing", http.StatusServiceUnavailable
	}
	if c, known := CallerFrom(r.Context()); known && !s.isDraining() {
		if now, err := s.brig(r.Context()).Status(r.Context()); err == nil {
			reasons := append([]string{}, now.Problems...)
			for _, refusal := range now.Isolation.Refusals {
				reasons = append(reasons, refusal.Backend+": "+refusal.Reason)
			}
			if stuck != nil && c.Role != service.Operator { // the operator's problems have it
				reasons = append(reasons, "the state directory cannot be written")
			}
			answer["reasons"], answer["resolved"], answer["degraded"] = reasons, now.Isolation.Resolved, now.Isolation.Degraded
		}
	}
	text, _ := json.Marshal(answer) // of strings
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(append(text, '\n')) // a client that has gone needs no answer
}
