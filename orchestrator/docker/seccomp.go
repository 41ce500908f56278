package docker

import (
	"embed"
	"errors"
	"fmt"
	"slices"
)

//go:embed seccomp/*.json
var profiles embed.FS

// The profile that brig ships is moby's default for a container without any
// capability, for one architecture, minus withheld, with narrower arguments. The
// files under seccomp/ are what these tables make of it: seccomp_linux_test.go
// derives them anew, compares, and rewrites them with -update. An own profile
// because the built-in one differs from engine to engine, and because one for a
// single architecture loads faster.

// withheld are system calls that moby's default allows and no Python program of
// the kind brig runs needs.
func withheld() []string {
	return slices.Concat(
		// looking into other processes
		[]string{"ptrace", "process_vm_readv", "process_vm_writev", "kcmp", "pidfd_getfd", "process_madvise"},
		// kernel subsystems with a history, each an attack surface of its own
		[]string{"io_uring_setup", "io_uring_enter", "io_uring_register", "userfaultfd", "bpf", "perf_event_open"},
		[]string{"add_key", "keyctl", "request_key"},
		[]string{"modify_ldt", "remap_file_pages", "uretprobe", "memfd_secret", "vhangup"},
		// the mount table and handles that outlive a path check
		[]string{"listmount", "statmount", "name_to_handle_at", "open_by_handle_at", "fanotify_init", "fanotify_mark"},
		// watches are a quota of the host's user, shared by its containers and programs
		[]string{"inotify_init", "inotify_init1", "inotify_add_watch"},
		// quotas of the host's user, or of the host, shared in the same way
		[]string{"io_setup", "io_submit", "io_getevents", "io_pgetevents", "io_pgetevents_time64", "io_cancel", "io_destroy"},
		[]string{"mq_open", "mq_unlink", "mq_timedsend", "mq_timedsend_time64", "mq_timedreceive", "mq_timedreceive_time64", "mq_notify", "mq_getsetattr"},
		[]string{"rt_sigqueueinfo", "rt_tgsigqueueinfo"},
		// arguments behind a pointer, where no filter sees them
		[]string{"socketcall"},
	)
}

// match is a condition on one argument: of its bits under mask, it has value.
type match struct {
	index       uint
	mask, value uint64
}

// whole are the bits that the kernel looks at in an int.
const whole = 0xffffffff

// narrowed are system calls that are let through only with such arguments, and
// refused with EPERM otherwise. Each rule allows one combination.
type narrowed struct {
	names []string
	args  []match
}

// narrow is of two kinds.
//
// What decides when a process runs is for the caller itself only. The runner has the
// user of the code that it runs, so the kernel would let that code slow the runner
// down until even SIGKILL waits: a low policy, one processor with many programs on it.
//
// A socket is local, or it is TCP. The memory of other IP sockets is charged to no
// control group of version 1, and that of TCP is charged to a limit of its own.
// Without a network datagrams serve nothing; getaddrinfo does without them.
func narrow() []narrowed {
	own := []match{{0, whole, 0}}
	rules := []narrowed{
		{[]string{"sched_setscheduler", "sched_setparam", "sched_setattr", "sched_setaffinity", "prlimit64"}, own},
		{[]string{"setpriority"}, []match{{0, whole, 0}, {1, whole, 0}}}, // PRIO_PROCESS
		{[]string{"ioprio_set"}, []match{{0, whole, 1}, {1, whole, 0}}},  // IOPRIO_WHO_PROCESS
		{[]string{"pidfd_send_signal"}, []match{{2, 1<<64 - 1, 0}}},      // without a siginfo, as kill; see rt_sigqueueinfo
	}
	sockets := []string{"socket", "socketpair"}
	const unix, inet, inet6, stream, tcp = 1, 2, 10, 1, 6
	rules = append(rules, narrowed{sockets, []match{{0, whole, unix}}})
	for _, family := range []uint64{inet, inet6} {
		for _, protocol := range []uint64{0, tcp} { // 0 is TCP as well; others are MPTCP, SCTP and SMC
			rules = append(rules, narrowed{sockets, []match{{0, whole, family}, {1, 0xf, stream}, {2, whole, protocol}}}) // flags are above 0xf
		}
	}
	return append(rules, terminals()...)
}

// terminals lets every ioctl through but TIOCSTI and TIOCLINUX, which put words into
// a terminal. An allow-list cannot say "not this one", and rules on one argument are
// alternatives: so each rule names a bit in which a request differs from both, and
// the last ones the ways to differ in the three bits in which those two differ.
func terminals() []narrowed {
	const tiocsti, tioclinux = 0x5412, 0x541c
	const apart = tiocsti ^ tioclinux
	let := func(mask, value uint64) narrowed { return narrowed{[]string{"ioctl"}, []match{{1, mask, value}}} }
	var rules []narrowed
	for i := range 32 {
		if bit := uint64(1) << i; apart&bit == 0 {
			rules = append(rules, let(bit, ^uint64(tiocsti)&bit))
		}
	}
	for value := uint64(0); value <= apart; value += 2 {
		if value != tiocsti&apart && value != tioclinux&apart {
			rules = append(rules, let(apart, value))
		}
	}
	return rules
}

var errNoProfile = errors.New("no system call profile for this architecture")

// seccompProfile is the JSON for the architecture of an engine, as the engine names it.
func seccompProfile(arch string) (string, error) {
	switch arch {
	case "x86_64":
		arch = "amd64"
	case "aarch64":
		arch = "arm64"
	}
	text, err := profiles.ReadFile("seccomp/" + arch + ".json")
	if err != nil {
		return "", fmt.Errorf("%w: %s", errNoProfile, printable(arch))
	}
	return string(text), nil
}
