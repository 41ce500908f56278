package hostfallback

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"brig/hostfallback/confine"
	"brig/orchestrator/sandbox"
)

// ZygoteOptions say how warmed interpreters are kept. Sessions are forked from
// them where a fork gives all that a start of its own would, and started by
// themselves everywhere else: in the mode off, with a network, with a workspace
// elsewhere, and where the machine refuses a part of the sandbox.
type ZygoteOptions struct {
	// Most is how many are kept at a time; none by default.
	Most int
	// Workspaces is the directory that holds the workspaces of sessions. A zygote
	// can write to all of it, and a session forked from it to its own part only.
	Workspaces string
	// Packages are imported in advance. Their code runs before the session is
	// confined, in the zygote's sandbox, so in the mode require there are none.
	Packages []string
	// Idle is how long one is kept that nobody uses; 0 means ten minutes.
	Idle time.Duration
}

const (
	zygoteIdle    = 10 * time.Minute
	zygotePatient = 30 * time.Second // for one to get warm
	importSeconds = 10
	zygoteArg     = "zygote"
)

// zygoteKey is what sessions of one zygote have in common: interpreter, policy
// base and packages.
type zygoteKey struct {
	python, version, script string
	mode                    confine.Mode
	limits                  confine.Limits
	grants, protected       string
	packages                string
}

// zygotes are those of one backend.
type zygotes struct {
	mu     sync.Mutex
	closed bool
	all    map[zygoteKey]*zygote
	making sync.WaitGroup
}

// zygote is one, or why there is none.
type zygote struct {
	made    chan struct{} // closed when it is ready, or never will be
	why     string        // there is none because of this
	process *process
	started confine.Started
	ask     func(plan confine.Plan, p *process) error // sends a plan with the other ends of p's pipes
	retire  func()                                    // it ends with its last session

	// Guarded by zygotes.mu.
	live  int
	used  time.Time
	idle  time.Duration
	timer *time.Timer
}

// beginning is an instance that has started and was not greeted yet.
type beginning struct {
	process *process
	started confine.Started
	release func()
	refused string // why it was not forked from a zygote that was there
}

// begin starts an instance: by a fork where a zygote is ready, otherwise by itself,
// with the supervisor that was started ahead if there is one.
func (b *Backend) begin(ctx context.Context, base sandbox.Base, in interpreter, script, workspace string, first *head) (n beginning, err error) {
	plan, release, err := b.plan(base, in, script, workspace)
	if err != nil {
		return n, err
	}
	key, possible := b.zygoteKey(base, in, plan)
	if possible {
		z, why := b.warm.take(key)
		if n.refused = why; z != nil {
			p, started, err := b.fork(ctx, key, z, plan)
			if err == nil {
				return beginning{process: p, started: started, release: release}, nil
			}
			release()
			if ctx.Err() != nil {
				return n, err
			}
			n.refused = err.Error()
			// The directory of the one that did not come about is gone.
			if plan, release, err = b.plan(base, in, script, workspace); err != nil {
				return n, err
			}
		}
	}
	n.release = release
	start := func(ctx context.Context, plan confine.Plan) (*process, confine.Started, error) {
		return launch(ctx, b.options.Executable, plan)
	}
	if first != nil {
		start = first.launch
	}
	if n.process, n.started, err = start(ctx, plan); err != nil {
		release()
		return n, err
	}
	if possible {
		b.warm.want(key, b.options.Zygotes, func() (*zygote, error) { return b.zygote(base, in, key, plan, n.started.Report) })
	}
	return n, nil
}

// fork starts an instance from a zygote that was taken, and gives that back.
func (b *Backend) fork(ctx context.Context, key zygoteKey, z *zygote, plan confine.Plan) (*process, confine.Started, error) {
	p, started, err := z.fork(ctx, plan)
	if err == nil {
		if err = forked(plan, started.Report); err != nil {
			err = errors.Join(err, p.hangUp(), p.end())
		}
	}
	if err == nil {
		go func() { <-p.gone; b.warm.give(key, z) }()
		return p, started, nil
	}
	b.warm.give(key, z)
	if ctx.Err() == nil {
		b.warm.spoiled(key, z, err.Error())
	}
	return nil, started, err
}

