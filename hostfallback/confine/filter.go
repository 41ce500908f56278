package confine

import "slices"

// The numbers of system call arguments are the same on both architectures
// (linux/socket.h, linux/sched.h, asm-generic/ioctls.h, linux/fs.h). They are
// written down here so that filters can be built and tested on any system.
const (
	afUnix    = 1
	afInet    = 2
	afInet6   = 10
	afNetlink = 16

	sockStream    = 1
	sockSeqpacket = 5
	sockTypeMask  = 0xf

	netlinkRoute = 0

	// cloneNew holds CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID and NEWNET.
	cloneNew = 0x00020000 | 0x02000000 | 0x04000000 | 0x08000000 | 0x10000000 | 0x20000000 | 0x40000000

	cloneFiles        = 0x00000400 // CLONE_FILES
	cloneThread       = 0x00010000 // CLONE_THREAD
	closeRangeUnshare = 1 << 1     // CLOSE_RANGE_UNSHARE

	rlimitRTTime = 15         // RLIMIT_RTTIME, see Rescue
	prioUser     = 2          // PRIO_USER
	ioprioUser   = 3          // IOPRIO_WHO_USER
	everyProcess = 0xffffffff // kill(-1, …)

	fcntlSetLease = 1024 // F_SETLEASE
	fcntlNotify   = 1026 // F_NOTIFY

	ioctlTIOCSTI     = 0x5412
	ioctlTIOCLINUX   = 0x541C
	ioctlSetFlags    = 0x40086602 // FS_IOC_SETFLAGS
	ioctlSetXattr    = 0x401c5820 // FS_IOC_FSSETXATTR
	x32Bit           = 0x40000000
	errnoEPERM       = 1
	errnoEACCES      = 13
	errnoEINVAL      = 22
	errnoENOSYS      = 38
	errnoEOPNOTSUPP  = 95
	errnoAFNoSupport = 97
)

// Filter says which of the variants of brig's one filter is meant.
type Filter struct {
	Inet     bool `json:"inet"`     // internet sockets may be created
	Unix     bool `json:"unix"`     // unix sockets may be created, because Landlock confines them
	Metadata bool `json:"metadata"` // chmod, chown, utime and setxattr may be called
	// Namespaces and mounts may be made, by the two calls for it, in a process that forks
	// sessions which do so to narrow themselves, and then refuse it.
	Narrow bool `json:"narrow,omitempty"`
}

// UnixConfined says that unix sockets of the user are out of reach, so that the
// instance may have its own: Landlock tells them apart, or neither their paths
// nor their abstract names are there.
func UnixConfined(r Report) bool {
	n, l := r.Namespaces, r.Landlock
	if l.Applied && l.Used >= 9 {
		return true
	}
	return r.Namespace.Applied && n.Root.Applied && (n.Network.Applied || l.Applied && l.Used >= 6)
}

// group is a list of calls that are refused whatever their arguments are.
type group struct {
	errno uint32
	why   string
	calls []string
}

