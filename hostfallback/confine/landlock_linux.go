package confine

import (
	"errors"
	"fmt"

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
	if h.plan.Zygote != nil {
		r.Code = CodeZygote // mounts are refused in a domain, and sessions make theirs
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
	var rules []landlock.Rule
	for _, rule := range h.plan.Rules(h.look(), h.own...) {
		if rights := landlock.AccessFSSet(rule.Rights) & config.HandledAccessFS; rights != 0 {
			rules = append(rules, landlock.PathAccess(rights, rule.Path))
			h.count(rule)
		}
	}
	r.Missing = h.plan.Ungranted(h.look())
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

// count notes a rule by what it is for.
func (h *helper) count(rule Rule) {
	by := &h.report.Landlock.ByKind
	switch rule.For {
	case ForWrite:
		by.Write++
	case ForExecute:
		by.Execute++
	case ForRead:
		by.Read++
	case ForDevice:
		by.Devices++
	case ForShm:
		by.Shm++
		h.report.SharedShm = !h.report.PrivateShm
	}
}
