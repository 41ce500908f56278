package confine

import (
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

// TestNumbers holds the table of this architecture against constants that were
// generated from the kernel's headers for it.
func TestNumbers(t *testing.T) {
	arch, ok := archOf(runtime.GOARCH)
	if !ok {
		t.Fatalf("no table for %s", runtime.GOARCH)
	}
	for name, want := range map[string]uint32{
		"socket": unix.SYS_SOCKET, "socketpair": unix.SYS_SOCKETPAIR, "clone": unix.SYS_CLONE, "clone3": unix.SYS_CLONE3,
		"ioctl": unix.SYS_IOCTL, "prlimit64": unix.SYS_PRLIMIT64, "setpriority": unix.SYS_SETPRIORITY, "kill": unix.SYS_KILL,
		"ptrace": unix.SYS_PTRACE, "mount": unix.SYS_MOUNT, "unshare": unix.SYS_UNSHARE, "keyctl": unix.SYS_KEYCTL,
		"io_uring_setup": unix.SYS_IO_URING_SETUP, "bpf": unix.SYS_BPF, "fchmodat2": unix.SYS_FCHMODAT2,
		"file_setattr": unix.SYS_FILE_SETATTR, "setxattrat": unix.SYS_SETXATTRAT, "ioprio_set": unix.SYS_IOPRIO_SET,
		"memfd_secret": unix.SYS_MEMFD_SECRET, "open_tree_attr": unix.SYS_OPEN_TREE_ATTR, "shmget": unix.SYS_SHMGET,
		"memfd_create": unix.SYS_MEMFD_CREATE, "inotify_init1": unix.SYS_INOTIFY_INIT1, "inotify_add_watch": unix.SYS_INOTIFY_ADD_WATCH,
		"sched_setscheduler": unix.SYS_SCHED_SETSCHEDULER, "sched_setparam": unix.SYS_SCHED_SETPARAM, "sched_setattr": unix.SYS_SCHED_SETATTR,
		"close_range": unix.SYS_CLOSE_RANGE, "vmsplice": unix.SYS_VMSPLICE, "splice": unix.SYS_SPLICE, "sendfile": unix.SYS_SENDFILE,
		"fallocate": unix.SYS_FALLOCATE, "fcntl": unix.SYS_FCNTL, "io_setup": unix.SYS_IO_SETUP,
	} {
		if got := number(t, arch, name); got != want {
			t.Errorf("%s: got %d, want %d", name, got, want)
		}
	}
}
