package docker

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/pkg/stdcopy"
	"golang.org/x/sys/unix"

	"brig/images"
)

// call is one system call with arguments that do no harm where it is let through.
type call struct {
	Name string  `json:"name"`
	Nr   int     `json:"nr"`
	Args []int64 `json:"args"`
	want string  // inside a session
}

const (
	bad   = -1 // no descriptor, no address, no flag
	eperm = "EPERM"
)

// calls is every system call that must be refused, whatever table refuses it.
func calls() []call {
	refuse := func(nr int, name string, args ...int64) call { return call{name, nr, args, eperm} }
	list := []call{
		refuse(unix.SYS_IO_URING_SETUP, "io_uring_setup", 1),
		refuse(unix.SYS_IO_URING_ENTER, "io_uring_enter", bad),
		refuse(unix.SYS_IO_URING_REGISTER, "io_uring_register", bad),
		refuse(unix.SYS_PTRACE, "ptrace"), // PTRACE_TRACEME, which every process may
		refuse(unix.SYS_PROCESS_VM_READV, "process_vm_readv"),
		refuse(unix.SYS_PROCESS_VM_WRITEV, "process_vm_writev"),
		refuse(unix.SYS_KCMP, "kcmp"),
		refuse(unix.SYS_PIDFD_GETFD, "pidfd_getfd", bad),
		refuse(unix.SYS_PROCESS_MADVISE, "process_madvise", bad),
		refuse(unix.SYS_USERFAULTFD, "userfaultfd", bad),
		refuse(unix.SYS_BPF, "bpf", bad, 0, 0),
		refuse(unix.SYS_PERF_EVENT_OPEN, "perf_event_open"),
		refuse(unix.SYS_ADD_KEY, "add_key"),
		refuse(unix.SYS_KEYCTL, "keyctl", bad),
		refuse(unix.SYS_REQUEST_KEY, "request_key"),
		refuse(unix.SYS_REMAP_FILE_PAGES, "remap_file_pages"),
		refuse(unix.SYS_MEMFD_SECRET, "memfd_secret", bad),
		refuse(unix.SYS_VHANGUP, "vhangup"),
		refuse(unix.SYS_LISTMOUNT, "listmount"),
		refuse(unix.SYS_STATMOUNT, "statmount"),
		refuse(unix.SYS_NAME_TO_HANDLE_AT, "name_to_handle_at", bad),
		refuse(unix.SYS_OPEN_BY_HANDLE_AT, "open_by_handle_at", bad),
		refuse(unix.SYS_FANOTIFY_INIT, "fanotify_init", bad),
		refuse(unix.SYS_FANOTIFY_MARK, "fanotify_mark", bad),
		refuse(unix.SYS_INOTIFY_INIT1, "inotify_init1", 0),
		refuse(unix.SYS_INOTIFY_ADD_WATCH, "inotify_add_watch", bad),
		refuse(unix.SYS_IO_SETUP, "io_setup"),
		refuse(unix.SYS_IO_SUBMIT, "io_submit"),
		refuse(unix.SYS_IO_GETEVENTS, "io_getevents"),
		refuse(unix.SYS_IO_PGETEVENTS, "io_pgetevents"),
		refuse(unix.SYS_IO_CANCEL, "io_cancel"),
		refuse(unix.SYS_IO_DESTROY, "io_destroy"),
		refuse(unix.SYS_MQ_OPEN, "mq_open"),
		refuse(unix.SYS_MQ_UNLINK, "mq_unlink"),
		refuse(unix.SYS_MQ_TIMEDSEND, "mq_timedsend", bad),
		refuse(unix.SYS_MQ_TIMEDRECEIVE, "mq_timedreceive", bad),
		refuse(unix.SYS_MQ_NOTIFY, "mq_notify", bad),
		refuse(unix.SYS_MQ_GETSETATTR, "mq_getsetattr", bad),
		refuse(unix.SYS_RT_SIGQUEUEINFO, "rt_sigqueueinfo", 1, 10),
		refuse(unix.SYS_RT_TGSIGQUEUEINFO, "rt_tgsigqueueinfo", 1, 1, 10),
		refuse(unix.SYS_PIDFD_SEND_SIGNAL, "pidfd_send_signal with a siginfo", bad, 10, 1<<32),

		refuse(unix.SYS_SCHED_SETSCHEDULER, "sched_setscheduler of another", 1),
		refuse(unix.SYS_SCHED_SETPARAM, "sched_setparam of another", 1),
		refuse(unix.SYS_SCHED_SETATTR, "sched_setattr of another", 1),
		refuse(unix.SYS_SCHED_SETAFFINITY, "sched_setaffinity of another", 1),
		refuse(unix.SYS_SCHED_SETAFFINITY, "sched_setaffinity of another, with high bits", 1|1<<32),
		refuse(unix.SYS_PRLIMIT64, "prlimit64 of another", 1),
		refuse(unix.SYS_SETPRIORITY, "setpriority of another", unix.PRIO_PROCESS, 1),
		refuse(unix.SYS_SETPRIORITY, "setpriority of a group", unix.PRIO_PGRP),
		refuse(unix.SYS_SETPRIORITY, "setpriority of a user", unix.PRIO_USER),
		refuse(unix.SYS_IOPRIO_SET, "ioprio_set of another", ioprioProcess, 1),
		refuse(unix.SYS_IOPRIO_SET, "ioprio_set of a group", ioprioGroup),

		refuse(unix.SYS_MOUNT, "mount"),
		refuse(unix.SYS_UMOUNT2, "umount2", 0, 0xfff0),
		refuse(unix.SYS_PIVOT_ROOT, "pivot_root"),
		refuse(unix.SYS_CHROOT, "chroot"),
		refuse(unix.SYS_FSOPEN, "fsopen"),
		refuse(unix.SYS_FSCONFIG, "fsconfig", bad, bad),
		refuse(unix.SYS_FSMOUNT, "fsmount", bad),
		refuse(unix.SYS_FSPICK, "fspick", bad),
		refuse(unix.SYS_MOVE_MOUNT, "move_mount", bad, 0, bad),
		refuse(unix.SYS_OPEN_TREE, "open_tree", bad),
		refuse(unix.SYS_MOUNT_SETATTR, "mount_setattr", bad),
		refuse(unix.SYS_SETNS, "setns", bad),

		refuse(unix.SYS_INIT_MODULE, "init_module"),
		refuse(unix.SYS_FINIT_MODULE, "finit_module", bad, 0, bad),
		refuse(unix.SYS_DELETE_MODULE, "delete_module"),
		refuse(unix.SYS_KEXEC_LOAD, "kexec_load", 0, 0, 0, 0xff00),
		refuse(unix.SYS_REBOOT, "reboot"), // without its magic numbers
		refuse(unix.SYS_SWAPON, "swapon"),
		refuse(unix.SYS_SWAPOFF, "swapoff"),
		refuse(unix.SYS_SYSLOG, "syslog", bad),
		refuse(unix.SYS_ACCT, "acct", bad),
		refuse(unix.SYS_QUOTACTL, "quotactl", bad),
		refuse(unix.SYS_SETTIMEOFDAY, "settimeofday", bad),
		refuse(unix.SYS_SETHOSTNAME, "sethostname", bad, 1),
		refuse(unix.SYS_SETDOMAINNAME, "setdomainname", bad, 1),
		refuse(unix.SYS_IOCTL, "ioctl TIOCSTI", bad, unix.TIOCSTI),
		refuse(unix.SYS_IOCTL, "ioctl TIOCSTI with high bits", bad, unix.TIOCSTI|1<<32),
		refuse(unix.SYS_IOCTL, "ioctl TIOCLINUX", bad, unix.TIOCLINUX),
		refuse(unix.SYS_PERSONALITY, "personality", 0x0040000), // ADDR_NO_RANDOMIZE

		{"clone3", unix.SYS_CLONE3, nil, "ENOSYS"}, // so that a C library falls back to clone
	}
	for _, s := range []struct {
		name  string
		space int64
	}{
		{"user", unix.CLONE_NEWUSER},
		{"mount", unix.CLONE_NEWNS},
		{"pid", unix.CLONE_NEWPID},
		{"net", unix.CLONE_NEWNET},
		{"ipc", unix.CLONE_NEWIPC},
		{"uts", unix.CLONE_NEWUTS},
		{"cgroup", unix.CLONE_NEWCGROUP},
	} {
		list = append(list,
			refuse(unix.SYS_UNSHARE, "unshare "+s.name, s.space),
			refuse(unix.SYS_CLONE, "clone "+s.name, s.space|int64(unix.SIGCHLD)),
			refuse(unix.SYS_CLONE, "clone "+s.name+" beside others", s.space|unix.CLONE_NEWUSER|int64(unix.SIGCHLD)))
	}
	for name, family := range map[string]int64{
		"AF_NETLINK": unix.AF_NETLINK, "AF_PACKET": unix.AF_PACKET, "AF_ALG": unix.AF_ALG, "AF_VSOCK": unix.AF_VSOCK,
		"AF_VSOCK with high bits": unix.AF_VSOCK | 1<<32, "AF_KEY": unix.AF_KEY, "AF_XDP": unix.AF_XDP, "AF_TIPC": unix.AF_TIPC,
	} {
		list = append(list,
			refuse(unix.SYS_SOCKET, "socket "+name, family, unix.SOCK_RAW, 0),
			refuse(unix.SYS_SOCKETPAIR, "socketpair "+name, family, unix.SOCK_RAW, 0, 0))
	}
	for name, family := range map[string]int64{"AF_INET": unix.AF_INET, "AF_INET6": unix.AF_INET6, "AF_INET with high bits": unix.AF_INET | 1<<32} {
		for kind, args := range map[string][2]int64{
			"datagrams":            {unix.SOCK_DGRAM, 0},
			"datagrams with flags": {unix.SOCK_DGRAM | unix.SOCK_CLOEXEC | unix.SOCK_NONBLOCK, unix.IPPROTO_UDP},
			"high bits":            {unix.SOCK_DGRAM | 1<<32, 0},
			"raw":                  {unix.SOCK_RAW, 0}, // 0 is no protocol of these, so it needs no capability to get that far
			"packets":              {unix.SOCK_SEQPACKET, 0},
			"another stream":       {unix.SOCK_STREAM, unix.IPPROTO_MPTCP},
		} {
			list = append(list, refuse(unix.SYS_SOCKET, "socket "+name+" "+kind, family, args[0], args[1]))
		}
	}
	return append(list, otherCalls()...)
}

