package confine

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"os"
	"runtime"

	ll "github.com/landlock-lsm/go-landlock/landlock/syscall"
	"golang.org/x/sys/unix"
)

// render makes the order for a session with this plan. What the zygote was given
// is what every session has, or there is no session.
func (z *zygote) render(plan Plan, turn int) (sessionOrder, error) {
	if !z.report.Namespaces.Root.Applied || !z.report.PrivateShm {
		return sessionOrder{}, errors.New("the zygote has no root of its own")
	}
	o := sessionOrder{
		Env: plan.Env, Path: z.plan.Zygote.Path, Workspace: plan.Workspace, Scratch: plan.Scratch, Namespaces: z.report.Namespaces, PrivateShm: true,
		Mounts: plan.sessionMounts(z.view, hide(z.survey), z.plan.Workspace, z.plan.Scratch),
		Limits: sessionLimits(plan.Limits), Data: plan.Limits.Memory, CPUs: plan.Limits.CPUs, Turn: turn,
	}
	o.Namespaces.Unprotected = nil
	var err error
	if o.Landlock, err = z.ruleset(plan); err != nil {
		return o, err
	}
	o.Seccomp, err = sessionFilter(plan, z.report, o.Landlock.Used)
	return o, err
}

func sessionLimits(l Limits) []sessionLimit {
	limits := []sessionLimit{{"core", unix.RLIMIT_CORE, 0}}
	for _, r := range []sessionLimit{
		{"nofile", unix.RLIMIT_NOFILE, int64(l.OpenFiles)},
		{"fsize", unix.RLIMIT_FSIZE, l.FileSize},
		// In its own user namespace the count starts at zero.
		{"nproc", unix.RLIMIT_NPROC, int64(l.Processes)},
	} {
		if r[2].(int64) > 0 {
			limits = append(limits, r)
		}
	}
	return limits
}

func (z *zygote) ruleset(plan Plan) (sessionLandlock, error) {
	abi, err := ll.LandlockGetABIVersion()
	if err != nil {
		return sessionLandlock{}, fmt.Errorf("ask for the version of Landlock: %w", err)
	}
	all := presets()
	l := sessionLandlock{ABI: abi, Used: min(abi, len(all)-1)}
	if l.Errata, err = ll.LandlockGetErrata(); err != nil {
		l.Errata = 0 // kernels before 6.15 cannot say
	}
	if l.Used >= 6 && l.Errata&erratumSignals == 0 {
		l.Used = 5
	}
	config := all[l.Used]
	l.Handled = Handled{FS: uint64(config.HandledAccessFS), Net: uint64(config.HandledAccessNet), Scoped: uint64(config.Scoped)}
	v := Survey{Paths: maps.Clone(z.survey.Paths)}
	for _, own := range []string{plan.Workspace, plan.Scratch} {
		v.Paths[own] = Found{Kind: Dir, Real: own}
	}
	var own []string
	for _, s := range shared(z.view) {
		own = append(own, s.Path)
	}
	for _, rule := range plan.Rules(v, own...) {
		if rule.Rights &= l.Handled.FS; rule.Rights != 0 {
			l.Rules = append(l.Rules, rule)
		}
	}
	l.Missing = plan.Ungranted(v)
	return l, nil
}

func sessionFilter(plan Plan, base Report, landlock int) (sessionSeccomp, error) {
	arch, ok := archOf(runtime.GOARCH)
	if !ok {
		return sessionSeccomp{}, errors.New("there is no system call filter for this processor")
	}
	h := helper{plan: plan, report: base}
	h.report.Landlock = Landlock{Layer: Layer{Applied: true}, Used: landlock}
	filter := h.filter()
	program := filter.Program(arch)
	raw := make([]byte, 0, 8*len(program))
	for _, in := range program {
		raw = binary.NativeEndian.AppendUint16(raw, in.Code)
		raw = append(raw, in.JT, in.JF)
		raw = binary.NativeEndian.AppendUint32(raw, in.K)
	}
	return sessionSeccomp{
		Program: hex.EncodeToString(raw), Number: unix.SYS_SECCOMP, Flags: unix.SECCOMP_FILTER_FLAG_SPEC_ALLOW,
		Report: Seccomp{Arch: arch.String(), Filter: filter, Length: len(program), Hash: Hash(program)},
	}, nil
}

// kept is the capability that the zygote of a root has left: without it, the
// kernel lets nobody give a user namespace the user 0. It is one over the zygote's
// own namespace, and a session drops it with all others.
func (p Plan) kept() []uintptr {
	if p.Zygote == nil || os.Getuid() != 0 {
		return nil
	}
	return []uintptr{unix.CAP_SETFCAP}
}

// writableProc gives a zygote a /proc of its process namespace that it can write
// to: the users of a session's own namespace are written there. It shows
// processes and nothing else, and no directory leads to it.
func (h *helper) writableProc() (err error) {
	if h.plan.Zygote == nil {
		return nil
	}
	fs, err := unix.Fsopen("proc", unix.FSOPEN_CLOEXEC)
	if err != nil {
		return os.NewSyscallError("fsopen", err)
	}
	defer func() { _ = unix.Close(fs) }() // it is mounted
	if err := unix.FsconfigSetString(fs, "subset", "pid"); err != nil {
		return os.NewSyscallError("fsconfig", err)
	}
	if err := unix.FsconfigCreate(fs); err != nil {
		return os.NewSyscallError("fsconfig", err)
	}
	h.users, err = unix.Fsmount(fs, unix.FSMOUNT_CLOEXEC, unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV|unix.MOUNT_ATTR_NOEXEC)
	return os.NewSyscallError("fsmount", err)
}
