package hostfallback

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"brig/hostfallback/confine"
	"brig/orchestrator/runner"
	"brig/orchestrator/sandbox"
	files "brig/orchestrator/workspace"
)

// Backend is the host sandbox of this machine.
type Backend struct {
	options Options
	known   answers
	held    runners
	warm    zygotes
}

var _ sandbox.Backend = (*Backend)(nil)

// New returns a backend. It starts nothing and works on every system: where
// there is no host sandbox, Probe and Prepare say so.
func New(o Options) (*Backend, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	if o.Executable == "" && supported() == nil {
		var err error
		if o.Executable, err = ourselves(); err != nil {
			return nil, fmt.Errorf("find the program that brig is: %w", err)
		}
	}
	return &Backend{options: o}, nil
}

// Kind is constant.
func (b *Backend) Kind() sandbox.Kind { return sandbox.Host }

// Probe finds the interpreter and lets it say what it is.
func (b *Backend) Probe(ctx context.Context) (sandbox.Facts, error) {
	in, _, err := b.interpreter(ctx, sandbox.Base{})
	if err != nil {
		return sandbox.Facts{}, err
	}
	details := map[string]string{
		"implementation": in.About.Implementation, "executable": in.About.Executable,
		"prefix": strings.Join(slices.Compact(slices.Sorted(slices.Values(in.About.Prefixes))), ", "),
	}
	if left := in.notGranted(); left != "" {
		details[NotGranted] = left
	}
	return sandbox.Facts{
		Backend: sandbox.Host, Endpoint: in.Found, Source: in.Source, Version: in.About.version(), Warnings: unverified(), Details: details,
	}, nil
}

// NotGranted is the detail of the facts that names directories of modules which
// no instance may read.
const NotGranted = "not granted"

// Promised are the layers that an instance promises to enforce.
func (b *Backend) Promised(base sandbox.Base) []sandbox.LayerID { return promised(base) }

// Capabilities applies every layer to a helper that runs nothing, and tells what
// came of it.
func (b *Backend) Capabilities(ctx context.Context, base sandbox.Base) ([]sandbox.Layer, error) {
	in, script, err := b.interpreter(ctx, base)
	if err != nil {
		return nil, err
	}
	plan, release, err := b.plan(base, in, script, "")
	if err != nil {
		return nil, err
	}
	defer release()
	plan.CheckOnly = true
	p, started, err := launch(ctx, b.options.Executable, plan)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(p.hangUp(), p.end()); err != nil {
		return nil, err
	}
	e := evidence{report: started.Report, watch: started.Watch, base: base, sockets: sockets(plan.Grants)}
	if err := e.loopback(); err != nil {
		return nil, err
	}
	rows := layers(e)
	return rows, sandbox.Complete(rows)
}

// compileTimeout bounds what is done once per interpreter to start quicker later.
const compileTimeout = 5 * time.Second

// interpreter makes sure that there is a host sandbox here that can do what base
// asks for, that the runner's files are in place and that an interpreter can run them.
func (b *Backend) interpreter(ctx context.Context, base sandbox.Base) (interpreter, string, error) {
	if err := supported(); err != nil {
		return interpreter{}, "", err
	}
	if ctx.Err() != nil {
		return interpreter{}, "", context.Cause(ctx)
	}
	script, err := b.install()
	if err != nil {
		return interpreter{}, "", err
	}
	in, err := b.options.interpret(ctx, &b.known, base.Python, filepath.Dir(script))
	if err != nil {
		return interpreter{}, "", err
	}
	compiling, cancel := context.WithTimeoutCause(ctx, compileTimeout, fmt.Errorf("no byte code within %s", compileTimeout))
	defer cancel()
	// Byte code only makes starts quicker: an interpreter that cannot make it runs the source.
	_ = runner.Precompile(compiling, in.About.Executable, script)
	return in, script, nil
}

