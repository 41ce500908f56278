package store

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"brig/orchestrator/sandbox"
)

const (
	ownerA = "0123456789abcdef0123456789abcdef"
	ownerB = "ffffffffffffffffffffffffffffffff"
	procA  = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
	procB  = "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(childDir); dir != "" {
		os.Exit(child(dir))
	}
	if dir := os.Getenv(traceVar); dir != "" {
		if err := traced(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func stateDir(t testing.TB) string { return filepath.Join(t.TempDir(), "state") }

// open opens as a process of ownerA and closes with the test.
func open(t testing.TB, dir, process string) *Store {
	t.Helper()
	s, report := reopen(t, dir, ownerA, process)
	if report != (Report{}) {
		t.Fatalf("reported %+v", report)
	}
	return s
}

func reopen(t testing.TB, dir, owner, process string) (*Store, Report) {
	t.Helper()
	s, report, err := Open(t.Context(), Options{Dir: dir, Owner: owner, Process: process})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { shut(t, s) })
	return s, report
}

func shut(t testing.TB, s *Store) {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

func row(id string) Session {
	base := sandbox.Base{Image: "core", Network: sandbox.NetworkDeny, Limits: sandbox.DefaultLimits()}
	now := time.UnixMilli(time.Now().UnixMilli())
	return Session{
		ID: id, Name: "name of " + id, Want: sandbox.Docker, Backend: sandbox.Docker, Base: &base,
		Workspace: "/a/b", Home: "/a", Timezone: "Europe/Berlin", Locale: "de_DE.UTF-8", Created: now, Lifetime: time.Hour, Used: now, Kept: true, Creator: "agent",
	}
}

func instance(session string) Instance {
	return Instance{
		ID: sandbox.InstanceID(procA + "-7"), Session: session, Backend: sandbox.Docker,
		Handle:    sandbox.Handle{Name: "c0ffee", Secret: "5ec2e7", Label: procA + "-c3"},
		Base:      sandbox.Base{Image: "core", Lease: time.Minute, Limits: sandbox.DefaultLimits()},
		Workspace: "/a/b",
		Posture:   sandbox.Posture{Backend: sandbox.Docker, Identity: "sha256:1", Layers: []sandbox.Layer{{ID: sandbox.FSWrite, State: sandbox.Enforced}}},
		// What it says is the business of whoever wrote it.
		Resolution: []byte(`{"resolved":"docker"}`), Created: time.UnixMilli(time.Now().UnixMilli()),
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func wantIs(t testing.TB, what string, err, target error) {
	t.Helper()
	if !errors.Is(err, target) {
		t.Errorf("%s: %v, want %v", what, err, target)
	}
}

func only(t testing.TB, s *Store) Session {
	t.Helper()
	all := list(t, s)
	if len(all) != 1 {
		t.Fatalf("%d sessions, want one", len(all))
	}
	return all[0]
}

func list(t testing.TB, s *Store) []Session {
	t.Helper()
	all, err := s.Sessions(t.Context())
	must(t, err)
	for _, x := range all {
		must(t, x.Err)
	}
	return all
}
