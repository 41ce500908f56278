package sys

import (
	"syscall"
	"unsafe"
)

// sandbox_check of libSystem is not part of the SDK. It is looked up when the
// program runs, so a macOS without it does not keep brig from starting.

//go:cgo_import_dynamic libc_dlsym dlsym "/usr/lib/libSystem.B.dylib"

var libc_dlsym_trampoline_addr uintptr

//go:linkname syscall_syscall6 syscall.syscall6
func syscall_syscall6(fn, a1, a2, a3, a4, a5, a6 uintptr) (r1, r2 uintptr, err syscall.Errno)

const (
	defaultHandle = ^uintptr(1) // RTLD_DEFAULT, -2
	filterPath    = 1           // SANDBOX_FILTER_PATH
	noReport      = 0x40000000  // SANDBOX_CHECK_NO_REPORT
)

// SandboxAllowsRead asks whether the profile of a process lets it read a file. A
// process without a profile may. known is false where the system gives no answer.
func SandboxAllowsRead(pid int, path string) (allowed, known bool) {
	name, err := syscall.BytePtrFromString("sandbox_check")
	if err != nil {
		return false, false
	}
	check, _, _ := syscall_syscall6(libc_dlsym_trampoline_addr, defaultHandle, uintptr(unsafe.Pointer(name)), 0, 0, 0, 0)
	if check == 0 {
		return false, false
	}
	operation, err := syscall.BytePtrFromString("file-read-data")
	if err != nil {
		return false, false
	}
	file, err := syscall.BytePtrFromString(path)
	if err != nil {
		return false, false
	}
	// The path is the first of the arguments that the declaration leaves open;
	// syscall6 passes the fourth of all in a register and on the stack.
	answer, _, _ := syscall_syscall6(check, uintptr(pid), uintptr(unsafe.Pointer(operation)), filterPath|noReport, uintptr(unsafe.Pointer(file)), 0, 0)
	switch int32(answer) {
	case 0:
		return true, true
	case 1:
		return false, true
	}
	return false, false
}
