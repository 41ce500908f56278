package sys

import (
	"errors"
	"os"
	"slices"
	"strconv"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Prctl is prctl with integer arguments.
func Prctl(option int, arg uintptr) error { return unix.Prctl(option, arg, 0, 0, 0) }

// Dumpable sets whether other processes of the same user may look into this one.
func Dumpable(on bool) error {
	if on {
		return Prctl(unix.PR_SET_DUMPABLE, 1)
	}
	return Prctl(unix.PR_SET_DUMPABLE, 0)
}

// CloseOnExec marks every descriptor from first on close-on-exec. Kernels before
// 5.11 lack the call for it; there each open descriptor is marked by itself.
func CloseOnExec(first int) error {
	err := unix.CloseRange(uint(first), ^uint(0)>>32, unix.CLOSE_RANGE_CLOEXEC)
	// EINVAL: 5.9 and 5.10 have the call without that flag. EPERM: the filter of an
	// older container engine answers so to calls that it does not know.
	if errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EINVAL) || errors.Is(err, unix.EPERM) {
		return closeOnExecOneByOne(first)
	}
	return err
}

func closeOnExecOneByOne(first int) error {
	dir, err := os.Open("/proc/self/fd")
	if err != nil {
		return err
	}
	defer func() { _ = dir.Close() }() // opened for reading
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return err
	}
	for _, name := range names {
		fd, err := strconv.Atoi(name)
		if err != nil || fd < first {
			continue
		}
		// EBADF: closed between listing and marking, which is as good.
		if _, err := unix.FcntlInt(uintptr(fd), unix.F_SETFD, unix.FD_CLOEXEC); err != nil && !errors.Is(err, unix.EBADF) {
			return err
		}
	}
	return nil
}

// DropCapabilities empties every capability set of the calling thread, but for
// those named, and locks it that way, so that not even user 0 gets them back
// through an exec.
func DropCapabilities(but ...uintptr) error {
	for c := uintptr(0); c <= 63; c++ {
		held, err := unix.PrctlRetInt(unix.PR_CAPBSET_READ, c, 0, 0, 0)
		if err != nil {
			break // beyond the last capability that this kernel knows
		}
		if held == 0 || slices.Contains(but, c) {
			continue
		}
		// EPERM: an ordinary user cannot shrink the bounding set; with
		// no_new_privs it cannot use it either.
		if err := Prctl(unix.PR_CAPBSET_DROP, c); err != nil && !errors.Is(err, unix.EPERM) {
			return err
		}
	}
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var kept [2]unix.CapUserData
	for _, c := range but {
		bit := uint32(1) << (c % 32)
		kept[c/32] = unix.CapUserData{Effective: kept[c/32].Effective | bit, Permitted: kept[c/32].Permitted | bit, Inheritable: kept[c/32].Inheritable | bit}
	}
	if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil && !errors.Is(err, unix.EINVAL) {
		return err
	}
	for _, c := range but {
		if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_RAISE, c, 0, 0); err != nil {
			return err
		}
	}
	// The securebits need CAP_SETPCAP; an ordinary user has nothing to lock.
	const locked = secNoRoot | secNoRoot<<1 | secNoSetuidFixup | secNoSetuidFixup<<1 | secNoAmbient | secNoAmbient<<1
	if err := Prctl(unix.PR_SET_SECUREBITS, locked); err != nil && !errors.Is(err, unix.EPERM) {
		return err
	}
	return unix.Capset(&header, &kept[0])
}

// EffectiveCapabilities are those of the calling thread, as bits.
func EffectiveCapabilities() (uint64, error) {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(&header, &data[0]); err != nil {
		return 0, err
	}
	return uint64(data[1].Effective)<<32 | uint64(data[0].Effective), nil
}

// Subreaper says whether this process gets the orphans of its descendants.
func Subreaper() (bool, error) {
	var on int32
	if err := unix.Prctl(unix.PR_GET_CHILD_SUBREAPER, uintptr(unsafe.Pointer(&on)), 0, 0, 0); err != nil {
		return false, err
	}
	return on == 1, nil
}

// Bits of PR_SET_SECUREBITS (linux/securebits.h); each is followed by its lock.
const (
	secNoRoot        = 1 << 0
	secNoSetuidFixup = 1 << 2
	secNoAmbient     = 1 << 6
)