// Of ioprio_set, whom it is for.
const ioprioProcess, ioprioGroup = 1, 2

// allowedCalls show that the program below can tell a call that is let through.
func allowedCalls() []call {
	return []call{
		{"getpid", unix.SYS_GETPID, nil, "ok"},
		{"the usual personality", unix.SYS_PERSONALITY, []int64{0}, "ok"},
		{"clone", unix.SYS_CLONE, []int64{int64(unix.SIGCHLD)}, "ok"},
		{"socket AF_UNIX", unix.SYS_SOCKET, []int64{unix.AF_UNIX, unix.SOCK_STREAM, 0}, "ok"},
		{"socket AF_INET", unix.SYS_SOCKET, []int64{unix.AF_INET, unix.SOCK_STREAM, 0}, "ok"},
		{"socket AF_INET6", unix.SYS_SOCKET, []int64{unix.AF_INET6, unix.SOCK_STREAM, 0}, "ok"},
		{"socket TCP with flags", unix.SYS_SOCKET, []int64{unix.AF_INET, unix.SOCK_STREAM | unix.SOCK_CLOEXEC | unix.SOCK_NONBLOCK, unix.IPPROTO_TCP}, "ok"},
		{"socket AF_UNIX datagrams", unix.SYS_SOCKET, []int64{unix.AF_UNIX, unix.SOCK_DGRAM, 0}, "ok"},
		{"socketpair", unix.SYS_SOCKETPAIR, []int64{unix.AF_UNIX, unix.SOCK_STREAM, 0}, "EFAULT"},
		{"sched_setscheduler of itself", unix.SYS_SCHED_SETSCHEDULER, nil, "EINVAL"}, // without parameters
		{"sched_setparam of itself", unix.SYS_SCHED_SETPARAM, nil, "EINVAL"},
		{"sched_setattr of itself", unix.SYS_SCHED_SETATTR, nil, "EINVAL"},
		{"sched_setaffinity of itself", unix.SYS_SCHED_SETAFFINITY, []int64{0, 8}, "EFAULT"},
		{"prlimit64 of itself", unix.SYS_PRLIMIT64, []int64{0, unix.RLIMIT_NOFILE}, "ok"},
		{"setpriority of itself", unix.SYS_SETPRIORITY, []int64{unix.PRIO_PROCESS, 0, 1}, "ok"},
		{"ioprio_set of itself", unix.SYS_IOPRIO_SET, []int64{ioprioProcess}, "ok"},
		{"ioctl TCGETS", unix.SYS_IOCTL, []int64{bad, unix.TCGETS}, "EBADF"},
		{"ioctl TIOCSTI and one", unix.SYS_IOCTL, []int64{bad, unix.TIOCSTI + 1}, "EBADF"},
		{"ioctl TIOCLINUX and two", unix.SYS_IOCTL, []int64{bad, unix.TIOCLINUX + 2}, "EBADF"},
		{"ioctl of a large number", unix.SYS_IOCTL, []int64{bad, 0xc0106f00}, "EBADF"},
		{"pidfd_send_signal", unix.SYS_PIDFD_SEND_SIGNAL, []int64{bad}, "EBADF"},
	}
}