// Prepare starts a confined runner, checks what the helper reports and greets the
// runner. In require mode a promised layer that does not hold ends it. A Lease is
// refused: this backend has nothing that could outlive brig.
func (b *Backend) Prepare(ctx context.Context, base sandbox.Base, workspace string) (sandbox.Prepared, error) {
	if base.Lease != 0 {
		// Its processes hold the ends of brig's pipes, and nobody can open those again.
		// So this backend is no sandbox.Adopter, and a promise to wait would be broken.
		return nil, fmt.Errorf("prepare: an instance of the host sandbox ends with its brig: %w", errors.ErrUnsupported)
	}
	base.Limits = base.Limits.WithDefaults()
	var first *head
	if b.options.Zygotes.Most == 0 && supported() == nil { // else it is likely that none is needed
		first = ahead(b.options.Executable)
		defer first.drop()
	}
	in, script, err := b.interpreter(ctx, base)
	if err != nil {
		return nil, err
	}
	if err := shield(); err != nil {
		return nil, err
	}
	resolved, err := filepath.EvalSymlinks(workspace)
	if err != nil {
		return nil, fmt.Errorf("resolve the workspace: %w", err)
	}
	// It may have been a container's, whose code is another user's.
	if err := files.Take(resolved); err != nil {
		return nil, err
	}
	n, err := b.begin(ctx, base, in, script, resolved, first)
	if err != nil {
		return nil, err
	}
	if !b.options.any() {
		err = agrees(n.process.plan, n.started.Report)
	}
	if err == nil {
		e := evidence{report: n.started.Report, watch: n.started.Watch, base: base}
		if err = e.loopback(); err == nil {
			err = satisfies(base, layers(e))
		}
	}
	if err != nil {
		err = errors.Join(err, n.process.hangUp(), n.process.end())
		n.release()
		return nil, err
	}
	prepared := newInstance(n.process, n.started, base, in, workspace, n.release)
	prepared.refused, prepared.hash = n.refused, b.held.trusted()
	if err := prepared.greet(ctx); err != nil {
		return nil, errors.Join(err, prepared.Close(context.WithoutCancel(ctx)))
	}
	return prepared, nil
}

// plan makes the directory of an instance and writes down what it may do. An
// empty workspace is for an instance that runs nothing. release removes the
// directory; the supervisor does so too, when brig cannot.
func (b *Backend) plan(base sandbox.Base, in interpreter, script, workspace string) (confine.Plan, func(), error) {
	return b.planIn(b.options.instances(), base, in, script, workspace)
}

// planIn does so below a directory that holds those of others as well.
func (b *Backend) planIn(dir string, base sandbox.Base, in interpreter, script, workspace string) (confine.Plan, func(), error) {
	base.Limits = base.Limits.WithDefaults()
	if effective(base.Mode) != sandbox.ModeOff {
		if err := b.options.secluded(); err != nil {
			return confine.Plan{}, nil, err
		}
	}
	var random [8]byte
	_, _ = rand.Read(random[:]) // it never fails
	token := hex.EncodeToString(random[:])
	root, err := filepath.Abs(dir)
	if err == nil {
		err = os.MkdirAll(root, 0o700)
	}
	if err == nil {
		root, err = filepath.EvalSymlinks(root)
	}
	home := filepath.Join(root, token)
	if err == nil {
		err = os.Mkdir(home, 0o700)
	}
	if err != nil {
		return confine.Plan{}, nil, fmt.Errorf("make the instance's directory: %w", err)
	}
	unlock := func() {}
	release := func() {
		unlock()
		_ = confine.RemoveTree(home) // what stays is found by Sweep
	}
	scratch := filepath.Join(home, "scratch")
	if workspace == "" {
		workspace = filepath.Join(home, "workspace")
		err = os.Mkdir(workspace, 0o700)
	}
	if err == nil {
		err = os.Mkdir(scratch, 0o700)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(home, ownerFile), []byte(b.options.Owner), 0o600)
	}
	if err == nil {
		unlock, err = occupy(filepath.Join(home, confine.LockFile))
	}
	if err != nil {
		unlock = func() {}
		release()
		return confine.Plan{}, nil, fmt.Errorf("make the instance's directory: %w", err)
	}
	limits := base.Limits
	cpus := (limits.MilliCPU + 999) / 1000
	inet := base.Network == sandbox.NetworkAllow
	plan := confine.Plan{
		Token:   token,
		Command: command(in, script),
		Env:     environment(token, scratch, in, cpus),
		Home:    home,
		Policy: confine.Policy{
			Mode:      confine.Mode(effective(base.Mode)),
			Network:   network(base.Network),
			Workspace: workspace, Scratch: scratch,
			Grants:    b.options.grants(in, filepath.Dir(script), inet),
			Protected: b.options.Protected,
			Namespace: effective(base.Mode) != sandbox.ModeOff,
			Limits: confine.Limits{
				Memory: limits.Memory, Processes: limits.Processes, CPUs: cpus, MilliCPU: limits.MilliCPU, OpenFiles: limits.OpenFiles,
				// No file can hold more than all of them; the kernel knows only the first.
				FileSize: min(limits.FileSize, limits.Workspace), Disk: limits.Workspace,
			},
		},
	}
	b.options.spoil(&plan)
	return plan, release, nil
}

