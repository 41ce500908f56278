package confine

import (
	"bytes"
	_ "embed"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"testing"

	"golang.org/x/net/bpf"
)

var update = flag.Bool("update", false, "write the golden files")

//go:embed testdata/filters.golden
var golden []byte

const (
	allow        = retAllow
	endOfProcess = retKillProcess
	eperm        = retErrno | errnoEPERM
	eacces       = retErrno | errnoEACCES
	einval       = retErrno | errnoEINVAL
	enosys       = retErrno | errnoENOSYS
	eopnotsupp   = retErrno | errnoEOPNOTSUPP
	eafnosupport = retErrno | errnoAFNoSupport
)

// expected is the verdict of the policy, written a second time and in another
// way than the filter: by name and in order of importance. Arguments are zero.
func expected(arch Arch, f Filter, nr uint32) uint32 {
	name := ""
	for _, c := range arch.calls() {
		if c.nr == nr {
			name = c.name
		}
	}
	if f.Narrow && (name == "unshare" || name == "mount") {
		return allow
	}
	switch name {
	case "":
		return enosys
	case "io_uring_setup", "io_uring_enter", "io_uring_register", "clone3", "memfd_create", "memfd_secret",
		"inotify_init", "inotify_init1", "inotify_add_watch",
		"io_setup", "io_destroy", "io_submit", "io_cancel", "io_getevents", "io_pgetevents",
		"shmget", "shmat", "shmctl", "shmdt", "semget", "semop", "semctl", "semtimedop",
		"msgget", "msgsnd", "msgrcv", "msgctl", "mq_open", "mq_unlink":
		return enosys
	case "splice", "sendfile":
		return einval
	case "fallocate":
		return eopnotsupp
	case "socket": // family 0
		return eafnosupport
	case "socketpair":
		return eacces
	case "vmsplice", "ptrace", "process_vm_readv", "process_vm_writev", "process_madvise", "pidfd_getfd", "kcmp",
		"migrate_pages", "move_pages", "unshare", "setns",
		"mount", "umount2", "pivot_root", "chroot", "open_tree", "open_tree_attr", "move_mount", "fsopen",
		"fsconfig", "fsmount", "fspick", "mount_setattr",
		"bpf", "perf_event_open", "userfaultfd", "fanotify_init", "kexec_load", "kexec_file_load",
		"init_module", "finit_module", "delete_module", "create_module", "get_kernel_syms", "query_module",
		"keyctl", "add_key", "request_key", "lookup_dcookie", "quotactl", "quotactl_fd", "nfsservctl", "acct",
		"swapon", "swapoff", "reboot", "syslog", "name_to_handle_at", "open_by_handle_at", "personality",
		"modify_ldt", "iopl", "ioperm", "uselib", "_sysctl", "vhangup", "sethostname", "setdomainname",
		"settimeofday", "clock_settime", "adjtimex", "clock_adjtime", "lsm_set_self_attr":
		return eperm
	}
	if !f.Metadata && slices.Contains(metadata(), name) {
		return eperm
	}
	return allow
}

// TestEveryNumber asks every variant on both architectures about every number
// and beyond, with arguments of zero.
func TestEveryNumber(t *testing.T) {
	for _, arch := range allArches() {
		for _, f := range append(allFilters(), Filter{Narrow: true, Metadata: true}) {
			m := newMachine(t, f.Program(arch))
			for nr := range uint32(600) {
				if got, want := m.verdict(seccompData{nr: nr, arch: uint32(arch)}), expected(arch, f, nr); got != want {
					t.Errorf("%s %+v: number %d: got %#x, want %#x", arch, f, nr, got, want)
				}
			}
		}
	}
}

