package confine

import (
	"errors"
	"fmt"
	"os"

	"github.com/landlock-lsm/go-landlock/landlock"
	ll "github.com/landlock-lsm/go-landlock/landlock/syscall"
	"golang.org/x/sys/unix"

	"brig/hostfallback/internal/sys"
)

// presets are the library's rule sets by the version of the kernel's interface.
func presets() []landlock.Config {
	return []landlock.Config{
		1: landlock.V1, 2: landlock.V2, 3: landlock.V3, 4: landlock.V4, 5: landlock.V5, 6: landlock.V6,
		7: landlock.V7, 8: landlock.V8, 9: landlock.V9, 10: landlock.V10, 11: landlock.V11,
	}
}

// erratumSignals is the fix without which scoping of signals does not hold.
const erratumSignals = 1 << 1

// Rights by what a grant is for. Rights beyond the preset in use are removed.
const (
	rightsRead    = ll.AccessFSReadFile | ll.AccessFSReadDir
	rightsExecute = rightsRead | ll.AccessFSExecute
	// Without execute: a program that code writes cannot be started by its path.
	// (It can be started from memory, under the same confinement, so that is no
	// claim; it keeps a planted file from being run by accident.) Without
	// devices too.
	rightsWrite = rightsRead | ll.AccessFSWriteFile | ll.AccessFSTruncate | ll.AccessFSRemoveDir |
		ll.AccessFSRemoveFile | ll.AccessFSMakeDir | ll.AccessFSMakeReg | ll.AccessFSMakeSock |
		ll.AccessFSMakeFifo | ll.AccessFSMakeSym | ll.AccessFSRefer
	rightsDevice = ll.AccessFSReadFile | ll.AccessFSWriteFile | ll.AccessFSTruncate
	// The machine's own /dev/shm: semaphores can be made, others' cannot be listed.
	rightsSharedShm = ll.AccessFSReadFile | ll.AccessFSWriteFile | ll.AccessFSMakeReg | ll.AccessFSRemoveFile | ll.AccessFSTruncate
	// What a rule on a file that is no directory may say.
	rightsOfFile = ll.AccessFSExecute | ll.AccessFSWriteFile | ll.AccessFSReadFile | ll.AccessFSTruncate | ll.AccessFSIoctlDev
)

// landlock enforces the strictest preset that the kernel knows, strictly: it is
// chosen by the version the kernel reports, and any error ends the start.
func (h *helper) landlock() error {
	r := &h.report.Landlock
	if h.plan.Mode == ModeOff {
		r.Code = CodeOff
		return nil
	}
	if h.plan.without(StageLandlock) {
		return nil
	}
	abi, err := ll.LandlockGetABIVersion()
	switch {
	case errors.Is(err, unix.ENOSYS):
		r.Code, r.Errno = CodeLandlockNotBuilt, errnoName(err)
		return nil
	case errors.Is(err, unix.EOPNOTSUPP):
		r.Code, r.Errno = CodeLandlockNotBoot, errnoName(err)
		return nil
	case err != nil:
		return fmt.Errorf("ask for the version: %w", err)
	}
	all := presets()
	r.ABI, r.Used = abi, min(abi, len(all)-1)
	if r.Errata, err = ll.LandlockGetErrata(); err != nil {
		r.Errata = 0 // kernels before 6.15 cannot say
	}
	if r.Used >= 6 && r.Errata&erratumSignals == 0 {
		r.Used = 5
	}
	config := all[r.Used]
	if h.inet() {
		config.HandledAccessNet = 0 // where internet sockets are wanted, nothing restricts ports
	}
	r.Net = config.HandledAccessNet != 0
	r.Handled = Handled{FS: uint64(config.HandledAccessFS), Net: uint64(config.HandledAccessNet), Scoped: uint64(config.Scoped)}
	rules := h.rules(config.HandledAccessFS)
	fd, flags, err := config.NewRulesetFD(rules...)
	if err != nil {
		return err
	}
	if err := sys.RestrictSelf(fd, flags); err != nil {
		return fmt.Errorf("restrict self: %w", err)
	}
	if err := unix.Close(fd); err != nil {
		return fmt.Errorf("close the ruleset: %w", err)
	}
	r.Applied, r.Rules = true, len(rules)
	return nil
}

// rules turns the grants into rules for what really is at each path. handled
// are the rights that the preset knows.
func (h *helper) rules(handled landlock.AccessFSSet) []landlock.Rule {
	var rules []landlock.Rule
	grant := func(count *int, rights landlock.AccessFSSet, paths ...string) {
		for _, path := range paths {
			info, err := os.Stat(path)
			if err != nil {
				h.report.Landlock.Missing = append(h.report.Landlock.Missing, path)
				continue
			}
			set := rights & handled
			if !info.IsDir() {
				set &= rightsOfFile
			}
			if set != 0 {
				rules = append(rules, landlock.PathAccess(set, path))
				*count++
			}
		}
	}
	by := &h.report.Landlock.ByKind
	grant(&by.Write, rightsWrite, h.plan.Workspace, h.plan.Scratch)
	grant(&by.Execute, rightsExecute, h.plan.Grants.Execute...)
	grant(&by.Read, rightsRead, h.plan.Grants.Read...)
	grant(&by.Devices, rightsDevice, h.plan.Grants.Devices...)
	switch {
	case h.report.PrivateShm:
		grant(&by.Shm, rightsWrite, "/dev/shm")
	case h.plan.Mode == ModeBestEffort:
		h.report.SharedShm = true
		grant(&by.Shm, rightsSharedShm, "/dev/shm")
	}
	return rules
}