// zygoteKey names the zygote that an instance could be forked from, if there is one.
func (b *Backend) zygoteKey(base sandbox.Base, in interpreter, plan confine.Plan) (zygoteKey, bool) {
	o := b.options.Zygotes
	if !forksHere || o.Most < 1 || b.options.any() || plan.Mode == confine.ModeOff || plan.Network != confine.NetworkDeny {
		return zygoteKey{}, false
	}
	dir, err := filepath.EvalSymlinks(o.Workspaces)
	if err != nil || plan.Workspace == dir || !within(plan.Workspace, dir) {
		return zygoteKey{}, false
	}
	for _, g := range slices.Concat(plan.Grants.Execute, plan.Grants.Read, plan.Grants.Devices) {
		if within(g, dir) || within(g, filepath.Dir(plan.Home)) {
			return zygoteKey{}, false // the zygote could write to it, and a session would not see it
		}
	}
	for _, guarded := range plan.Protected {
		if within(guarded, plan.Workspace) {
			return zygoteKey{}, false // it is mounted onto itself, and that only a start of its own does
		}
	}
	var packages []string
	if plan.Mode != confine.ModeRequire {
		packages = o.Packages
	}
	return zygoteKey{
		python: in.About.Executable, version: in.About.version(), script: plan.Command[len(plan.Command)-1], mode: plan.Mode, limits: plan.Limits,
		grants: fmt.Sprint(plan.Grants), protected: fmt.Sprint(plan.Protected), packages: strings.Join(packages, " "),
	}, true
}

// zygotePlan is that of the zygote which sessions with this plan are forked from.
// Its limits are none of those that count what all its sessions have together.
func (b *Backend) zygotePlan(base sandbox.Base, in interpreter, key zygoteKey, session confine.Plan) (confine.Plan, func(), error) {
	plan, release, err := b.planIn(b.options.zygoteHomes(), base, in, key.script, session.Workspace)
	if err != nil {
		return plan, release, err
	}
	workspaces, err := filepath.EvalSymlinks(b.options.Zygotes.Workspaces)
	if err != nil {
		release()
		return plan, nil, err
	}
	plan.Workspace, plan.Scratch = workspaces, filepath.Dir(session.Home)
	plan.Limits.Processes, plan.Limits.Disk, plan.Limits.CPUs, plan.Limits.MilliCPU = 0, 0, 0, 0
	plan.Protected = slices.DeleteFunc(slices.Clone(plan.Protected), func(p string) bool {
		return within(workspaces, p) || within(plan.Scratch, p) // it does not exist in there at all
	})
	plan.Zygote = &confine.Zygote{Packages: strings.Fields(key.packages), Path: in.About.Path, Seconds: importSeconds}
	// Without the module site, nothing of what is installed runs before it is asked for.
	plan.Command = []string{in.About.Executable, "-I", "-S", "-u", key.script, zygoteArg}
	plan.Env = environment(plan.Token, plan.Home, in, 1) // one thread, because a fork has one
	return plan, release, nil
}

// fits says why sessions cannot be forked from a zygote that reports this, where
// one that is started by itself reports spawned.
func fits(r, spawned confine.Report) string {
	switch {
	case !spawned.Landlock.Applied, !spawned.Seccomp.Applied, !everyNamespace(spawned):
		return notWhole
	case !everyNamespace(r):
		return "it did not get every namespace"
	case !r.NoNewPrivs || !r.Seccomp.Applied || !r.Seccomp.Filter.Narrow || r.Landlock.Applied:
		return "its own layers are not those that it was to have"
	case !slices.Equal(r.Kept, []int{0, 1, 2, confine.FDZygoteProc}):
		return "it has other descriptors than it was given"
	}
	return ""
}

// notWhole is why there is no zygote where a session of its own lacks a layer: a
// fork gives all or nothing.
const notWhole = "not every layer is there on this machine"

// everyNamespace says that a report tells of every namespace.
func everyNamespace(r confine.Report) bool {
	n := r.Namespaces
	return r.Namespace.Applied && r.PrivateShm && n.Root.Applied && n.Process.Applied && n.Network.Applied
}

// forked checks what only a forked session has to report; agrees checks the rest.
func forked(plan confine.Plan, r confine.Report) error {
	switch {
	case r.Forked == nil:
		return errors.New("the session does not say that it was forked")
	case !r.Landlock.Applied, !r.Seccomp.Applied, !everyNamespace(r), r.CapEff != "0000000000000000":
		return errors.New("the session was not confined by every layer")
	}
	if r.Seccomp.Filter.Narrow {
		return errors.New("the session has the zygote's filter")
	}
	return nil
}

// zygoteHomes is the directory that holds those of zygotes.
func (o Options) zygoteHomes() string { return filepath.Join(o.Runtime, "zygotes") }