// refused is the table of calls that no variant allows. A name that an
// architecture does not have is left out there.
func refused() []group {
	return []group{
		{errnoENOSYS, "io_uring makes sockets and opens files without the calls that are filtered; programs fall back to epoll", []string{
			"io_uring_setup", "io_uring_enter", "io_uring_register",
		}},
		{errnoENOSYS, "the flags of clone3 are behind a pointer; the C library falls back to clone", []string{"clone3"}},
		{errnoENOSYS, "System V objects and message queues belong to the whole user and outlive the session", []string{
			"shmget", "shmat", "shmctl", "shmdt", "semget", "semop", "semctl", "semtimedop",
			"msgget", "msgsnd", "msgrcv", "msgctl", "mq_open", "mq_unlink",
		}},
		// A descriptor may be in flight between two sockets, where nobody can count
		// what it holds. Nothing of Python's standard library or of numpy and its kin
		// needs a memfd: they use /dev/shm, temporary files and anonymous mappings.
		// What does try one (libffi, Mesa, Qt) has a way without, for older kernels.
		{errnoENOSYS, "memory that neither limits nor the watchdog can see", []string{"memfd_create", "memfd_secret"}},
		// Landlock does not see a watch: the names of new files anywhere would be
		// told, and the instances are a quota of the user that the desktop needs.
		{errnoENOSYS, "names of files outside, and a quota of the whole user", []string{
			"inotify_init", "inotify_init1", "inotify_add_watch",
		}},
		// One byte in a pipe keeps a huge page of memory after its mapping is gone, and a
		// large folio of a file after the file is. tee only repeats what a pipe has.
		{errnoEPERM, "memory behind a pipe, which no process shows", []string{"vmsplice"}},
		{errnoEINVAL, "the same of files; programs fall back to reading and writing", []string{"splice", "sendfile"}},
		{errnoENOSYS, "a quota of the whole machine; programs fall back to threads", []string{
			"io_setup", "io_destroy", "io_submit", "io_cancel", "io_getevents", "io_pgetevents",
		}},
		// What is written takes its time, in which the watch sees it. posix_fallocate of
		// the C library writes where the call is not supported.
		{errnoEOPNOTSUPP, "all of a disk between two looks of the watch", []string{"fallocate"}},
		{errnoEPERM, "reading or steering another process", []string{
			"ptrace", "process_vm_readv", "process_vm_writev", "process_madvise", "pidfd_getfd", "kcmp",
			"migrate_pages", "move_pages",
		}},
		{errnoEPERM, "namespaces", []string{"unshare", "setns"}},
		{errnoEPERM, "mounts, by the old calls and the new ones", []string{
			"mount", "umount2", "pivot_root", "chroot", "open_tree", "open_tree_attr", "move_mount", "fsopen",
			"fsconfig", "fsmount", "fspick", "mount_setattr",
		}},
		{errnoEPERM, "kernel surface that a Python program does not need", []string{
			"bpf", "perf_event_open", "userfaultfd", "fanotify_init", "kexec_load", "kexec_file_load",
			"init_module", "finit_module", "delete_module", "create_module", "get_kernel_syms", "query_module",
			"keyctl", "add_key", "request_key", "lookup_dcookie", "quotactl", "quotactl_fd", "nfsservctl", "acct",
			"swapon", "swapoff", "reboot", "syslog", "name_to_handle_at", "open_by_handle_at", "personality",
			"modify_ldt", "iopl", "ioperm", "uselib", "_sysctl", "vhangup", "sethostname", "setdomainname",
			"settimeofday", "clock_settime", "adjtimex", "clock_adjtime", "lsm_set_self_attr",
		}},
	}
}

// metadata are the calls that change a file's owner, mode, times and attributes.
// Landlock does not see them, so without a read-only view of the file system
// they reach every file of the user. The forms that take a descriptor count as
// well: one opened for reading is enough to use them.
func metadata() []string {
	return []string{
		"chmod", "fchmod", "fchmodat", "fchmodat2", "chown", "fchown", "lchown", "fchownat",
		"utime", "utimes", "futimesat", "utimensat",
		"setxattr", "lsetxattr", "fsetxattr", "setxattrat", "removexattr", "lremovexattr", "fremovexattr", "removexattrat",
		"file_setattr",
	}
}

