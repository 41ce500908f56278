package selftest

import (
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"brig/orchestrator/sandbox"
)

// TestCatalogue: every probe says everything, and every layer has probes.
func TestCatalogue(t *testing.T) {
	all := Catalogue()
	if len(all) < 45 {
		t.Errorf("there are %d probes only", len(all))
	}
	seen := map[string]bool{}
	layers := map[sandbox.LayerID]int{}
	id := regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)+$`)
	for _, p := range all {
		if !id.MatchString(p.ID) || seen[p.ID] {
			t.Errorf("%q is no id of its own", p.ID)
		}
		seen[p.ID] = true
		layers[p.Layer]++
		if !strings.HasSuffix(p.Claim, ".") || strings.ContainsAny(p.Claim, "|\n") || p.Attempt == "" || p.Observed == "" || p.Fix == "" {
			t.Errorf("%s does not say everything: %+v", p.ID, p)
		}
		for _, text := range []string{p.Attempt, p.Observed, p.Fix} {
			if strings.HasSuffix(text, ".") {
				t.Errorf("%s: %q ends like a sentence", p.ID, text)
			}
		}
		if !slices.Contains([]Witness{Listener, Canary, Decoy, Counter, Clock, Program}, p.Witness) {
			t.Errorf("%s has no witness", p.ID)
		}
		if !slices.Contains([]Severity{Critical, High, Medium, Low}, p.Severity) {
			t.Errorf("%s has no severity", p.ID)
		}
		if len(p.Blocked) == 0 {
			t.Errorf("%s predicts nothing", p.ID)
		}
		for _, e := range p.Blocked {
			if e.Sign == "" || e.By == "" || e.Sign == "timeout" || strings.HasPrefix(e.Sign, "exception") {
				t.Errorf("%s takes %+v for evidence", p.ID, e)
			}
		}
		// What ends a session is a watch that looks now and then, so a limit may take longer.
		most := 2 * time.Second
		if p.Stage == Limits {
			most = 8 * time.Second
		}
		if p.bound() > most {
			t.Errorf("%s may take %s", p.ID, p.bound())
		}
	}
	for _, l := range sandbox.Layers() {
		if layers[l] == 0 {
			t.Errorf("no probe is about %s", l)
		}
	}
}

// TestEveryProbeIsAttempted: each id of the Shared stage has its function, and no
// function is without a probe.
func TestEveryProbeIsAttempted(t *testing.T) {
	source, err := program(map[string]any{"control": false}, nil)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("python3", "-I", "-")
	cmd.Stdin = strings.NewReader(string(source) + "\nprint(*sorted(ATTEMPTS))\n")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	written := strings.Fields(string(out))
	var listed []string
	for _, p := range Catalogue() {
		listed = append(listed, p.ID)
		if p.Stage == Shared && !slices.Contains(written, p.ID) {
			t.Errorf("nothing attempts %s", p.ID)
		}
	}
	for _, id := range written {
		if !slices.Contains(listed, id) {
			t.Errorf("%s is attempted and in no catalogue", id)
		}
	}
}

func TestChosen(t *testing.T) {
	some, err := chosen([]string{string(sandbox.FSRead)})
	if err != nil || len(some) == 0 || len(some) == len(Catalogue()) {
		t.Errorf("a layer chose %d probes, %v", len(some), err)
	}
	one, err := chosen([]string{some[0].ID})
	if err != nil || len(one) != 1 {
		t.Errorf("an id chose %d probes, %v", len(one), err)
	}
	if _, err := chosen([]string{"files-red-home"}); err == nil || !strings.Contains(err.Error(), "brig selftest --list") {
		t.Errorf("a misspelt name: %v", err)
	}
}

// TestOutcomes: what a session prints is believed for what an attempt says of itself and no further.
func TestOutcomes(t *testing.T) {
	got := outcomes([]byte("noise\nbrig-selftest {\"id\":\"a\",\"ok\":false,\"step\":\"open\",\"sign\":\"EACCES\",\"ms\":1.5}\n" +
		"brig-selftest {\"id\":\"a\",\"ok\":true}\nbrig-selftest {broken\nbrig-selftest {\"id\":\"b\",\"sign\":\"timeout\"}\n" +
		"brig-selftest {\"id\":\"c\",\"detail\":\"" + strings.Repeat("x", 9000) + "\"}\n"))
	if a := got["a"]; a.OK || a.Sign != "exception:twice" {
		t.Errorf("two answers that differ: %+v", a)
	}
	if !got["b"].TimedOut {
		t.Errorf("a time-out is one: %+v", got["b"])
	}
	if len(got) != 2 {
		t.Errorf("got %v", got)
	}
}
