package selftest

import (
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"brig/orchestrator/sandbox"
)

func fullReport(variant string) Report {
	r := Report{
		Format: ReportFormat, ID: "a", Brig: "1.0", Backend: sandbox.Docker, Variant: variant, Policy: "p", Holds: Held,
		Started: time.Now().UTC(), Machine: Machine{BootID: "b", OS: "linux", Arch: "amd64", Kernel: "6.1", UID: 1000},
	}
	for _, p := range Catalogue() {
		r.Probes = append(r.Probes, Result{Probe: p.ID, Layer: p.Layer, Verdict: sandbox.Blocked})
	}
	return r
}

func TestStale(t *testing.T) {
	r := fullReport("runc")
	if reason, stale := Stale(r, r.Machine, "1.0", "p"); stale {
		t.Errorf("stale at once: %s", reason)
	}
	for name, change := range map[string]func(m *Machine, version, policy *string){
		"boot":    func(m *Machine, _, _ *string) { m.BootID = "c" },
		"kernel":  func(m *Machine, _, _ *string) { m.Kernel = "6.2" },
		"user":    func(m *Machine, _, _ *string) { m.UID = 0 },
		"version": func(_ *Machine, v, _ *string) { *v = "1.1" },
		"policy":  func(_ *Machine, _, p *string) { *p = "q" },
	} {
		m, version, policy := r.Machine, "1.0", "p"
		change(&m, &version, &policy)
		reason, stale := Stale(r, m, version, policy)
		if !stale || reason == "" {
			t.Errorf("another %s makes it no older", name)
		}
		if due := Due([]Report{r}, r.Backend, "runc", m, version, policy); due != reason {
			t.Errorf("another %s: due because %q, stale because %q", name, due, reason)
		}
	}
}

func TestDue(t *testing.T) {
	r := fullReport("runc")
	if Due(nil, r.Backend, "runc", r.Machine, "1.0", "p") == "" || Due([]Report{r}, r.Backend, "runsc", r.Machine, "1.0", "p") == "" {
		t.Error("not due, and never run")
	}
	if why := Due([]Report{r}, r.Backend, "runc", r.Machine, "1.0", "p"); why != "" {
		t.Errorf("due: %s", why)
	}
	r.Holds = CouldNotTell
	if Due([]Report{r}, r.Backend, "runc", r.Machine, "1.0", "p") == "" {
		t.Error("not due, and the last one could not tell")
	}
}

// TestSaveAtOnce: whoever reads beside writers gets a whole report, and no scratch stays.
func TestSaveAtOnce(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "kept")
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for _, variant := range []string{"runc", "../run sc"} {
				if err := Save(dir, fullReport(variant)); err != nil {
					t.Error(err)
				}
				if n := len(Load(dir)); n < 1 || n > 2 {
					t.Errorf("%d reports were read", n)
				}
			}
		})
	}
	wg.Wait()
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 2 {
		t.Fatalf("%v, %v", entries, err)
	}
	for _, e := range entries {
		if info, err := e.Info(); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", e.Name(), info.Mode(), err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "broken.json"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if n := len(Load(dir)); n != 2 {
		t.Errorf("%d reports beside a broken one", n)
	}
}

// TestMarkdownEscapes: what came out of a session begins no mark-up and no line.
func TestMarkdownEscapes(t *testing.T) {
	if got := cell("a|b\n# <x> `c` *d*\x1b[0m"); got != `a\|b # &lt;x> 'c' \*d\* \[0m` {
		t.Errorf("%q", got)
	}
}
