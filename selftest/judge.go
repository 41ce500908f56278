package selftest

import (
	"fmt"
	"slices"
	"strings"

	"brig/orchestrator/sandbox"
)

// judge decides one attempt beside its control. It is pure; every row of it is a test.
// by names what stood in the way of a blocked one.
func judge(p Probe, inside, control Outcome) (v sandbox.Verdict, reason, by string) {
	if inside.through(p) {
		return sandbox.Allowed, "it got through: " + p.Observed, ""
	}
	switch {
	case control.targetless() && !inside.OK && !inside.TimedOut:
		return sandbox.NotSupported, "there is nothing here to attempt it on" + because(control.Detail), ""
	case !inside.Ran:
		return sandbox.Inconclusive, "it was not attempted" + because(inside.Detail), ""
	case inside.TimedOut:
		return sandbox.Inconclusive, fmt.Sprintf("it ran out of time after %s", p.bound()), ""
	case inside.OK:
		return sandbox.Inconclusive, "the attempt says that it succeeded, and nothing was seen outside", ""
	}
	evidence, known := p.evidence(inside)
	if !known {
		return sandbox.Inconclusive, "it failed with other evidence than predicted: " + inside.sign(), ""
	}
	if control.broken() {
		return sandbox.Inconclusive, "there is nothing to hold it against: the control with nothing around it did not come to an end" + because(control.sign()), ""
	}
	if !control.through(p) {
		return sandbox.Inconclusive, "it failed (" + inside.sign() + "), and so did the control with nothing around it" + because(control.sign()), ""
	}
	return sandbox.Blocked, inside.sign(), evidence.By
}

// through: the attempt succeeded, as seen from outside where anything outside can see it.
func (o Outcome) through(p Probe) bool {
	return o.Seen == SeenYes || o.OK && p.Witness == Program
}

// targetless: what would be attempted has nothing to go for on this machine, as the
// control, which has every right that brig has, found out first of all.
func (o Outcome) targetless() bool {
	return o.Ran && !o.OK && o.Sign == "absent" && (o.Step == "" || o.Step == "find")
}

// broken: it was not made, or not to its end. That says nothing of what it would have
// shown, other than one that was refused.
func (o Outcome) broken() bool {
	return !o.Ran || o.TimedOut || strings.HasPrefix(o.Sign, "exception:")
}

// undecided: the attempt itself, not its control, left the verdict open.
func (o Outcome) undecided(p Probe) bool {
	if o.through(p) {
		return false
	}
	_, known := p.evidence(o)
	return !o.Ran || o.TimedOut || o.OK || !known
}

// evidence finds the predicted way in which o failed. One with a step is more exact
// than one without.
func (p Probe) evidence(o Outcome) (Evidence, bool) {
	if !o.Ran || o.OK || o.TimedOut {
		return Evidence{}, false
	}
	for _, step := range []string{o.Step, ""} {
		i := slices.IndexFunc(p.Blocked, func(e Evidence) bool { return e.Step == step && e.Sign == o.Sign })
		if i >= 0 {
			return p.Blocked[i], true
		}
	}
	return Evidence{}, false
}

// sign is how o failed, in a few words.
func (o Outcome) sign() string {
	switch {
	case !o.Ran:
		return o.Detail
	case o.OK:
		return "it says that it succeeded, and nothing was seen outside"
	case o.Step != "":
		return o.Step + ": " + o.Sign
	}
	return o.Sign
}

func because(s string) string {
	if s == "" {
		return ""
	}
	return ": " + s
}

// worst orders verdicts: what got through outweighs what is open, and that outweighs what held.
func worst(a, b sandbox.Verdict) sandbox.Verdict {
	for _, v := range []sandbox.Verdict{sandbox.Allowed, sandbox.Inconclusive, sandbox.Blocked} {
		if a == v || b == v {
			return v
		}
	}
	return sandbox.NotSupported
}
