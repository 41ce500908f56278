package orchestrator

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"

	"brig/orchestrator/sandbox"
)

// Codes of the refusals that the resolution itself makes; backends have their own.
const (
	CodeSwitchedOff    = "code-exec-off"
	CodeUnknown        = "backend-unknown"
	CodeMissing        = "backend-missing"
	CodeDevelopment    = "development-only"
	CodeCouldNotTell   = "could-not-tell"
	CodeIncomplete     = "host-sandbox-incomplete"
	CodeUnverified     = "host-sandbox-unverified"
	CodeUnacknowledged = "uncontained-unacknowledged"
)

// acceptCommand is what a person types to acknowledge that nothing contains the code here.
const acceptCommand = "brig run --accept-uncontained"

// remedyContained is for a backend that is none; the engine is not asked for it.
const remedyContained = "brig run --backend docker, or where no engine answers: brig run --backend host"

// inputs are everything that a resolution depends on.
type inputs struct {
	Configured sandbox.Kind
	Requested  sandbox.Kind // empty: the configured one, with its step-down
	Fallback   sandbox.Kind // empty: none
	Mode       sandbox.Mode // of the host sandbox
	// Probes holds the wanted backend and, where that one failed, the one to step
	// down to. A kind that this build lacks is not in it.
	Probes       map[sandbox.Kind]probe
	Development  bool
	SwitchedOff  bool // workspace.code_exec is false
	Acknowledged bool // a person accepted on this machine that nothing contains the code
	// Image says that the settings name an image of the user's own: no other backend
	// has its interpreter and its libraries.
	Image bool
	// Trial is the self-test's own: it needs neither verdicts, which it is about to
	// make, nor anybody's consent to what it finds out.
	Trial bool
	// Verdicts are those of this boot's self-test. Nil: whoever asks has none to go
	// by, and forecast and posture alone decide.
	Verdicts map[sandbox.LayerID]Verdict
}

// probe is what is known about one backend now.
type probe struct {
	Err      error             // *sandbox.Unavailable, or anything else: could not tell
	Layers   []sandbox.Layer   // forecast; without one nothing is known, whatever Err says
	Promised []sandbox.LayerID // of those layers
	Source   string            // which engine or interpreter answered
}

// resolve decides which backend runs the code. It is the table of docs: every
// row is a test.
func resolve(in inputs) Resolution {
	r := Resolution{Configured: in.Configured, Requested: in.Requested}
	rungs := ladder(in)
	mistake := false
	for i, kind := range rungs {
		refusal := try(in, kind)
		if refusal != nil {
			r.Refusals = append(r.Refusals, *refusal)
			if mistake = mistaken(in.Probes[kind]); mistake {
				break
			}
			continue
		}
		r.Resolved, r.Degraded = kind, i > 0
		if kind == sandbox.Host {
			r.Mode = effective(in.Mode)
		}
		r.Gaps, r.Opened = gaps(in.Probes[kind]), opened(kind, in.Probes[kind].forecast())
		r.Weakened = len(r.Gaps) > 0 || r.Mode == sandbox.ModeOff
		return r
	}
	var also []string
	if in.Requested == "" && in.Configured == sandbox.Docker && !in.SwitchedOff && len(rungs) == 1 && !mistake {
		switch {
		case in.Image:
			also = append(also, "only a container can run the image that docker.image or --image asks for")
		default:
			also = append(also, "execution.fallback is none")
		}
	}
	r.Err = refused(r.Refusals, also...)
	return r
}

// ladder lists the backends to try; where all code is switched off, no further
// one can help. Only docker steps down, only to the configured fallback, never
// when a caller asked for docker by name, never for a mistake in its settings, and
// never where an image of the user's own is asked for: a tier is a default, that is not.
func ladder(in inputs) []sandbox.Kind {
	if in.Requested != "" {
		return []sandbox.Kind{in.Requested}
	}
	if in.Configured == sandbox.Docker && !in.SwitchedOff && !in.Image && in.Fallback == sandbox.Host {
		return []sandbox.Kind{sandbox.Docker, sandbox.Host}
	}
	return []sandbox.Kind{in.Configured}
}

// try says why kind may not be used; nil: it may.
func try(in inputs, kind sandbox.Kind) *Refusal {
	if in.SwitchedOff {
		return &Refusal{kind, CodeSwitchedOff, "workspace.code_exec switches all code off", "brig config show"}
	}
	switch kind {
	case sandbox.Docker, sandbox.Host, sandbox.WASM:
	case sandbox.InProcess, sandbox.Memory:
		if !in.Development {
			return &Refusal{
				kind, CodeDevelopment,
				fmt.Sprintf("the %s backend contains nothing and is for development only", kind),
				remedyContained,
			}
		}
	default:
		return &Refusal{kind, CodeUnknown, fmt.Sprintf("there is no backend named %q", kind), remedyContained}
	}
	p, present := in.Probes[kind]
	if !present {
		return &Refusal{kind, CodeMissing, fmt.Sprintf("this build of brig has no %s backend", kind), remedyContained}
	}
	if p.Err != nil {
		return unavailable(kind, p.Err)
	}
	if len(p.Layers) == 0 {
		return unavailable(kind, errNoForecast)
	}
	if kind == sandbox.Host {
		return tryHost(in, p)
	}
	if uncontained(p.Layers) && !developmentOnly(kind) {
		return unacknowledged(kind, in.Acknowledged || in.Trial)
	}
	return nil
}

