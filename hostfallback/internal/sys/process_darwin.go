package sys

import (
	"encoding/binary"
	"syscall"
	"unsafe"
)

// Calls and questions of proc_info(2), which libproc is made of.
const (
	procInfo     = 336
	callPIDInfo  = 2
	callRusage   = 9
	aboutTask    = 4  // PROC_PIDTASKINFO
	aboutUnique  = 17 // PROC_PIDUNIQIDENTIFIERINFO
	rusageFourth = 4  // RUSAGE_INFO_V4, which has more than is read here
)

func ask(call, pid, about int, answer []byte) (int, bool) {
	size := uintptr(len(answer))
	if call == callRusage {
		size = 0 // the question says how long the answer is
	}
	n, _, errno := syscall.Syscall6(procInfo, uintptr(call), uintptr(pid), uintptr(about), 0, uintptr(unsafe.Pointer(&answer[0])), size)
	return int(n), errno == 0
}

// Footprint is what ending a process would give back, in bytes: its own memory with
// what of it is compressed or swapped out.
func Footprint(pid int) (int64, bool) {
	var answer [512]byte // rusage_info_v4 has 296
	if _, ok := ask(callRusage, pid, rusageFourth, answer[:]); !ok {
		return 0, false
	}
	// A uuid, user and system time, two counts of wake-ups, page-ins, wired, resident.
	return int64(binary.LittleEndian.Uint64(answer[16+7*8:])), true
}

// TaskInfo is the resident memory of a process in bytes, and its threads.
func TaskInfo(pid int) (resident int64, threads int) {
	var answer [96]byte
	if n, ok := ask(callPIDInfo, pid, aboutTask, answer[:]); !ok || n < len(answer) {
		return 0, 0
	}
	// Six numbers of 64 bits and twelve of 32; the tenth of those are the threads.
	return int64(binary.LittleEndian.Uint64(answer[8:])), int(int32(binary.LittleEndian.Uint32(answer[6*8+9*4:])))
}

// UniqueIDs are numbers that no two processes since the boot have in common: of a
// process, and of the one that made it, also when that has ended. 0 is unknown.
func UniqueIDs(pid int) (own, maker uint64) {
	var answer [56]byte
	if n, ok := ask(callPIDInfo, pid, aboutUnique, answer[:]); !ok || n < len(answer) {
		return 0, 0
	}
	return binary.LittleEndian.Uint64(answer[16:]), binary.LittleEndian.Uint64(answer[24:])
}