// caller makes each call in a child of its own, since some kill, and prints a line for each.
const caller = `
import ctypes, errno, json, mmap, os, signal
libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long

def attempt(act):
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        signal.alarm(5)
        me = os.getpid()
        os.setsid()
        word = act()
        if os.getpid() == me:
            os.write(writing, word.encode())
        os._exit(0)
    os.close(writing)
    word = os.read(reading, 100).decode()
    os.close(reading)
    _, status = os.waitpid(child, 0)
    return word or (signal.Signals(os.WTERMSIG(status)).name if os.WIFSIGNALED(status) else "silent")

def system(nr, args):
    def act():
        ctypes.set_errno(0)
        result = libc.syscall(*[ctypes.c_long(a) for a in [nr] + args + [0] * (6 - len(args))])
        return "ok" if result >= 0 else errno.errorcode.get(ctypes.get_errno(), str(ctypes.get_errno()))
    return act

def machine(code):
    def act():
        page = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
        page.write(bytes.fromhex(code))
        address = ctypes.addressof(ctypes.c_char.from_buffer(page))
        result = ctypes.CFUNCTYPE(ctypes.c_int)(address)()
        return "ok" if result >= 0 else errno.errorcode.get(-result, str(result))
    return act

for call in json.loads(%q):
    print(call["name"], attempt(system(call["nr"], call["args"] or [])), sep="=", flush=True)
for name, code in json.loads(%q).items():
    print(name, attempt(machine(code)), sep="=", flush=True)
`

