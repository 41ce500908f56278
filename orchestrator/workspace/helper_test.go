package workspace_test

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"brig/orchestrator/workspace"
)

const secret = "SECRET of somebody else"

// stage is a workspace with a secret beside it.
type stage struct {
	*workspace.Workspace
	dir     string // of the workspace
	outside string // a directory beside it
	secret  string // a file in outside
}

func newStage(t testing.TB, limits workspace.Limits) stage {
	t.Helper()
	top := t.TempDir()
	s := stage{dir: filepath.Join(top, "ws"), outside: filepath.Join(top, "outside")}
	s.secret = filepath.Join(s.outside, "secret.txt")
	for _, dir := range []string{s.dir, s.outside} {
		must(t, os.Mkdir(dir, 0o700))
	}
	must(t, os.WriteFile(s.secret, []byte(secret), 0o600))
	w, err := workspace.OpenLimited(s.dir, limits)
	must(t, err)
	t.Cleanup(func() { must(t, w.Close()) })
	s.Workspace = w
	return s
}

// path is a host path inside the workspace.
func (s stage) path(name string) string { return filepath.Join(s.dir, filepath.FromSlash(name)) }

// write puts content there as code would, behind brig's back.
func (s stage) write(t testing.TB, name, content string) {
	t.Helper()
	must(t, os.MkdirAll(filepath.Dir(s.path(name)), 0o700))
	must(t, os.WriteFile(s.path(name), []byte(content), 0o600))
}

// read reads name through the package.
func (s stage) read(name string) (string, error) {
	r, _, err := s.Get(name, 0)
	if err != nil {
		return "", err
	}
	defer r.Close()
	b, err := io.ReadAll(r)
	return string(b), err
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// wantKind checks that err is of kind and says something about name.
func wantKind(t testing.TB, err, kind error) {
	t.Helper()
	if !errors.Is(err, kind) {
		t.Fatalf("error is %v, want one that is %q", err, kind)
	}
	var e *workspace.Error
	if !errors.As(err, &e) {
		t.Fatalf("error %v is a %T, want *workspace.Error", err, err)
	}
	if text := err.Error(); strings.ContainsAny(text, "\n\x00\x1b") || strings.Contains(text, os.TempDir()) {
		t.Fatalf("error text is not fit for a person: %q", text)
	}
}

// wantNoTemp checks that no unfinished file stayed.
func wantNoTemp(t testing.TB, dir string) {
	t.Helper()
	must(t, filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
		if strings.HasPrefix(filepath.Base(path), ".brig-") {
			t.Errorf("%s was left behind", path)
		}
		return err
	}))
}

func paths(entries []workspace.Entry) []string {
	out := make([]string, 0, len(entries))
	for _, e := range entries {
		out = append(out, e.Path)
	}
	return out
}

// endless is a reader without end.
type endless struct{}

func (endless) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}
