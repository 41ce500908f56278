package orchestrator

import (
	"strings"

	"brig/orchestrator/sandbox"
)

// Stamp says on every result what really ran the code.
type Stamp struct {
	Backend       sandbox.Kind `json:"backend"`
	Configured    sandbox.Kind `json:"configured"`
	Mode          sandbox.Mode `json:"mode,omitempty"` // of the host sandbox
	Containment   string       `json:"containment"`    // in words, as in Line: "contained", "weakened", "not sandboxed"
	Degraded      bool         `json:"degraded"`
	Reasons       []string     `json:"reasons,omitempty"`  // why degraded: "docker engine not reachable at …"
	Weakened      []string     `json:"weakened,omitempty"` // one sentence per promised layer that is not enforced
	Opened        []string     `json:"opened,omitempty"`   // layers that are not enforced because host.network opened them
	Uncontained   bool         `json:"uncontained"`        // the code ran with nothing between it and the user's files
	PostureDigest string       `json:"posture"`
	Identity      string       `json:"identity"` // image digest, or interpreter path and version
	Guard         string       `json:"guard"`    // verdict of the source check; "none" where none ran
	Session       string       `json:"session"`
}

// guardNone is the verdict of a run whose source nobody checked.
const guardNone = "none"

func stamp(r Resolution, p sandbox.Posture, session string) Stamp {
	s := Stamp{
		Backend: p.Backend, Configured: r.Configured, Mode: r.Mode, Degraded: r.Degraded,
		Weakened: p.Warnings(), Opened: names(r.Opened), Uncontained: exposed(r, p),
		PostureDigest: p.Digest(), Identity: p.Identity, Guard: guardNone, Session: session,
	}
	if r.Degraded {
		s.Reasons = degradedBy(r)
	}
	s.Containment = s.containment()
	return s
}

// containment says in a few words what there was of it.
func (s Stamp) containment() string {
	switch {
	case s.PostureDigest == "":
		return "no interpreter"
	case s.Mode == sandbox.ModeOff:
		return notSandboxed
	case s.Uncontained:
		return "not contained"
	case len(s.Weakened) > 0 && len(s.Opened) > 0:
		return "weakened, and " + openedBy + " opens " + strings.Join(s.Opened, ", ")
	case len(s.Weakened) > 0:
		return "weakened"
	case len(s.Opened) > 0:
		return "contained except " + strings.Join(s.Opened, ", ") + " (opened by " + openedBy + ")"
	default:
		return "contained"
	}
}

// Line is the stamp in one line: "brig: docker · contained · python 3.13.5 · posture 1a2b3c4d".
func (s Stamp) Line() string {
	parts := []string{string(s.Backend)}
	if s.Degraded {
		parts = append(parts, "degraded: "+strings.Join(s.Reasons, ", "))
	}
	parts = append(parts, s.containment())
	if s.Identity != "" {
		parts = append(parts, shortIdentity(s.Identity))
	}
	if digest := s.PostureDigest; digest != "" {
		parts = append(parts, "posture "+digest[:min(8, len(digest))])
	}
	return "brig: " + strings.Join(parts, " · ")
}

// shortDigits is how much of a SHA-256 tells two images apart for a person.
const shortDigits = 12

// shortIdentity cuts every SHA-256 in an identity short.
func shortIdentity(identity string) string {
	const mark = "sha256:"
	var out strings.Builder
	for {
		before, rest, found := strings.Cut(identity, mark)
		out.WriteString(before)
		if !found {
			return out.String()
		}
		after := strings.TrimLeft(rest, "0123456789abcdef")
		digits := rest[:len(rest)-len(after)]
		out.WriteString(mark + digits[:min(shortDigits, len(digits))])
		identity = after
	}
}
