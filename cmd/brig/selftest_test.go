package main

import (
	"bytes"
	"strings"
	"testing"
	"unicode/utf8"

	"brig/orchestrator"
	"brig/orchestrator/sandbox"
	"brig/selftest"
)

// TestWorst: of several reports the worst counts, and what could not be told is no pass.
func TestWorst(t *testing.T) {
	for _, c := range []struct {
		reports []selftest.Holds
		want    selftest.Holds
		code    exitCode
	}{
		{[]selftest.Holds{selftest.Held}, selftest.Held, 0},
		{[]selftest.Holds{selftest.Held, selftest.CouldNotTell}, selftest.CouldNotTell, 4},
		{[]selftest.Holds{selftest.Weaker, selftest.CouldNotTell, selftest.Held}, selftest.Weaker, 3},
	} {
		var reports []selftest.Report
		for _, h := range c.reports {
			reports = append(reports, selftest.Report{Holds: h})
		}
		if got := worst(reports); got != c.want || exitOfSelftest(got) != c.code {
			t.Errorf("worst of %v is %q with exit code %d, want %q, %d", c.reports, got, exitOfSelftest(got), c.want, c.code)
		}
	}
}

// TestSelftestTable: a reason too long for its row goes on below it, what got through
// untold says what helps, and nothing is wider than the table may be.
func TestSelftestTable(t *testing.T) {
	var out bytes.Buffer
	p := &program{tui: &console{stdout: &stream{w: &out, width: 80, cursor: &cursor{}}}}
	probe := selftest.Catalogue()[0]
	p.printSelftest(selftest.Report{
		Backend: sandbox.Host, Variant: "best-effort", Holds: selftest.Weaker, Line: "weaker than promised: " + strings.Repeat("words ", 40),
		Layers: []selftest.LayerResult{
			{Layer: sandbox.Layer{ID: probe.Layer, State: sandbox.Enforced}, Promised: true, Verdict: sandbox.Allowed, Lied: true, Reason: strings.Repeat("long ", 30)},
			{Layer: sandbox.Layer{ID: sandbox.TreeKill, State: sandbox.Enforced}, Verdict: sandbox.Inconclusive, Reason: "nobody asked for it"},
		},
		Probes: []selftest.Result{{Probe: probe.ID, Layer: probe.Layer, Verdict: sandbox.Allowed, Reason: "it got\x1b[2J through"}},
	}, true)
	text := out.String()
	for _, line := range strings.Split(text, "\n") {
		if n := utf8.RuneCountInString(line); n > tableWidth || strings.HasSuffix(line, " ") {
			t.Errorf("a line has %d characters, or blanks at its end: %q", n, line)
		}
	}
	for _, want := range []string{"the posture says that it is enforced", probe.Fix[:10], "only 1 of ", `\x1b[2J`} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing in:\n%s", want, text)
		}
	}
	if strings.Contains(text, string(sandbox.TreeKill)) {
		t.Errorf("a layer that nothing was tried of has a row:\n%s", text)
	}
}

// TestUnverified: only a refusal for want of a self-test is answered with one.
func TestUnverified(t *testing.T) {
	refused := func(code string) error {
		return &orchestrator.RefusedError{Refusal: orchestrator.Refusal{Kind: sandbox.Host, Code: code}}
	}
	if !unverified(refused(orchestrator.CodeUnverified)) || unverified(refused(orchestrator.CodeIncomplete)) || unverified(nil) {
		t.Error("a refusal was taken for another one")
	}
}

// TestSelftestBuild: a record names more than a version that many builds share.
func TestSelftestBuild(t *testing.T) {
	build := readBuild()
	if !strings.HasPrefix(build, readVersion().Version+" (") || build != readBuild() {
		t.Errorf("this build is called %q, and then %q", build, readBuild())
	}
}

// TestSelftestUndecided: what nobody promised and nobody could tell ends the line of a
// report that holds, and what could not be told is repeated by its layers.
func TestSelftestUndecided(t *testing.T) {
	layer := func(id sandbox.LayerID, promised bool, state sandbox.LayerState) selftest.LayerResult {
		return selftest.LayerResult{Layer: sandbox.Layer{ID: id, State: state}, Promised: promised, Verdict: sandbox.Inconclusive}
	}
	r := selftest.Report{
		Backend: sandbox.Host, Holds: selftest.Held,
		Layers: []selftest.LayerResult{
			layer(sandbox.CPULimit, false, sandbox.Enforced), layer(sandbox.DiskLimit, false, sandbox.Off),
			layer(sandbox.FSRead, true, sandbox.Enforced), layer(sandbox.TreeKill, true, sandbox.Enforced),
		},
		Probes: []selftest.Result{{Layer: sandbox.CPULimit}, {Layer: sandbox.DiskLimit}, {Layer: sandbox.FSRead}},
	}
	if got := undecided(r); got != "; not decided, not promised: cpu-limit" {
		t.Errorf("the line of one that holds ends with %q", got)
	}
	if again := repeatOf(r); again != "" {
		t.Errorf("one that holds is to be repeated: %s", again)
	}
	r.Holds = selftest.CouldNotTell
	if got, again := undecided(r), repeatOf(r); got != "" || again != "brig selftest --backend host --probe fs-read" {
		t.Errorf("one that could not tell ends with %q and is to be repeated with %q", got, again)
	}
}
