package config_test

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"brig/orchestrator/config"
)

var update = flag.Bool("update", false, "write the generated files")

func TestGenerated(t *testing.T) {
	for path, content := range map[string][]byte{
		filepath.Join("testdata", "config.toml"):         config.Example(),
		filepath.Join("..", "..", "docs", "settings.md"): config.Markdown(),
	} {
		if *update {
			must(t, os.MkdirAll(filepath.Dir(path), 0o755))
			must(t, os.WriteFile(path, content, 0o644))
		}
		have, err := os.ReadFile(path)
		must(t, err)
		if !bytes.Equal(have, content) {
			t.Errorf("%s is out of date; run: go test ./orchestrator/config -update", path)
		}
	}
}

// The example with its keys uncommented is a file that sets every default.
func TestExampleLoads(t *testing.T) {
	l, err := config.Load(bare(t.TempDir()).look, file(t, string(config.Example())))
	if err != nil || l.Config != config.Default() {
		t.Fatalf("as it is: %+v, %v", l.Config, err)
	}
	all := regexp.MustCompile(`(?m)^# (\[|\w+ = )`).ReplaceAllString(string(config.Example()), "$1")
	all = strings.Replace(all, "cpu_seconds = 1\n", "", 1) // unset is its default, and no number says so
	l, err = config.Load(bare(t.TempDir()).look, file(t, all))
	if err != nil || l.Config != config.Default() {
		t.Fatalf("uncommented: %+v, %v", l.Config, err)
	}
	for _, row := range config.Render(l) {
		if want := row.Key != "sandbox.cpu_seconds"; (row.Source.From == config.FromFile) != want {
			t.Errorf("%s comes from %+v", row.Key, row.Source)
		}
	}
}

func TestRender(t *testing.T) {
	l, err := config.Load(bare(t.TempDir()).with("HOST_SANDBOX", "require").look, file(t, "limits.workspace = 3221225472"))
	must(t, err)
	rows := config.Render(l)
	if len(rows) != len(config.Keys()) {
		t.Fatalf("%d rows", len(rows))
	}
	for _, r := range rows {
		switch r.Key {
		case "host.sandbox":
			if r.Value != "require" || r.Default != "best-effort" || r.Source.Where != "HOST_SANDBOX" || r.Unused {
				t.Errorf("%+v", r)
			}
		case "limits.workspace":
			if r.Value != "3GiB" || r.Source.Raw != "3221225472" {
				t.Errorf("%+v", r)
			}
		case "guard.docker":
			if !r.Unused {
				t.Errorf("%+v", r)
			}
		}
	}
	if rows := config.Render(config.Loaded{Config: config.Default()}); rows[0].Source.From != config.FromDefault {
		t.Errorf("%+v", rows[0])
	}
}
