package sys

import (
	"golang.org/x/sys/unix"
)

// RestrictSelf puts the calling thread under a Landlock ruleset. The thread must
// have set no_new_privs.
func RestrictSelf(ruleset int, flags uint32) error {
	_, _, errno := unix.Syscall(unix.SYS_LANDLOCK_RESTRICT_SELF, uintptr(ruleset), uintptr(flags), 0)
	if errno != 0 {
		return errno
	}
	return nil
}
