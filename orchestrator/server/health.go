package server

import (
	"encoding/json"
	"net/http"
)

// health answers whoever asks that brig lives; why it is less than well is for
// those who are known.
func (s *Server) health(w http.ResponseWriter, r *http.Request) {
	answer := map[string]any{"status": "ok"}
	status := http.StatusOK
	if s.isDraining() {
		answer["status"], status = "ending", http.StatusServiceUnavailable
	}
	if _, known := CallerFrom(r.Context()); known && !s.isDraining() {
		if now, err := s.brig(r.Context()).Status(r.Context()); err == nil {
			reasons := append([]string{}, now.Problems...)
			for _, refusal := range now.Isolation.Refusals {
				reasons = append(reasons, refusal.Backend+": "+refusal.Reason)
			}
			answer["reasons"], answer["resolved"], answer["degraded"] = reasons, now.Isolation.Resolved, now.Isolation.Degraded
		}
	}
	text, _ := json.Marshal(answer) // of strings
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(append(text, '\n')) // a client that has gone needs no answer
}