func TestForeignArchitectures(t *testing.T) {
	const i386, arm, x32 = 0x40000003, 0x40000028, 0x40000000
	for _, arch := range allArches() {
		m := newMachine(t, Filter{}.Program(arch))
		for _, foreign := range []uint32{0, i386, arm, uint32(X86 ^ Aarch ^ arch), ^uint32(arch)} {
			for nr := range uint32(600) {
				if got := m.verdict(seccompData{nr: nr, arch: foreign}); got != endOfProcess {
					t.Fatalf("%s: number %d of architecture %#x: got %#x, want the end of the process", arch, nr, foreign, got)
				}
			}
		}
		for nr := range uint32(600) {
			if got := m.verdict(seccompData{nr: x32 | nr, arch: uint32(arch)}); got != enosys {
				t.Fatalf("%s: x32 number %d: got %#x", arch, nr, got)
			}
		}
	}
}

// high are bits that the kernel ignores in an int argument.
const high = 0xdead_beef_0000_0000

func TestArguments(t *testing.T) {
	type args = [6]uint64
	deny, unix, inet := Filter{Metadata: true}, Filter{Metadata: true, Unix: true}, Filter{Metadata: true, Inet: true}
	strict := Filter{}
	cases := []struct {
		call string
		args args
		f    Filter
		want uint32
	}{
		{"socket", args{afInet, 1, 0}, deny, eacces},
		{"socket", args{afInet6, 2, 0}, deny, eacces},
		{"socket", args{high | afInet, 1, 0}, deny, eacces},
		{"socket", args{afUnix, 1, 0}, deny, eacces},
		{"socket", args{high | afUnix, 1, 0}, deny, eacces},
		{"socket", args{afUnix, 1, 0}, unix, allow},
		{"socket", args{afInet, 1, 0}, unix, eacces},
		{"socket", args{afNetlink, 3, 0}, deny, eafnosupport},
		{"socket", args{17, 3, 0}, deny, eafnosupport}, // packet
		{"socket", args{38, 5, 0}, deny, eafnosupport}, // alg
		{"socket", args{40, 1, 0}, deny, eafnosupport}, // vsock
		{"socket", args{44, 3, 0}, inet, eafnosupport}, // xdp
		{"socket", args{afInet, 1, 0}, inet, allow},
		{"socket", args{afInet6, 1, 0}, inet, allow},
		{"socket", args{afNetlink, 3, 0}, inet, allow},
		{"socket", args{high | afNetlink, 3, high}, inet, allow},
		{"socket", args{afNetlink, 3, 12}, inet, eafnosupport}, // netfilter
		{"socket", args{afUnix, 1, 0}, inet, eacces},
		{"socketpair", args{afUnix, 1}, deny, allow},
		{"socketpair", args{afUnix, 1 | 0o2000000 | 0o4000}, deny, allow}, // close-on-exec, non-blocking
		{"socketpair", args{high | afUnix, high | 5}, deny, allow},
		{"socketpair", args{afUnix, 2}, deny, eacces},
		{"socketpair", args{afUnix, high | 2}, deny, eacces},
		{"socketpair", args{afInet, 1}, inet, eacces},
		{"clone", args{0x50f00}, deny, allow}, // a thread
		{"clone", args{17}, deny, allow},      // fork
		{"clone", args{0x10000000 | 17}, deny, eperm},
		{"clone", args{high | 0x00020000}, deny, eperm},
		{"clone", args{0x02000000}, deny, eperm},
		{"clone", args{0x40000000}, deny, eperm},
		{"prlimit64", args{0, 7}, deny, allow},
		{"prlimit64", args{high, 7}, deny, allow},
		{"prlimit64", args{1234, 7}, deny, eperm},
		{"prlimit64", args{0, 15, 0, 0x7000}, deny, allow}, // asks
		{"prlimit64", args{0, 15, 0x7000}, deny, eperm},
		{"prlimit64", args{high, high | 15, high}, deny, eperm},
		{"prlimit64", args{0, 7, 0x7000}, deny, allow},
		{"setrlimit", args{15, 0x7000}, deny, eperm},
		{"setrlimit", args{high | 15, 0x7000}, deny, eperm},
		{"setrlimit", args{7, 0x7000}, deny, allow},
		{"setpriority", args{0, 0, 5}, deny, allow},
		{"setpriority", args{0, 1234, 5}, deny, eperm},
		{"setpriority", args{2, 0, 5}, deny, eperm},
		{"setpriority", args{high | 2, 0, 5}, deny, eperm},
		{"clone", args{high | 0x00010000}, deny, eperm}, // a thread with descriptors of its own
		{"clone", args{0x00010400}, deny, allow},
		{"close_range", args{3, 0xffffffff, 4}, deny, allow},
		{"close_range", args{3, 0xffffffff, high | 2}, deny, eperm},
		{"close_range", args{3, 0xffffffff, 6}, deny, eperm},
		{"sched_setscheduler", args{0, 3}, deny, allow},
		{"sched_setscheduler", args{high, 3}, deny, allow},
		{"sched_setscheduler", args{1234, 3}, deny, eperm},
		{"sched_setparam", args{0}, deny, allow},
		{"sched_setparam", args{1234}, deny, eperm},
		{"sched_setattr", args{0}, deny, allow},
		{"sched_setattr", args{1234}, deny, eperm},
		{"sched_setaffinity", args{1234}, deny, allow}, // threads of numerical libraries
		{"ioprio_set", args{1, 0, 5}, deny, allow},
		{"ioprio_set", args{1, 1234, 5}, deny, eperm},
		{"ioprio_set", args{2, 1234, 5}, deny, eperm},
		{"ioprio_set", args{3, 0, 5}, deny, eperm},
		{"kill", args{0xffff_ffff_ffff_ffff, 9}, deny, eperm},
		{"kill", args{0x0000_0000_ffff_ffff, 9}, deny, eperm},
		{"kill", args{0, 15}, deny, allow},
		{"kill", args{77, 15}, deny, allow},
		{"fcntl", args{3, 3}, deny, allow}, // F_GETFL
		{"fcntl", args{3, 1024, 0}, deny, eperm},
		{"fcntl", args{3, high | 1024, 0}, deny, eperm},
		{"fcntl", args{3, 1025}, deny, allow}, // F_GETLEASE
		{"fcntl", args{3, 1026, 2}, deny, eperm},
		{"fcntl", args{3, 1031, 1 << 20}, deny, allow}, // F_SETPIPE_SZ
		{"ioctl", args{0, 0x5401}, deny, allow},        // TCGETS
		{"ioctl", args{0, 0x5412}, deny, eperm},
		{"ioctl", args{0, high | 0x5412}, deny, eperm},
		{"ioctl", args{0, 0x541c}, deny, eperm},
		{"ioctl", args{3, 0x40086602}, deny, allow},
		{"ioctl", args{3, 0x40086602}, strict, eperm},
		{"ioctl", args{3, high | 0x401c5820}, strict, eperm},
	}
	for _, arch := range allArches() {
		for _, c := range cases {
			m := newMachine(t, c.f.Program(arch))
			d := seccompData{nr: number(t, arch, c.call), arch: uint32(arch), args: c.args}
			if got := m.verdict(d); got != c.want {
				t.Errorf("%s: %s%#x with %+v: got %#x, want %#x", arch, c.call, c.args, c.f, got, c.want)
			}
		}
	}
}

