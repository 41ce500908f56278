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
// capability, for one architecture, minus withheld, with narrower sockets. The
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
		// arguments behind a pointer, where no filter sees them
		[]string{"socketcall"},
	)
}

// family is an address family that socket and socketpair may use. Everything else,
// netlink, packet, vsock and alg among it, is refused with EPERM.
type family struct {
	name   string
	number uint64
}

func families() []family {
	return []family{{"AF_UNIX", 1}, {"AF_INET", 2}, {"AF_INET6", 10}}
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
