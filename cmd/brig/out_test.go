package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"brig/orchestrator"
	"brig/orchestrator/config"
	"brig/orchestrator/sandbox"
	"brig/orchestrator/workspace"
)

// TestBringWithoutDestination: a directory that went away, or a signal, costs the
// files that did not come and nothing else.
func TestBringWithoutDestination(t *testing.T) {
	dir := t.TempDir()
	w, err := workspace.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.Close() })
	before, err := w.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"a", "b"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	out, err := openOut(filepath.Join(t.TempDir(), "out"), false)
	if err != nil {
		t.Fatal(err)
	}
	if b := out.bring(t.Context(), w, before, nil); len(b.files) != 2 || len(b.left) != 0 {
		t.Fatalf("the control brought %v and left %v", b.files, b.left)
	}
	if err := os.RemoveAll(out.dir); err != nil {
		t.Fatal(err)
	}
	b := out.bring(t.Context(), w, before, nil)
	if len(b.files) != 0 || len(b.left) != 2 || !b.left[0].lost || !strings.HasPrefix(b.left[1].String(), "b: ") {
		t.Errorf("brought %v, left %v", b.files, b.left)
	}
}

// TestUndelivered: what did not arrive turns success into 125 and nothing else.
func TestUndelivered(t *testing.T) {
	sig := watchSignals(t.Context())
	defer sig.close()
	for _, c := range []struct {
		name    string
		cause   sandbox.Cause
		status  int
		left    []stayed
		unsaved []string
		closing error
		want    exitCode
	}{
		{name: "all", cause: sandbox.OK, want: exitOK},
		{name: "link", cause: sandbox.OK, left: []stayed{{name: "l", why: "a link"}}, want: exitOK},
		{name: "file", cause: sandbox.OK, left: []stayed{{name: "f", why: "full", lost: true}}, want: exitFailed},
		{name: "figure", cause: sandbox.OK, unsaved: []string{"full"}, want: exitFailed},
		{name: "end", cause: sandbox.OK, closing: errors.New("stuck"), want: exitFailed},
		{name: "status", cause: sandbox.Exit, status: 7, left: []stayed{{name: "f", why: "full", lost: true}}, want: 7},
		{name: "zero", cause: sandbox.Exit, status: 0, unsaved: []string{"full"}, want: exitFailed},
		{name: "timeout", cause: sandbox.Timeout, unsaved: []string{"full"}, want: exitTimeout},
	} {
		e := &execution{signals: sig, sink: &sink{unsaved: c.unsaved}, brought: brought{left: c.left}, closing: c.closing}
		e.result.Cause, e.result.Status = c.cause, c.status
		if got := e.code(); got != c.want {
			t.Errorf("%s: exit code %d, want %d", c.name, got, c.want)
		}
	}
}

// TestExtra: a detail is told where it says more than the cause, and once.
func TestExtra(t *testing.T) {
	for _, c := range []struct {
		cause        sandbox.Cause
		status       int
		detail, want string
	}{
		{sandbox.OK, 0, "", ""},
		{sandbox.OK, 0, "the kernel killed a process at the memory limit of 1 GiB", "the kernel killed a process at the memory limit of 1 GiB"},
		{sandbox.Exit, 3, "it ended with status 3", ""},
		{sandbox.Exit, 3, "it ended with status 3; the state is lost", "the state is lost"},
		{sandbox.Interrupted, 0, "it was interrupted", ""},
		{sandbox.Interrupted, 0, "it was interrupted by force", "it was interrupted by force"},
		{sandbox.Timeout, 0, "it was stopped", ""},
		{sandbox.Exception, 0, "a\x1bb", `a\x1bb`},
	} {
		e := &execution{result: orchestrator.Result{Cause: c.cause, Status: c.status, Detail: c.detail}}
		if got := e.extra(); got != c.want {
			t.Errorf("%s %q: %q, want %q", c.cause, c.detail, got, c.want)
		}
	}
}

// TestConsent: brig names the very file that the orchestrator writes.
func TestConsent(t *testing.T) {
	paths := config.Paths{State: t.TempDir()}
	if _, given := consentOf(paths); given {
		t.Error("there is a consent that nobody gave")
	}
	if err := orchestrator.Acknowledge(paths); err != nil {
		t.Fatal(err)
	}
	c, given := consentOf(paths)
	if !given || c.Since == nil {
		t.Fatalf("consent %+v, %v", c, given)
	}
	if err := os.Remove(c.File); err != nil {
		t.Fatal(err)
	}
	if _, given := consentOf(paths); given {
		t.Error("the consent outlives its file")
	}
}
