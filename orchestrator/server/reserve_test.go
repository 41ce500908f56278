package server

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"brig/orchestrator/api"
)

// Agents, with all tokens that they make, leave streams to the operator.
func TestStreamsForTheOperator(t *testing.T) {
	c := newSurface(surface{}).streams
	n := 0
	for ; n < 2*maxStreams; n++ {
		if _, err := c.take("session:"+strconv.Itoa(n), agentID); err != nil {
			break
		}
	}
	if n != maxStreamsAgents {
		t.Errorf("agents took %d", n)
	}
	release, err := c.take(operatorID, operatorID)
	if err != nil {
		t.Fatal(err)
	}
	release()
}

// The token of MCP clients is good for their tools alone.
func TestTokenOfTools(t *testing.T) {
	w := listening(t)
	text, err := os.ReadFile(filepath.Join(w.dir, api.MCPToken))
	if err != nil {
		t.Fatal(err)
	}
	token := bearer(strings.TrimSpace(string(text)))
	for _, path := range []string{"/v1/status", "/v1/sessions", "/metrics", "/mcp/x"} {
		if r := w.get(t, "tcp", path, token); r.StatusCode != 403 {
			t.Errorf("%s: %d", path, r.StatusCode)
		}
	}
	if r := w.get(t, "tcp", "/mcp", token); r.StatusCode == 401 || r.StatusCode == 403 {
		t.Errorf("/mcp: %d", r.StatusCode)
	}
}

// A HEAD does not use a login up.
func TestLoginByHead(t *testing.T) {
	w := withWho(t)
	login, err := w.Login()
	if err != nil {
		t.Fatal(err)
	}
	path := strings.TrimPrefix(login.URL, "http://"+w.bound.Address)
	head := w.raw(t, "tcp", "HEAD "+path+" HTTP/1.1\r\nHost: "+w.bound.Address+"\r\nSec-Fetch-Site: none\r\nConnection: close\r\n\r\n")
	if head.StatusCode != 405 || len(head.Cookies()) != 0 {
		t.Errorf("%d %v", head.StatusCode, head.Cookies())
	}
	if r := w.get(t, "tcp", path, "Sec-Fetch-Site: none"); r.StatusCode != 303 {
		t.Errorf("%d", r.StatusCode)
	}
}
