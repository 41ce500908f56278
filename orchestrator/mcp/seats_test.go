package mcp

import (
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

func nobody(func(*sdk.ServerSession) bool) {}

// TestSeats: no credential takes the MCP sessions of all, and agents leave the operator some.
func TestSeats(t *testing.T) {
	var s seats
	taken := 0
	for ; taken < maxSessions; taken++ {
		if _, ok := s.take(nobody, Peer{ID: "session:x"}); !ok {
			break
		}
	}
	if taken != maxSessionsEach {
		t.Errorf("one credential took %d", taken)
	}
	settle, ok := s.take(nobody, Peer{ID: "session:y"})
	if !ok {
		t.Fatal("there is none for another")
	}
	settle("")
	for i := range maxSessions {
		_, _ = s.take(nobody, Peer{ID: "session:" + strconv.Itoa(i)})
	}
	if _, ok := s.take(nobody, Peer{ID: "agent"}); ok || len(s.pending) != maxSessionsAgents {
		t.Errorf("agents took %d", len(s.pending))
	}
	for range maxSessions - maxSessionsAgents {
		if _, ok := s.take(nobody, Peer{ID: "operator", Operator: true}); !ok {
			t.Fatal("there is none for the operator")
		}
	}
}

// TestPlainRefusals: what the SDK refuses in plain text becomes a problem.
func TestPlainRefusals(t *testing.T) {
	w := httptest.NewRecorder()
	p := &problems{ResponseWriter: w}
	http.Error(p, "session user mismatch "+strings.Repeat("x", 2*maxSentence), http.StatusForbidden)
	p.end()
	if r := w.Result(); r.StatusCode != 403 || r.Header.Get("Content-Type") != "application/problem+json" || !strings.Contains(w.Body.String(), `"code":"forbidden"`) || w.Body.Len() > 2*maxSentence {
		t.Errorf("%d %v %s", r.StatusCode, r.Header, w.Body)
	}
}
