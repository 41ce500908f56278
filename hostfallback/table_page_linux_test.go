package hostfallback

import (
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"brig/orchestrator/sandbox"
	"brig/orchestrator/wire"
)

// TestRootTablePage: the table has all sixty rows of the research, and the decision
// page explains each one where brig differs. It reads the tree's files, which only
// the run that is not another user's can.
func TestRootTablePage(t *testing.T) {
	if ordinaryCopy(t) {
		return
	}
	page, err := os.ReadFile("../docs/decisions/0026-host-table.md")
	if err != nil {
		t.Fatal(err)
	}
	named := make(map[string]bool)
	for line := range strings.Lines(string(page)) {
		if cells := strings.Split(line, "|"); len(cells) > 2 {
			for _, n := range strings.Split(cells[1], ",") {
				named[strings.TrimSpace(n)] = true
			}
		}
	}
	var numbers []string
	for _, r := range parseTable(t, tableText, false) {
		numbers = append(numbers, r.number)
		if r.why != "" && !named[r.number] {
			t.Errorf("row %s, %s: the page does not explain it", r.number, r.attempt)
		}
	}
	for n := range 60 {
		// 59 is about the output, see TestTableFlood.
		if number := strconv.Itoa(n + 1); number != "59" && !slices.Contains(numbers, number) {
			t.Errorf("row %s is missing", number)
		}
	}
}

// ordinaryCopy says that this runs as another user, away from the tree.
func ordinaryCopy(t *testing.T) bool {
	t.Helper()
	_, err := os.Stat("../docs")
	return os.IsNotExist(err)
}

// TestTableFlood is row 59: output without end reaches brig up to its bound, and
// what was dropped is counted, with and without a sandbox.
func TestTableFlood(t *testing.T) {
	for _, mode := range []sandbox.Mode{sandbox.ModeOff, sandbox.ModeBestEffort} {
		base := testBaseOf(mode)
		base.Limits = sandbox.Limits{OutputKept: 64 << 10, OutputLogged: 1 << 20}
		i := openInstance(t, testBackend(t), base)
		const size = 16 << 20
		received := 0
		exit, err := i.Run(testContext(t), wire.Run{ID: "flood", Source: []byte("import os\nfor _ in range(16): os.write(1, bytes(1 << 20))")}, func(e wire.Event) error {
			received += len(e.Data)
			return nil
		})
		if err != nil || exit.Outcome != wire.OutcomeOK {
			t.Fatalf("%v %+v", err, exit)
		}
		if out := exit.Stdout; received > 64<<10 || out.Total != size || out.Kept+out.Dropped != size {
			t.Errorf("%s: received %d, account %+v", mode, received, out)
		}
		if exit.Log == nil || exit.Log.Bytes > 1<<20 || exit.Log.Bytes+exit.Log.Dropped != size {
			t.Errorf("%s: log %+v", mode, exit.Log)
		}
	}
}

// TestTableProtected is row 57 where something in the workspace is protected: it can
// be read and neither be changed nor be replaced by way of what contains it.
func TestTableProtected(t *testing.T) {
	needWhole(t)
	g := newTargets(t)
	for name, c := range map[string]struct {
		lacks         string
		protected     bool
		plant, rename string
	}{
		"control":       {"", false, through, through},
		"whole":         {"", true, "EROFS", "EBUSY"},
		"without root":  {"pivot", true, through, through}, // there are no mounts of the policy's then
		"no namespaces": {"namespaces", true, through, through},
	} {
		t.Run(name, func(t *testing.T) {
			b := testBackend(t)
			if c.lacks != "" {
				b = poorBackend(t, c.lacks)
			}
			workspace := t.TempDir()
			hooks := workspace + "/.git/hooks"
			if err := os.MkdirAll(hooks, 0o700); err != nil {
				t.Fatal(err)
			}
			if c.protected {
				b.options.Protected = []string{hooks}
			}
			a := attackIn(t, openIn(t, b, testBase(), workspace), workspace, nil)
			if got := witness(t, a, g, "plant_hook", true); got != c.plant {
				t.Errorf("plant a hook: %s, want %s", got, c.plant)
			}
			if got := witness(t, a, g, "replace_git", true); got != c.rename {
				t.Errorf("replace the repository: %s, want %s", got, c.rename)
			}
		})
	}
}
