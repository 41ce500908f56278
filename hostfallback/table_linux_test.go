package hostfallback

import (
	_ "embed"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"brig/orchestrator/sandbox"
)

//go:embed testdata/table.txt
var tableText string

// column is one combination of layers, with the name that the table gives it.
type column struct {
	name  string
	paper int    // which of the researched combinations it is, -1 for one that was not looked at
	bare  bool   // an interpreter without brig
	off   bool   // host.sandbox is off
	lacks string // what the kernel of this machine is made to refuse
	root  bool   // looked at as root as well
}

func columns() []column {
	return []column{
		{name: "none", paper: 0, bare: true, root: true},
		{name: "off", paper: -1, off: true, root: true},
		{name: "L", paper: 1, lacks: "seccomp+namespaces"},
		{name: "S", paper: 2, lacks: "landlock+namespaces"},
		{name: "L+S", paper: 3, lacks: "namespaces", root: true},
		{name: "M+L+S", paper: -1, lacks: noParts},
		{name: "N", paper: -1, lacks: "landlock+seccomp", root: true},
		{name: "N+L", paper: -1, lacks: "seccomp"},
		{name: "N+S", paper: -1, lacks: "landlock"},
		{name: "-root", paper: -1, lacks: "pivot"},
		{name: "-pid", paper: -1, lacks: "newpid"},
		{name: "-net", paper: -1, lacks: "newnet"},
		{name: "N+L+S", paper: 4, root: true},
	}
}

// tableBase has limits that attempts can exceed within a moment.
func tableBase(c column) sandbox.Base {
	base := testBase()
	if c.off {
		base = testBaseOf(sandbox.ModeOff)
	}
	base.Limits = sandbox.Limits{Memory: 1 << 30, Processes: 100, OpenFiles: 512, FileSize: 32 << 20, Workspace: 64 << 20}
	return base
}

// TestTable makes every attempt of the table in every combination of layers.
func TestTable(t *testing.T) { runTable(t, false) }

// TestRootTable does the same as root.
func TestRootTable(t *testing.T) {
	if os.Getuid() == 0 {
		runTable(t, true)
	}
}

func runTable(t *testing.T, root bool) {
	needWhole(t)
	rows := parseTable(t, tableText, root)
	got := make(map[string]map[string]string)
	for _, c := range columns() {
		if root && !c.root {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			begin := time.Now()
			g := newTargets(t)
			var a attacker
			switch {
			case c.bare:
				a = uncontained(t)
			case c.lacks != "":
				a = contained(t, poorBackend(t, c.lacks), tableBase(c))
			default:
				a = contained(t, testBackend(t), tableBase(c))
			}
			for _, r := range rows {
				if r.cells[c.name] == "-" {
					continue
				}
				started := time.Now()
				outcome := witness(t, a, g, r.attempt, r.shows)
				if d := time.Since(started); d > 100*time.Millisecond {
					t.Logf("%s took %s", r.attempt, d)
				}
				if got[r.attempt] == nil {
					got[r.attempt] = make(map[string]string)
				}
				got[r.attempt][c.name] = outcome
				if want := r.cells[c.name]; want != "?" && !slices.Contains(strings.Split(want, "/"), outcome) {
					t.Errorf("row %s, %s: %s, want %s", r.number, r.attempt, outcome, want)
				}
			}
			t.Logf("took %s", time.Since(begin))
		})
	}
	for _, r := range rows {
		var line []string
		for _, c := range columns() {
			line = append(line, got[r.attempt][c.name])
		}
		t.Logf("%-3s %-18s %s", r.number, r.attempt, strings.Join(line, " "))
		if control := got[r.attempt]["none"]; control != through && control != "" {
			t.Logf("    proves nothing here: without any sandbox %s", control)
		}
	}
}

// row is one attempt of the table. See testdata/table.txt.
type row struct {
	number, attempt string
	shows           bool
	paper           string
	cells           map[string]string // by the name of the combination
	why             string
}

func parseTable(t *testing.T, text string, root bool) []row {
	t.Helper()
	var rows []row
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		facts, why, _ := strings.Cut(line, ";")
		f := strings.Fields(facts)
		forRoot := f[0] == "root"
		if forRoot {
			f = f[1:]
		}
		if len(f) != 4+len(columns()) {
			t.Fatalf("%d fields: %s", len(f), line)
		}
		r := row{number: f[0], attempt: f[1], shows: f[2] == "shows", paper: f[3], cells: make(map[string]string), why: strings.TrimSpace(why)}
		for n, c := range columns() {
			r.cells[c.name] = f[4+n]
			if c.paper >= 0 && r.why == "" && !agreeing(r.paper[c.paper], f[4+n]) {
				t.Errorf("row %s, %s: %s where the paper says %c, and nobody says why", r.number, r.attempt, f[4+n], r.paper[c.paper])
			}
		}
		if !forRoot {
			rows = append(rows, r)
		} else if root {
			n := slices.IndexFunc(rows, func(o row) bool { return o.attempt == r.attempt })
			rows[n] = r
		}
	}
	return rows
}

// agreeing says that a cell means what the paper says.
func agreeing(paper byte, cell string) bool {
	if cell == "?" || cell == "-" {
		return true
	}
	switch paper {
	case 'A':
		return cell == through
	case 'B':
		return cell != through
	}
	return true
}