// Program assembles the filter for an architecture. What it does not name is
// allowed, except numbers beyond the newest call it knows: a call that a later
// kernel brings is closed until someone has looked at it.
func (f Filter) Program(arch Arch) []Instruction {
	numbers := make(map[string]uint32)
	calls := arch.calls()
	for _, c := range calls {
		numbers[c.name] = c.nr
	}
	pick := func(names []string) []uint32 {
		var out []uint32
		for _, n := range names {
			if nr, ok := numbers[n]; ok {
				out = append(out, nr)
			}
		}
		return out
	}
	errno := func(n uint32) uint32 { return retErrno | n }

	var a assembler
	a.load(offArch)
	a.unless(opEqual, uint32(arch), retKillProcess)
	a.load(offNumber)
	if arch == X86 {
		a.ifThen(opGreaterOrEq, x32Bit, errno(errnoENOSYS)) // the x32 numbers, which mean other calls
	}
	for i := 1; i < len(calls); i++ {
		if low, high := calls[i-1].nr+1, calls[i].nr-1; low <= high {
			a.between(low, high, errno(errnoENOSYS))
		}
	}
	a.ifThen(opGreater, calls[len(calls)-1].nr, errno(errnoENOSYS))
	for _, g := range refused() {
		names := slices.DeleteFunc(slices.Clone(g.calls), func(name string) bool {
			return f.Narrow && (name == "unshare" || name == "mount")
		})
		a.anyOf(pick(names), errno(g.errno))
	}
	if !f.Metadata {
		a.anyOf(pick(metadata()), errno(errnoEPERM))
	}
	a.inspect(numbers["socket"], f.socket)
	a.inspect(numbers["socketpair"], socketpair)
	a.inspect(numbers["clone"], func(a *assembler) {
		a.load(offArg(0))
		a.ifThen(opAnySet, cloneNew, errno(errnoEPERM))
		// A thread with descriptors of its own would keep files out of the watchdog's sight.
		a.and(cloneThread | cloneFiles)
		a.ifThen(opEqual, cloneThread, errno(errnoEPERM))
		a.giveBack(retAllow)
	})
	a.inspect(numbers["close_range"], func(a *assembler) {
		a.load(offArg(2))
		a.ifThen(opAnySet, closeRangeUnshare, errno(errnoEPERM))
		a.giveBack(retAllow)
	})
	// Lowering the limits of another process of the user is a way to break it.
	// Its own it may lower, but for the one that is the instance's mark.
	a.inspect(numbers["prlimit64"], func(a *assembler) {
		a.load(offArg(0))
		a.unless(opEqual, 0, errno(errnoEPERM))
		a.load(offArg(1))
		a.unless(opEqual, rlimitRTTime, retAllow)
		for _, half := range []uint32{0, 4} { // of a pointer all bits count; without one it only asks
			a.load(offArg(2) + half)
			a.unless(opEqual, 0, errno(errnoEPERM))
		}
		a.giveBack(retAllow)
	})
	a.inspect(numbers["setrlimit"], func(a *assembler) {
		a.load(offArg(0))
		a.ifThen(opEqual, rlimitRTTime, errno(errnoEPERM))
		a.giveBack(retAllow)
	})
	a.inspect(numbers["setpriority"], func(a *assembler) {
		a.load(offArg(0))
		a.ifThen(opEqual, prioUser, errno(errnoEPERM)) // every process of the user, even with who 0
		onlySelf(a, 1)
	})
	a.inspect(numbers["ioprio_set"], func(a *assembler) {
		a.load(offArg(0))
		a.ifThen(opEqual, ioprioUser, errno(errnoEPERM))
		onlySelf(a, 1)
	})
	// The scheduling of any process of the user could be changed. A thread is named
	// by a number as well, so a program cannot do it to its other threads either;
	// hardly any does. Which processors a thread uses is another matter: numerical
	// libraries choose them for each of their threads, so sched_setaffinity stays.
	for _, name := range []string{"sched_setscheduler", "sched_setparam", "sched_setattr"} {
		a.inspect(numbers[name], func(a *assembler) { onlySelf(a, 0) })
	}
	a.inspect(numbers["kill"], func(a *assembler) {
		a.load(offArg(0))
		a.ifThen(opEqual, everyProcess, errno(errnoEPERM))
		a.giveBack(retAllow)
	})
	// A file that may only be read can be kept from its writers by a lease, and told
	// about by a notice, which is inotify of old.
	a.inspect(numbers["fcntl"], func(a *assembler) {
		a.load(offArg(1))
		a.ifThen(opEqual, fcntlSetLease, errno(errnoEPERM))
		a.ifThen(opEqual, fcntlNotify, errno(errnoEPERM))
		a.giveBack(retAllow)
	})
	a.inspect(numbers["ioctl"], func(a *assembler) {
		a.load(offArg(1))
		a.ifThen(opEqual, ioctlTIOCSTI, errno(errnoEPERM)) // types into somebody's terminal
		a.ifThen(opEqual, ioctlTIOCLINUX, errno(errnoEPERM))
		if !f.Metadata {
			a.ifThen(opEqual, ioctlSetFlags, errno(errnoEPERM))
			a.ifThen(opEqual, ioctlSetXattr, errno(errnoEPERM))
		}
		a.giveBack(retAllow)
	})
	a.giveBack(retAllow)
	return a.code
}

// socket decides by the family. EACCES is what Python raises as PermissionError;
// EAFNOSUPPORT is what a kernel without that family would answer.
func (f Filter) socket(a *assembler) {
	verdict := func(allowed bool) uint32 {
		if allowed {
			return retAllow
		}
		return retErrno | errnoEACCES
	}
	a.load(offArg(0))
	a.ifThen(opEqual, afUnix, verdict(f.Unix))
	a.ifThen(opEqual, afInet, verdict(f.Inet))
	a.ifThen(opEqual, afInet6, verdict(f.Inet))
	if f.Inet {
		// The resolver asks the kernel for its addresses before it sorts its answers.
		a.unless(opEqual, afNetlink, retErrno|errnoAFNoSupport)
		a.load(offArg(2))
		a.ifThen(opEqual, netlinkRoute, retAllow)
	}
	a.giveBack(retErrno | errnoAFNoSupport)
}

// socketpair allows what asyncio and multiprocessing need. A pair of datagram
// sockets could send to any pathname socket of the user.
func socketpair(a *assembler) {
	a.load(offArg(0))
	a.unless(opEqual, afUnix, retErrno|errnoEACCES)
	a.load(offArg(1))
	a.and(sockTypeMask)
	a.ifThen(opEqual, sockStream, retAllow)
	a.ifThen(opEqual, sockSeqpacket, retAllow)
	a.giveBack(retErrno | errnoEACCES)
}

// onlySelf allows the call when its argument names the caller, by zero.
func onlySelf(a *assembler, arg int) {
	a.load(offArg(arg))
	a.ifThen(opEqual, 0, retAllow)
	a.giveBack(retErrno | errnoEPERM)
}