// TestSeccompRefuses makes every call in a session, and again in a container that
// has every capability and no filter, where it must get further than the filter.
func TestSeccompRefuses(t *testing.T) {
	b := engineBackend(t, images.Core)
	list, codes := calls(), foreignCode()
	text, err := json.Marshal(append(slices.Clone(list), allowedCalls()...))
	if err != nil {
		t.Fatal(err)
	}
	code, err := json.Marshal(codes)
	if err != nil {
		t.Fatal(err)
	}
	program := fmt.Sprintf(caller, text, code)
	inside := outcomes(ok(t, session(t, b, coreBase(), t.TempDir()), program).stdout.String())
	control := outcomes(unconfined(t, b, program))
	for _, c := range list {
		got, without := inside[c.Name], control[c.Name]
		// A filter knows no call that is newer than the engine's library for filters, and
		// answers ENOSYS to all of those.
		if got != c.want && got != "ENOSYS" {
			t.Errorf("%s%v: %q inside, want %s", c.Name, c.Args, got, c.want)
		}
		switch without {
		case "ENOSYS":
			t.Logf("%s is not in this kernel, so it shows nothing", c.Name)
		case "", c.want:
			t.Errorf("%s%v: %q without a filter, so the filter was not what refused it", c.Name, c.Args, without)
		}
	}
	for _, c := range allowedCalls() {
		if inside[c.Name] != c.want || control[c.Name] != c.want {
			t.Errorf("%s%v: %q inside and %q without a filter, want %s", c.Name, c.Args, inside[c.Name], control[c.Name], c.want)
		}
	}
	// An entry of another architecture has other numbers: let through, every rule
	// could be gone around. The control is only told where the kernel has that entry.
	for name := range codes {
		if got := inside[name]; got != "SIGSYS" && got != eperm && got != "ENOSYS" && got != "SIGSEGV" {
			t.Errorf("%s: %q inside, want it refused", name, got)
		}
		t.Logf("%s: %s inside, %s without a filter", name, inside[name], control[name])
	}
}