func tryHost(in inputs, p probe) *Refusal {
	switch effective(in.Mode) {
	case sandbox.ModeOff:
		return nil
	case sandbox.ModeBestEffort:
		if uncontained(p.Layers) {
			return unacknowledged(sandbox.Host, in.Acknowledged || in.Trial)
		}
		return nil
	case sandbox.ModeRequire:
		if in.Trial {
			return nil
		}
		if missing := gaps(p); len(missing) > 0 {
			return incomplete(missing)
		}
		return unverified(p.Promised, in.Verdicts)
	}
	panic("BUG: effective returned an unknown mode")
}

// effective reads an empty mode as the documented default and an unknown one as the strictest.
func effective(mode sandbox.Mode) sandbox.Mode {
	switch mode {
	case sandbox.ModeOff, sandbox.ModeBestEffort, sandbox.ModeRequire:
		return mode
	case "":
		return sandbox.ModeBestEffort
	default:
		return sandbox.ModeRequire
	}
}

func unavailable(kind sandbox.Kind, err error) *Refusal {
	var known *sandbox.Unavailable
	if errors.As(err, &known) {
		return &Refusal{kind, known.Code, known.Reason, known.Remedy}
	}
	remedy := "brig doctor"
	if errors.Is(err, syscall.EMFILE) {
		remedy = "ulimit -n 1024"
	}
	return &Refusal{kind, CodeCouldNotTell, fmt.Sprintf("whether %s can be used could not be found out: %v", kind, err), remedy}
}

func unacknowledged(kind sandbox.Kind, acknowledged bool) *Refusal {
	if acknowledged {
		return nil
	}
	return &Refusal{
		kind, CodeUnacknowledged,
		fmt.Sprintf("the %s sandbox can restrict neither files nor system calls here, so code would run as your user, with nothing between it and your files", kind),
		acceptCommand,
	}
}

func incomplete(missing []sandbox.Layer) *Refusal {
	return &Refusal{
		sandbox.Host, CodeIncomplete,
		"host.sandbox is require, but " + strings.Join(sentences(missing), ", "),
		"brig doctor",
	}
}

// unverified says which promised layers the self-test has not seen hold. What was
// not tried, or could not be decided, is not known to hold.
func unverified(promised []sandbox.LayerID, verdicts map[sandbox.LayerID]Verdict) *Refusal {
	if verdicts == nil {
		return nil
	}
	var found []string
	var untried []string
	for _, id := range promised {
		switch verdict, seen := verdicts[id]; {
		case !seen:
			untried = append(untried, string(id))
		case verdict != Blocked:
			found = append(found, fmt.Sprintf("found %s %s", id, verdict))
		}
	}
	switch {
	case len(verdicts) == 0 && len(untried) > 0:
		found = append(found, "has not seen it hold since this machine was started")
	case len(untried) > 0:
		found = append(found, "did not try "+strings.Join(untried, ", "))
	case len(found) == 0:
		return nil
	}
	return &Refusal{
		sandbox.Host, CodeUnverified,
		"host.sandbox is require, but the self-test " + strings.Join(found, ", "),
		"brig selftest --backend host",
	}
}

// refused sums the refusals up in one error with the last one's code and remedy.
func refused(met []Refusal, also ...string) *RefusedError {
	reasons := make([]string, 0, len(met)+len(also))
	for _, refusal := range met {
		reasons = append(reasons, refusal.Reason)
	}
	last := met[len(met)-1]
	last.Reason = strings.Join(append(reasons, also...), ", and ")
	return &RefusedError{Refusal: last, Met: slices.Clone(met)}
}

// errNoForecast is about a backend that says neither what it enforces nor why not.
var errNoForecast = errors.New("it does not say what it would enforce")

// mistaken says that the settings ask that backend for something that is not there.
func mistaken(p probe) bool {
	var known *sandbox.Unavailable
	return errors.As(p.Err, &known) && known.Settings
}

// forecast is the posture that an instance would have.
func (p probe) forecast() sandbox.Posture {
	return sandbox.Posture{Layers: p.Layers, Promised: p.Promised}
}

// gaps are the promised layers of a forecast that would not be enforced.
func gaps(p probe) []sandbox.Layer { return p.forecast().Weakened() }

// opened are the layers that only the settings keep from being enforced: nothing
// is weakened, because they are not promised then, and it has to be said all the
// same. host.network is the one setting that opens any.
func opened(kind sandbox.Kind, p sandbox.Posture) []sandbox.Layer {
	if kind != sandbox.Host || slices.Contains(p.Promised, sandbox.NetOutbound) {
		return nil
	}
	var out []sandbox.Layer
	for _, id := range []sandbox.LayerID{sandbox.NetOutbound, sandbox.NetLoopback} {
		if l := p.Layer(id); l.State != sandbox.Enforced && !slices.Contains(p.Promised, id) {
			out = append(out, l)
		}
	}
	return out
}

// sentences words gaps as the posture does.
func sentences(missing []sandbox.Layer) []string {
	ids := make([]sandbox.LayerID, len(missing))
	for i, l := range missing {
		ids[i] = l.ID
	}
	return sandbox.Posture{Layers: missing, Promised: ids}.Warnings()
}

// uncontained says that layers restrict neither files nor system calls: nothing
// that deserves the name stands between the code and the user's rights.
func uncontained(layers []sandbox.Layer) bool {
	p := sandbox.Posture{Layers: layers}
	for _, id := range []sandbox.LayerID{sandbox.FSWrite, sandbox.FSRead, sandbox.SyscallFilter} {
		switch p.Layer(id).State {
		case sandbox.Enforced, sandbox.Partial:
			return false
		case sandbox.Off, sandbox.Unsupported:
		}
	}
	return true
}

func developmentOnly(kind sandbox.Kind) bool {
	return kind == sandbox.InProcess || kind == sandbox.Memory
}
