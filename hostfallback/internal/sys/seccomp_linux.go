package sys

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// SetFilter installs a system call filter on the calling thread, which must have
// set no_new_privs. specAllow keeps the processor's speculative store bypass as
// fast as it was: kernels before 5.16 slow down every filtered process otherwise.
func SetFilter(program []unix.SockFilter, specAllow bool) error {
	prog := unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]}
	var flags uintptr
	if specAllow {
		flags = unix.SECCOMP_FILTER_FLAG_SPEC_ALLOW
	}
	_, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, flags, uintptr(unsafe.Pointer(&prog)))
	if errno != 0 {
		return errno
	}
	return nil
}