func outcomes(text string) map[string]string {
	found := map[string]string{}
	for line := range strings.Lines(text) {
		if name, outcome, ok := strings.Cut(strings.TrimSpace(line), "="); ok {
			found[name] = outcome
		}
	}
	return found
}

// unconfined runs a program as root with every capability that
// this machine has to give and without a filter. It
// has no network and no mount, and what it is given to do is harmless.
func unconfined(t *testing.T, b *Backend, program string) string {
	t.Helper()
	ref, err := b.ensureImage(limited(t), images.Core)
	if err != nil {
		t.Fatal(err)
	}
	e, err := b.current(limited(t))
	if err != nil {
		t.Fatal(err)
	}
	made, err := e.cli.ContainerCreate(limited(t), &container.Config{
		Image: ref.ID, User: "0:0", Entrypoint: []string{"python3", "-I", "-c", program}, Cmd: []string{},
		Labels: map[string]string{labelOwner: b.options.Owner},
	}, &container.HostConfig{
		NetworkMode: "none", CapAdd: capabilitiesHere(t), SecurityOpt: []string{"seccomp=unconfined", "apparmor=unconfined"},
		LogConfig: container.LogConfig{Type: "json-file"},
	}, nil, nil, "")
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := e.cli.ContainerRemove(limited(t), made.ID, container.RemoveOptions{Force: true}); err != nil {
			t.Error(err)
		}
	}()
	ended, failed := e.cli.ContainerWait(limited(t), made.ID, container.WaitConditionNextExit)
	if err := e.cli.ContainerStart(limited(t), made.ID, container.StartOptions{}); err != nil {
		t.Fatal(err)
	}
	select {
	case <-ended:
	case err := <-failed:
		t.Fatal(err)
	}
	logs, err := e.cli.ContainerLogs(limited(t), made.ID, container.LogsOptions{ShowStdout: true, ShowStderr: true})
	if err != nil {
		t.Fatal(err)
	}
	defer logs.Close()
	var stdout, stderr strings.Builder
	if _, err := stdcopy.StdCopy(&stdout, &stderr, logs); err != nil && err != io.EOF {
		t.Fatal(err)
	}
	if stderr.Len() > 0 {
		t.Fatalf("the control failed: %s", stderr.String())
	}
	return stdout.String()
}

// capabilitiesHere names those of this process's bounding set that a system call of
// the list asks for: a machine that is a sandbox itself does not have them all.
func capabilitiesHere(t *testing.T) []string {
	t.Helper()
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	set, err := strconv.ParseUint(status(string(text))["CapBnd"], 16, 64)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for name, bit := range map[string]int{
		"DAC_READ_SEARCH": unix.CAP_DAC_READ_SEARCH, "SYS_ADMIN": unix.CAP_SYS_ADMIN, "SYS_BOOT": unix.CAP_SYS_BOOT, "SYS_CHROOT": unix.CAP_SYS_CHROOT,
		"SYS_MODULE": unix.CAP_SYS_MODULE, "SYS_PACCT": unix.CAP_SYS_PACCT, "SYS_PTRACE": unix.CAP_SYS_PTRACE, "SYS_RAWIO": unix.CAP_SYS_RAWIO,
		"SYS_TIME": unix.CAP_SYS_TIME, "SYS_TTY_CONFIG": unix.CAP_SYS_TTY_CONFIG, "SYSLOG": unix.CAP_SYSLOG, "NET_RAW": unix.CAP_NET_RAW,
		"NET_ADMIN": unix.CAP_NET_ADMIN, // BPF and PERFMON are part of SYS_ADMIN, and old engines do not know them
	} {
		if set&(1<<bit) != 0 {
			names = append(names, name)
		}
	}
	return names
}
