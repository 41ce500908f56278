package selftest

import (
	"testing"

	"brig/orchestrator/sandbox"
)

func TestJudge(t *testing.T) {
	outside := Probe{ID: "x", Layer: sandbox.FSRead, Witness: Canary, Observed: "the canary came back", Blocked: []Evidence{
		{"", "EACCES", "some rule"}, {"open", "EACCES", "Landlock"}, {"open", "ENOENT", "its own root"},
	}}
	inKernel := outside
	inKernel.Witness = Program
	ok := Outcome{Ran: true, OK: true, Seen: SeenYes}
	answered := Outcome{Ran: true, OK: true, Seen: SeenNone}
	fails := func(step, sign string) Outcome { return Outcome{Ran: true, Step: step, Sign: sign, Seen: SeenNo} }
	late := Outcome{Ran: true, Sign: "timeout", TimedOut: true, Seen: SeenNo}
	for _, c := range []struct {
		name            string
		probe           Probe
		inside, control Outcome
		want            sandbox.Verdict
		by              string
	}{
		{"held", outside, fails("open", "EACCES"), ok, sandbox.Blocked, "Landlock"},
		{"held by another", outside, fails("open", "ENOENT"), ok, sandbox.Blocked, "its own root"},
		{"held at another step", outside, fails("stat", "EACCES"), ok, sandbox.Blocked, "some rule"},
		{"another errno", outside, fails("open", "EIO"), ok, sandbox.Inconclusive, ""},
		{"another errno at a step that is known", outside, fails("stat", "ENOENT"), ok, sandbox.Inconclusive, ""},
		{"got through", outside, ok, ok, sandbox.Allowed, ""},
		{"got through, control failed", outside, ok, fails("open", "EACCES"), sandbox.Allowed, ""},
		{"denies what was seen outside", outside, Outcome{Ran: true, Step: "open", Sign: "EACCES", Seen: SeenYes}, ok, sandbox.Allowed, ""},
		{"late, and seen outside", outside, Outcome{Ran: true, TimedOut: true, Sign: "timeout", Seen: SeenYes}, ok, sandbox.Allowed, ""},
		{"never answered, and seen outside", outside, Outcome{Seen: SeenYes}, ok, sandbox.Allowed, ""},
		{"boasts", outside, Outcome{Ran: true, OK: true, Seen: SeenNo}, ok, sandbox.Inconclusive, ""},
		{"cannot be seen", outside, answered, ok, sandbox.Inconclusive, ""},
		{"late", outside, late, ok, sandbox.Inconclusive, ""},
		{"late is in no table", Probe{Witness: Program, Blocked: []Evidence{{"", "timeout", "patience"}}}, late, answered, sandbox.Inconclusive, ""},
		{"never ran", outside, Outcome{}, ok, sandbox.Inconclusive, ""},
		{"control failed as well", outside, fails("open", "EACCES"), fails("open", "EACCES"), sandbox.Inconclusive, ""},
		{"control late", outside, fails("open", "EACCES"), late, sandbox.Inconclusive, ""},
		{"control never ran", outside, fails("open", "EACCES"), Outcome{}, sandbox.Inconclusive, ""},
		{"nothing to try it on", outside, fails("find", "absent"), fails("find", "absent"), sandbox.NotSupported, ""},
		{"nothing to try it on, and late", outside, late, fails("find", "absent"), sandbox.Inconclusive, ""},
		{"nothing to try it on, and through", outside, ok, fails("find", "absent"), sandbox.Allowed, ""},
		{"control found nothing later", outside, fails("open", "EACCES"), fails("open", "absent"), sandbox.Inconclusive, ""},
		{"control boasts", outside, fails("open", "EACCES"), answered, sandbox.Inconclusive, ""},
		{"only the kernel's answer: held", inKernel, fails("open", "EACCES"), answered, sandbox.Blocked, "Landlock"},
		{"only the kernel's answer: through", inKernel, answered, answered, sandbox.Allowed, ""},
		{"killed, and nobody predicted it", inKernel, fails("", "SIGSYS"), answered, sandbox.Inconclusive, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, reason, by := judge(c.probe, c.inside, c.control)
			if got != c.want || by != c.by {
				t.Errorf("got %s by %q (%s), want %s by %q", got, by, reason, c.want, c.by)
			}
			if reason == "" {
				t.Error("there is no reason")
			}
		})
	}
}