// TestHighBitsChangeNothing is a property: whatever stands in the upper half of
// an argument, the verdict is that of the lower halves. A pointer is no such
// argument, and one rule looks at one.
func TestHighBitsChangeNothing(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	low := []uint64{0, 1, 2, 3, 5, 10, 16, 0x5412, 0x10000000, 0xffffffff}
	for _, arch := range allArches() {
		for _, f := range allFilters() {
			m := newMachine(t, f.Program(arch))
			for range 20_000 {
				d := seccompData{nr: random.Uint32N(520), arch: uint32(arch)}
				for i := range d.args {
					d.args[i] = low[random.IntN(len(low))]
				}
				want := m.verdict(d)
				for i := range d.args {
					if i == 2 && d.nr == number(t, arch, "prlimit64") {
						continue
					}
					d.args[i] |= uint64(random.Uint32()) << 32
				}
				if got := m.verdict(d); got != want {
					t.Fatalf("%s %+v: %+v: got %#x, without the high bits %#x", arch, f, d, got, want)
				}
			}
		}
	}
}

// FuzzVerdict: every input gets one of the known verdicts, a foreign
// architecture dies, and no variant allows more sockets than it says.
func FuzzVerdict(f *testing.F) {
	f.Add(uint32(41), uint32(X86), uint64(2), uint64(1), uint64(0), uint8(4))
	f.Add(uint32(198), uint32(Aarch), uint64(high|2), uint64(1), uint64(0), uint8(4))
	f.Add(uint32(16), uint32(X86), uint64(0), uint64(high|0x5412), uint64(0), uint8(0))
	f.Add(uint32(0x40000029), uint32(X86), uint64(2), uint64(1), uint64(0), uint8(7))
	filters := allFilters()
	f.Fuzz(func(t *testing.T, nr, arch uint32, a, b, c uint64, variant uint8) {
		filter := filters[int(variant)%len(filters)]
		for _, native := range allArches() {
			m := newMachine(t, filter.Program(native))
			got := m.verdict(seccompData{nr: nr, arch: arch, args: [6]uint64{a, b, c}})
			switch {
			case arch != uint32(native):
				if got != endOfProcess {
					t.Errorf("foreign architecture: %#x", got)
				}
			case !slices.Contains([]uint32{allow, eperm, eacces, enosys, eafnosupport}, got):
				t.Errorf("unknown verdict %#x", got)
			case got == allow && nr == number(t, native, "socket"):
				family := uint32(a)
				ok := filter.Inet && (family == afInet || family == afInet6 || family == afNetlink && uint32(c) == 0) || filter.Unix && family == afUnix
				if !ok {
					t.Errorf("socket family %d is allowed by %+v", family, filter)
				}
			}
		}
	})
}

