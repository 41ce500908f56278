package hostfallback

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"brig/orchestrator/sandbox"
	"brig/orchestrator/wire"
)

//go:embed testdata/legit.py
var legit string

// works are what programs do. What takes long is done in the combinations that
// matter most, and in all of them by the long run.
func works() map[string]bool {
	const quick, long = false, true
	return map[string]bool{
		"fork_pools": quick, "spawn_pools": long, "shared_memory": quick, "threads": quick, "asynchronous": quick, "pipelines": quick,
		"files": quick, "databases": quick, "system": quick, "network_errors": quick, "git": quick, "venv": quick, "data": long, "plots": long,
	}
}

// facts are what a program is told of a combination.
type facts struct {
	Dir  string `json:"dir"`
	Unix bool   `json:"unix"`
}

// TestLegit: what programs ordinarily do works in every combination of layers, or
// it is written down here what does not.
func TestLegit(t *testing.T) { runLegit(t, false) }

// TestRootLegit does the same as root.
func TestRootLegit(t *testing.T) {
	if os.Getuid() == 0 {
		runLegit(t, true)
	}
}

func runLegit(t *testing.T, root bool) {
	needWhole(t)
	bare := bareImports(t)
	for _, c := range columns() {
		long := os.Getenv("BRIG_TEST_LONG") != ""
		usual := slices.Contains([]string{"off", "L+S", "M+L+S", "N+S", "-net", "N+L+S"}, c.name)
		if c.bare || root && !c.root || root && !long && c.name != "N+L+S" || !long && !usual {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			thorough := long || slices.Contains([]string{"L+S", "N+L+S"}, c.name)
			b := testBackend(t)
			if c.lacks != "" {
				b = poorBackend(t, c.lacks)
			}
			base := testBase()
			if c.off {
				base = testBaseOf(sandbox.ModeOff)
			}
			// As short as on a real machine: the name of a socket has a hundred bytes.
			short, err := os.MkdirTemp("", "r")
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = os.RemoveAll(short) })
			b.options.Runtime, b.options.Python = short, "/usr/bin/python3" // the one that bareImports asks
			workspace := filepath.Join(short, "workspace")
			if err := os.Mkdir(workspace, 0o700); err != nil {
				t.Fatal(err)
			}
			i := openIn(t, b, base, workspace)
			report := i.(*instance).started.Report
			f := facts{Dir: workspace, Unix: !report.Seccomp.Applied || report.Seccomp.Filter.Unix}
			if out, exit := output(t, i, "define", legit); exit.Outcome != wire.OutcomeOK {
				t.Fatalf("%+v\n%s", exit, out)
			}
			told, err := json.Marshal(f)
			if err != nil {
				t.Fatal(err)
			}
			for n, name := range slices.Sorted(maps.Keys(works())) {
				if works()[name] && !thorough {
					continue
				}
				source := fmt.Sprintf("import json; try_work(%q, json.loads(%q))", name, told)
				if out, exit := output(t, i, wire.RunID(fmt.Sprintf("w%d", n)), source); exit.Outcome != wire.OutcomeOK {
					t.Errorf("%s: %s", name, out)
				}
			}
			if thorough {
				compareImports(t, i, bare)
			}
		})
	}
}

// bareImports are what an interpreter imports that nothing confines.
func bareImports(t *testing.T) map[string]string {
	t.Helper()
	out, err := exec.Command("/usr/bin/python3", "-I", "-c", legit+"\nprint(imports())").Output()
	if err != nil {
		t.Fatalf("%v %s", err, out)
	}
	got := make(map[string]string)
	if err := json.Unmarshal(out, &got); err != nil {
		t.Fatal(err)
	}
	return got
}

// compareImports holds what can be imported inside against what can be outside.
func compareImports(t *testing.T, i sandbox.Instance, bare map[string]string) {
	t.Helper()
	out, exit := output(t, i, "imports", "print(imports())")
	if exit.Outcome != wire.OutcomeOK {
		t.Fatal(out)
	}
	got := make(map[string]string)
	if err := json.Unmarshal([]byte(strings.TrimSpace(out)), &got); err != nil {
		t.Fatal(err)
	}
	imported := 0
	for name, outcome := range bare {
		if got[name] != outcome {
			t.Errorf("import %s: %s, outside %s", name, got[name], outcome)
		}
		if outcome == "ok" {
			imported++
		}
	}
	if imported < 200 {
		t.Errorf("only %d modules were imported outside", imported)
	}
}