// command starts the runner. Where its worker is a fork, the module site is left
// to that: code of installed packages, which it may run, does not run in the half
// that judges, and both halves get ready at the same time.
func command(in interpreter, script string) []string {
	if !forksHere || in.About.Implementation != "CPython" {
		return []string{in.About.Executable, "-I", "-u", script}
	}
	path := strings.Join(in.About.Path, string(filepath.ListSeparator))
	return []string{in.About.Executable, "-I", "-S", "-X", "brig_path=" + path, "-u", script}
}

// network reads what is not known as deny.
func network(n sandbox.Network) confine.Network {
	switch n {
	case sandbox.NetworkAllow:
		return confine.NetworkAllow
	case sandbox.NetworkLoopback:
		return confine.NetworkLoopback
	default:
		return confine.NetworkDeny
	}
}

// effective reads an empty mode as the default and an unknown one as the strictest.
func effective(m sandbox.Mode) sandbox.Mode {
	switch m {
	case sandbox.ModeOff, sandbox.ModeBestEffort, sandbox.ModeRequire:
		return m
	case "":
		return sandbox.ModeBestEffort
	default:
		return sandbox.ModeRequire
	}
}

// satisfies refuses an instance that require does not accept.
func satisfies(base sandbox.Base, rows []sandbox.Layer) error {
	if effective(base.Mode) != sandbox.ModeRequire {
		return nil
	}
	missing := sandbox.Posture{Layers: rows, Promised: promised(base)}.Warnings()
	if len(missing) == 0 {
		return nil
	}
	return unavailable("host-sandbox-incomplete", "brig doctor", nil,
		"host.sandbox is require, but on this machine %s", strings.Join(missing, ", "))
}

// Close lets go of the runner's files.
func (b *Backend) Close(context.Context) error {
	b.warm.close()
	b.held.drop()
	return nil
}

const (
	ownerFile = "owner"
	idFile    = "id"
	// freshFor is how long a directory may lack its lock file before it counts as abandoned.
	freshFor = time.Minute
)

// Sweep removes what brig processes of this owner left when they and the
// supervisors of their instances were killed together. Instances whose
// supervisor lives are left alone: it ends them by itself when its brig is gone.
// Files of the runner of other versions of brig go as well, when none of those runs;
// they do not count.
func (b *Backend) Sweep(ctx context.Context, owner string, keep func(sandbox.InstanceID) bool) (int, error) {
	if supported() != nil {
		return 0, nil // no instance was ever made here
	}
	failed := b.sweepRunners(ctx)
	// Zygotes first, since instances are below them. They do not count.
	_, err := b.sweepIn(ctx, b.options.zygoteHomes(), owner, func(sandbox.InstanceID) bool { return false })
	removed, more := b.sweepIn(ctx, b.options.instances(), owner, keep)
	return removed, errors.Join(failed, err, more)
}

func (b *Backend) sweepIn(ctx context.Context, dir, owner string, keep func(sandbox.InstanceID) bool) (removed int, failed error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("list the instances: %w", err)
	}
	for _, e := range entries {
		if ctx.Err() != nil {
			return removed, errors.Join(failed, context.Cause(ctx))
		}
		gone, err := b.sweepOne(filepath.Join(dir, e.Name()), owner, keep)
		failed = errors.Join(failed, err)
		if gone {
			removed++
		}
	}
	return removed, failed
}

func (b *Backend) sweepOne(home, owner string, keep func(sandbox.InstanceID) bool) (bool, error) {
	whose, err := confine.ReadNote(filepath.Join(home, ownerFile))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return false, fmt.Errorf("read the owner of an instance: %w", err)
	}
	if err == nil && string(whose) != owner {
		return false, nil
	}
	release, ok, lockErr := abandoned(filepath.Join(home, confine.LockFile))
	switch {
	case errors.Is(lockErr, os.ErrNotExist):
		// Being made at this moment, or left in the middle of that.
		info, err := os.Stat(home)
		if err != nil || time.Since(info.ModTime()) < freshFor {
			return false, nil
		}
		release = func() {}
	case lockErr != nil:
		return false, fmt.Errorf("take the lock of an instance: %w", lockErr)
	case !ok:
		return false, nil
	}
	defer release()
	id, err := confine.ReadNote(filepath.Join(home, idFile))
	if err == nil && keep != nil && keep(sandbox.InstanceID(id)) {
		return false, nil
	}
	left, err := rescue(home, filepath.Base(home), 0)
	if err != nil {
		return false, err
	}
	if len(left) > 0 {
		return false, fmt.Errorf("end what an instance left: processes %v do not die", left)
	}
	if err := confine.RemoveTree(home); err != nil {
		return false, fmt.Errorf("remove what an instance left: %w", err)
	}
	return true, nil
}