// TestGolden shows a reviewer the programs; a change of the policy shows up here.
func TestGolden(t *testing.T) {
	var out bytes.Buffer
	for _, arch := range allArches() {
		for _, f := range []Filter{{Metadata: true}, {}, {Inet: true, Unix: true, Metadata: true}} {
			program := f.Program(arch)
			fmt.Fprintf(&out, "# %s %+v: %d instructions, %s\n", arch, f, len(program), Hash(program))
			for i, in := range program {
				fmt.Fprintf(&out, "%3d  %v\n", i, bpf.RawInstruction{Op: in.Code, Jt: in.JT, Jf: in.JF, K: in.K}.Disassemble())
			}
		}
	}
	if *update {
		if err := os.WriteFile("testdata/filters.golden", out.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if !bytes.Equal(out.Bytes(), golden) {
		t.Error("the filters differ from testdata/filters.golden; look at the difference and run this test with -update")
	}
}

// TestTables: the policy names only calls that some architecture has, the tables
// are sorted, and the numbers fit the architecture that is running.
func TestTables(t *testing.T) {
	for _, arch := range allArches() {
		calls := arch.calls()
		for i := 1; i < len(calls); i++ {
			if calls[i].nr <= calls[i-1].nr {
				t.Errorf("%s: %s follows %s", arch, calls[i].name, calls[i-1].name)
			}
		}
	}
	names := metadata()
	for _, g := range refused() {
		names = append(names, g.calls...)
	}
	for _, n := range names {
		if !has(X86, n) && !has(Aarch, n) {
			t.Errorf("no architecture has %s", n)
		}
	}
}