// TestConclude holds what was seen against what the posture says.
func TestConclude(t *testing.T) {
	probe := Probe{ID: "p", Layer: sandbox.FSWrite, Witness: Program, Blocked: []Evidence{{"", "EROFS", "a mount"}}, Gaps: []string{"userns-*"}}
	ok, held := Outcome{Ran: true, OK: true, Seen: SeenNone}, Outcome{Ran: true, Sign: "EROFS", Seen: SeenNone}
	odd, none := Outcome{Ran: true, Sign: "EIO", Seen: SeenNone}, Outcome{}
	row := func(state sandbox.LayerState, code string) sandbox.Layer {
		return sandbox.Layer{ID: sandbox.FSWrite, State: state, Code: code, Reason: "of a reason"}
	}
	enforced := row(sandbox.Enforced, "")
	for _, c := range []struct {
		name            string
		row             sandbox.Layer
		promised        bool
		inside, control Outcome
		holds           Holds
		verdict         sandbox.Verdict
		lied            bool
	}{
		{"as promised", enforced, true, held, ok, Held, sandbox.Blocked, false},
		{"a posture that lies", enforced, true, ok, ok, Weaker, sandbox.Allowed, true},
		{"a posture that lies about what it does not promise", enforced, false, ok, ok, Weaker, sandbox.Allowed, true},
		{"a gap that was told", row(sandbox.Partial, "userns-apparmor"), false, ok, ok, Held, sandbox.Allowed, false},
		{"another gap than the one told", row(sandbox.Partial, "landlock-abi-2-lacks-truncate"), false, ok, ok, Weaker, sandbox.Allowed, true},
		{"a promise with a gap that was told", row(sandbox.Partial, "userns-apparmor"), true, ok, ok, Weaker, sandbox.Allowed, false},
		{"a promise with a gap, and nothing got through", row(sandbox.Partial, "userns-apparmor"), true, held, ok, Weaker, sandbox.Blocked, false},
		{"off, as told", row(sandbox.Off, "host-sandbox-off"), false, ok, ok, Held, sandbox.Allowed, false},
		{"not there, as told", row(sandbox.Unsupported, "no"), false, ok, ok, Held, sandbox.NotSupported, false},
		{"cannot be told, promised", enforced, true, odd, ok, CouldNotTell, sandbox.Inconclusive, false},
		{"cannot be told, not promised", enforced, false, odd, ok, Held, sandbox.Inconclusive, false},
		{"no control", enforced, true, held, none, CouldNotTell, sandbox.Inconclusive, false},
		{"did not run", enforced, true, none, ok, CouldNotTell, sandbox.Inconclusive, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			posture := sandbox.Posture{Layers: []sandbox.Layer{c.row}}
			if c.promised {
				posture.Promised = []sandbox.LayerID{sandbox.FSWrite}
			}
			w := weigh(probe, tried{control: c.control, attempts: []Attempt{{In: inFresh, Outcome: c.inside}}}, []sandbox.Posture{posture}, platform{"linux", "amd64"})
			layers, holds, line, _ := conclude(posture, []tally{w})
			if holds != c.holds || line == "" {
				t.Errorf("holds %s (%s), want %s", holds, line, c.holds)
			}
			if got := layers[0]; got.Verdict != c.verdict || got.Lied != c.lied || got.Verdict != sandbox.Blocked && got.Reason == "" {
				t.Errorf("layer %+v, want %s, lied %v", got, c.verdict, c.lied)
			}
		})
	}
}

// TestOneUndecidedAttemptSpoilsALayer, one whose control failed does not.
func TestOneUndecidedAttemptSpoilsALayer(t *testing.T) {
	probe := Probe{ID: "p", Layer: sandbox.FSWrite, Witness: Program, Blocked: []Evidence{{"", "EROFS", "a mount"}}}
	ok, held := Outcome{Ran: true, OK: true}, Outcome{Ran: true, Sign: "EROFS"}
	posture := sandbox.Posture{Layers: []sandbox.Layer{{ID: sandbox.FSWrite, State: sandbox.Enforced}}, Promised: []sandbox.LayerID{sandbox.FSWrite}}
	one := func(inside, control Outcome) tally {
		return weigh(probe, tried{control: control, attempts: []Attempt{{In: inFresh, Outcome: inside}}}, []sandbox.Posture{posture}, platform{"linux", "amd64"})
	}
	for name, c := range map[string]struct {
		second tally
		want   Holds
	}{
		"another errno":       {one(Outcome{Ran: true, Sign: "EIO"}, ok), CouldNotTell},
		"a time-out":          {one(Outcome{Ran: true, Sign: "timeout", TimedOut: true}, ok), CouldNotTell},
		"the control failed":  {one(held, held), Held},
		"no control":          {one(held, Outcome{Detail: "killed"}), CouldNotTell},
		"the control is late": {one(held, Outcome{Ran: true, Sign: "timeout", TimedOut: true}), CouldNotTell},
		"the control broke":   {one(held, Outcome{Ran: true, Sign: "exception:fork"}), CouldNotTell},
	} {
		if _, holds, line, _ := conclude(posture, []tally{one(held, ok), c.second}); holds != c.want {
			t.Errorf("%s: %s (%s), want %s", name, holds, line, c.want)
		}
	}
}

// TestWarmCounts: what gets through in a session that was prepared ahead is not
// outweighed by a fresh one that holds.
func TestWarmCounts(t *testing.T) {
	probe := Probe{ID: "p", Layer: sandbox.FSWrite, Witness: Program, Blocked: []Evidence{{"", "EROFS", "a mount"}}}
	ok, held := Outcome{Ran: true, OK: true}, Outcome{Ran: true, Sign: "EROFS"}
	posture := sandbox.Posture{Layers: []sandbox.Layer{{ID: sandbox.FSWrite, State: sandbox.Enforced}}}
	for _, order := range [][]Attempt{{{Outcome: held}, {Outcome: ok}}, {{Outcome: ok}, {Outcome: held}}} {
		w := weigh(probe, tried{control: ok, attempts: order}, []sandbox.Posture{posture, posture}, platform{"linux", "amd64"})
		if w.result.Verdict != sandbox.Allowed || !w.lied {
			t.Errorf("%+v", w.result)
		}
	}
}

// TestArchitecture: what does not exist here is neither held nor open.
func TestArchitecture(t *testing.T) {
	w := weigh(Probe{ID: "p", Archs: []string{"amd64"}}, tried{}, nil, platform{"linux", "arm64"})
	if w.result.Verdict != sandbox.NotSupported || w.result.Reason == "" {
		t.Errorf("%+v", w.result)
	}
}
