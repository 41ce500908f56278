package orchestrator

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"brig/orchestrator/sandbox"
)

// CodeSettings is the code of a refusal to go on in an instance that was started
// under settings which those in force do not allow any more.
const CodeSettings = "settings-changed"

// tolerate says why an instance that lives may take no further run; nil: it may. It
// is resolve for one that exists already: the same ladder and the same rules, with
// what the instance was seen to enforce in place of a forecast. base is what an
// instance would be made with now.
func tolerate(in inputs, b bound, base sandbox.Base) *RefusedError {
	kind := b.posture.Backend
	if in.SwitchedOff {
		return refused([]Refusal{*try(in, kind)})
	}
	refuse := func(reason string, args ...any) *RefusedError {
		return refused([]Refusal{{kind, CodeSettings, fmt.Sprintf(reason, args...), ""}})
	}
	if !slices.Contains(ladder(in), kind) {
		switch {
		case in.Configured != sandbox.Docker || kind != sandbox.Host:
			return refuse("execution.backend is %s now, and the session's interpreter runs on %s", in.Configured, kind)
		case in.Image:
			return refuse("only a container can run the image that the settings ask for now, and the session's interpreter runs on %s", kind)
		}
		return refuse("execution.fallback is none now, and the session's interpreter runs on %s in place of %s", kind, in.Configured)
	}
	in.Probes = map[sandbox.Kind]probe{kind: {Layers: b.posture.Layers, Promised: b.posture.Promised}}
	if refusal := try(in, kind); refusal != nil {
		return refused([]Refusal{*refusal})
	}
	switch {
	case in.Trial:
	case b.resolution.Mode == sandbox.ModeOff && effective(in.Mode) != sandbox.ModeOff:
		return refuse("host.sandbox is %s now, and the session's interpreter was started with %s", effective(in.Mode), sandbox.ModeOff)
	case openness(b.base.Network) > openness(base.Network):
		return refuse("the network is %s now (%s), and the session's interpreter was started with %s", base.Network, openedBy, b.base.Network)
	case kind == sandbox.Docker && b.base.Runtime != base.Runtime && strings.Trim(base.Runtime, " ") != "" && base.Runtime != "auto":
		return refuse("docker.runtime is %s now, and the session's interpreter was started with %s", base.Runtime, cmp.Or(b.base.Runtime, "auto"))
	}
	return nil
}

// openness orders what a network lets through.
func openness(n sandbox.Network) int {
	switch n {
	case sandbox.NetworkLoopback:
		return 1
	case sandbox.NetworkAllow:
		return 2
	case sandbox.NetworkDeny, "":
	}
	return 0
}

// permitted holds the session's living instance against the settings in force; nil:
// it may go on, or there is none and the next one is resolved anyway.
func (s *Session) permitted() *RefusedError {
	s.mu.Lock()
	s.notice()
	state, b, w := s.state, s.bound, s.spec.wish
	s.mu.Unlock()
	switch state {
	case StateIdle, StateRunning, StateInterrupting:
	case StateNew, StateStarting, StateLost, StateReplacing, StateClosing, StateClosed:
		return nil
	}
	in := s.o.inputs(question{want: s.spec.want, wish: w, trial: s.spec.trial})
	if b.posture.Backend == sandbox.Host {
		in.Verdicts = s.o.verdicts()
	}
	err := tolerate(in, b, s.o.base(b.posture.Backend, w))
	if err != nil && err.Remedy == "" {
		// The next instance is made as the settings ask, and without the variables.
		err.Remedy = "brig session reset " + s.Name()
		err.Met[len(err.Met)-1].Remedy = err.Remedy
	}
	return err
}

// Differs says what of the settings in force the session does not have yet, a
// sentence each: why nothing may run in its instance any more, and which numbers the
// next one will have.
func (s *Session) Differs() []string {
	var out []string
	if err := s.permitted(); err != nil {
		out = append(out, "nothing runs in it now: "+err.Error())
	}
	s.mu.Lock()
	b, w, state := s.bound, s.spec.wish, s.state
	s.mu.Unlock()
	if b.instance == nil || state == StateLost || state == StateReplacing {
		return out
	}
	now := s.o.base(b.posture.Backend, w)
	if b.posture.Detached {
		now.Limits.Workspace = now.Limits.WorkspaceInMemory()
	}
	if changed := changes(b, now); len(changed) > 0 {
		out = append(out, "other settings are in force since it was started, for its next interpreter: "+strings.Join(changed, ", "))
	}
	return out
}

// changes are the settings that say something else than what an instance has.
func changes(b bound, now sandbox.Base) []string {
	var out []string
	for _, one := range []struct {
		setting   string
		has, says string
	}{
		{"docker.image", b.base.Image, now.Image},
		{"host.python", b.base.Python, now.Python},
		{"limits.memory", size(b.limits.Memory), size(now.Limits.Memory)},
		{"limits.processes", fmt.Sprint(b.limits.Processes), fmt.Sprint(now.Limits.Processes)},
		{"limits.cpus", cores(b.limits.MilliCPU), cores(now.Limits.MilliCPU)},
		{"limits.open_files", fmt.Sprint(b.limits.OpenFiles), fmt.Sprint(now.Limits.OpenFiles)},
		{"limits.file_size", size(b.limits.FileSize), size(now.Limits.FileSize)},
		{"limits.workspace", size(b.limits.Workspace), size(now.Limits.Workspace)},
		{"limits.output_kept", size(b.limits.OutputKept), size(now.Limits.OutputKept)},
		{"limits.output_logged", size(b.limits.OutputLogged), size(now.Limits.OutputLogged)},
	} {
		if one.has == one.says || one.setting == "docker.image" && b.posture.Backend != sandbox.Docker || one.setting == "host.python" && b.posture.Backend != sandbox.Host {
			continue
		}
		out = append(out, fmt.Sprintf("%s %s (it has %s)", one.setting, cmp.Or(one.says, "as found"), cmp.Or(one.has, "as found")))
	}
	return out
}

func cores(milli int) string { return fmt.Sprintf("%.3g", float64(milli)/1000) }

// giveUp lets go of an instance that the settings do not allow, if they allow
// another one: the session is being reset, so nobody misses what was in it. The
// caller has the interpreter.
func (s *Session) giveUp(ctx context.Context) error {
	old := s.permitted()
	if old == nil {
		return nil
	}
	r, err := s.o.resolve(ctx, question{want: s.spec.want, wish: s.spec.wish, trial: s.spec.trial})
	if err != nil {
		return err
	}
	if r.Err != nil {
		return r.Err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state != StateIdle {
		return nil
	}
	s.move(eventLost)
	s.loss = "it was reset, because " + old.Reason
	s.retire(s.bound.instance)
	return nil
}
