package server

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"brig/orchestrator/sandbox/sandboxtest"
)

// A brig that cannot write down what it does is not well, and is again when it can.
func TestHealthOfTheStateDirectory(t *testing.T) {
	if os.Geteuid() != 0 {
		sandboxtest.Skip(t, "root, to make a directory one that nobody can write to", "an ordinary user")
	}
	w := listening(t)
	state := filepath.Join(filepath.Dir(w.dir), "s")
	ask := func(token string) (status int, said string, reasons []string) {
		t.Helper()
		q, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+w.bound.Address+"/healthz", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		if token != "" {
			q.Header.Set("Authorization", "Bearer "+token)
		}
		r, err := http.DefaultClient.Do(q)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Body.Close()
		var answer struct {
			Status  string
			Reasons []string
		}
		if err := json.NewDecoder(r.Body).Decode(&answer); err != nil {
			t.Fatal(err)
		}
		return r.StatusCode, answer.Status, answer.Reasons
	}
	until := func(want int) {
		t.Helper()
		for status, _, _ := ask(""); status != want; status, _, _ = ask("") {
			time.Sleep(50 * time.Millisecond)
		}
	}
	until(200)
	if err := syscall.Mount("tmpfs", state, "tmpfs", syscall.MS_RDONLY, ""); err != nil {
		sandboxtest.Skip(t, "a tmpfs of its own", err.Error())
	}
	until(503)
	status, said, reasons := ask("")
	if status != 503 || said != "failing" || reasons != nil {
		t.Errorf("a stranger: %d %s %q", status, said, reasons)
	}
	if _, _, reasons = ask(w.person); !strings.Contains(strings.Join(reasons, ", "), state) {
		t.Errorf("the operator: %q", reasons)
	}
	if _, _, reasons = ask(w.agent); len(reasons) == 0 || strings.Contains(strings.Join(reasons, ", "), state) {
		t.Errorf("an agent: %q", reasons)
	}
	if err := syscall.Unmount(state, syscall.MNT_DETACH); err != nil {
		t.Fatal(err)
	}
	until(200)
}
