package main

import (
	"log"
	"os"
	"runtime"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// becomeBare takes from this process, and from what it becomes, the calls that a
// sandbox is made with: brig then finds itself where nothing contains code.
func becomeBare() {
	if os.Getenv(bareVar) == "" {
		return
	}
	if err := os.Unsetenv(bareVar); err != nil {
		log.Fatal(err)
	}
	runtime.LockOSThread() // the filter is this thread's until it executes something
	var filter []unix.SockFilter
	for _, number := range []uint32{unix.SYS_LANDLOCK_CREATE_RULESET, unix.SYS_SECCOMP} {
		filter = append(
			filter,
			unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS},
			unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jf: 1, K: number},
			unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO | uint32(unix.ENOSYS)},
		)
	}
	for _, number := range []uint32{unix.SYS_CLONE, unix.SYS_UNSHARE} { // both with the flags first
		filter = append(
			filter,
			unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS},
			unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jf: 3, K: number},
			unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: 16},
			unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JSET | unix.BPF_K, Jf: 1, K: unix.CLONE_NEWUSER},
			unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)},
		)
	}
	filter = append(filter, unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW})
	prog := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		log.Fatal(err)
	}
	if err := unix.Prctl(unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, uintptr(unsafe.Pointer(&prog)), 0, 0); err != nil {
		log.Fatal(err)
	}
	if os.Geteuid() != 0 { // otherwise becomeOrdinary executes the next
		log.Fatal(syscall.Exec("/proc/self/exe", os.Args, os.Environ()))
	}
}
