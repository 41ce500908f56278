package config_test

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"brig/orchestrator/config"
)

// environ is a small environment with a home of its own.
type environ map[string]string

func (e environ) look(name string) (string, bool) { v, ok := e[name]; return v, ok }

func (e environ) list() []string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(e)) {
		out = append(out, name+"="+e[name])
	}
	return out
}

func (e environ) with(pairs ...string) environ {
	out := maps.Clone(e)
	for i := 0; i < len(pairs); i += 2 {
		out[pairs[i]] = pairs[i+1]
	}
	return out
}

// bare is an environment in which every directory lies below home.
func bare(home string) environ {
	return environ{"HOME": home, "LOCALAPPDATA": home}
}

// file writes a settings file into a directory that only its owner can write.
func file(t testing.TB, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "config.toml")
	must(t, os.Chmod(filepath.Dir(path), 0o700))
	must(t, os.WriteFile(path, []byte(content), 0o600))
	return path
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// problems loads and returns what is wrong, with the file's path shortened to FILE.
func problems(t testing.TB, e environ, path string) []string {
	t.Helper()
	loaded, err := config.LoadEnviron(e.list(), path)
	if err == nil {
		return nil
	}
	var list *config.Error
	if !errors.As(err, &list) {
		t.Fatalf("error %v is a %T, want *config.Error", err, err)
	}
	if loaded.Sources != nil || loaded.Config != (config.Config{}) {
		t.Fatal("something was returned beside an error")
	}
	var out []string
	for _, p := range list.Problems {
		text := p.String()
		if strings.ContainsAny(text, "\n\x00\x1b") {
			t.Errorf("a problem is not one line: %q", text)
		}
		if path != "" {
			text = strings.ReplaceAll(text, path, "FILE")
		}
		out = append(out, text)
	}
	return out
}
