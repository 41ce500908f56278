package hostfallback

import (
	"fmt"
	"iter"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"brig/hostfallback/confine"
	"brig/orchestrator/sandbox"
)

// reports are the reports of every machine: every state of every part that a row
// is made of, combined with each other.
func reports() iter.Seq[evidence] {
	return func(yield func(evidence) bool) {
		for _, network := range []sandbox.Network{sandbox.NetworkDeny, sandbox.NetworkLoopback, sandbox.NetworkAllow} {
			for _, namespaces := range namespaceStates(network) {
				for _, landlock := range landlockStates() {
					for _, seccomp := range seccompStates(network) {
						for _, caps := range []string{noCapabilities, "0000000000200100"} {
							for _, shared := range []bool{false, true} {
								if shared && caps != noCapabilities {
									continue // they have nothing to do with each other
								}
								e := evidence{report: whole(), watch: watched(), base: testBaseOf(sandbox.ModeBestEffort)}
								e.base.Network, e.base.Limits = network, e.base.Limits.WithDefaults()
								e.report.Namespace, e.report.Namespaces = namespaces.Namespace, namespaces.Namespaces
								e.report.Landlock, e.report.Seccomp, e.report.CapEff = landlock, seccomp, caps
								e.report.PrivateShm, e.report.SharedShm = namespaces.Namespace.Applied && !shared, shared
								if !yield(e) {
									return
								}
							}
						}
					}
				}
			}
		}
	}
}

func namespaceStates(network sandbox.Network) []confine.Report {
	applied := confine.Layer{Applied: true}
	no := func(code string) confine.Layer { return confine.Layer{Code: code, Errno: "EPERM"} }
	var out []confine.Report
	for _, code := range []string{
		confine.CodeOff, confine.CodeNotAsked, confine.CodeUsernsAppArmor, confine.CodeUsernsSysctl, confine.CodeUsernsOthers, confine.CodeUsernsRefused,
		confine.CodeMountRefused, confine.CodeMountOldKernel, "", "a code of tomorrow",
	} {
		// Parts that were applied without the whole, which no helper reports, hold nothing.
		out = append(out, confine.Report{Namespace: no(code)},
			confine.Report{Namespace: no(code), Namespaces: confine.Namespaces{Root: applied, Process: applied, Network: applied, Loopback: true}})
	}
	stack := []confine.Layer{applied, no(confine.CodeNetRefused), {}}
	if network == sandbox.NetworkAllow {
		stack = []confine.Layer{{Code: confine.CodeNetShared}}
	}
	for _, root := range []confine.Layer{applied, no(confine.CodeMountRefused), {}} {
		for _, process := range []confine.Layer{applied, no(confine.CodePIDRefused), no(confine.CodeProcMasked), {}} {
			for _, net := range stack {
				out = append(out, confine.Report{Namespace: applied, Namespaces: confine.Namespaces{Root: root, Process: process, Network: net, Loopback: net.Applied}})
			}
		}
	}
	return out
}

func landlockStates() []confine.Landlock {
	out := []confine.Landlock{
		{},
		{Layer: confine.Layer{Code: confine.CodeOff}},
		{Layer: confine.Layer{Code: confine.CodeLandlockNotBuilt, Errno: "ENOSYS"}},
		{Layer: confine.Layer{Code: confine.CodeLandlockNotBoot, Errno: "EOPNOTSUPP"}, Used: 9, Net: true},
	}
	for _, used := range []int{1, 2, 3, 5, 6, 8, 9, 11} {
		out = append(out, confine.Landlock{Layer: confine.Layer{Applied: true}, ABI: used, Used: used, Net: used >= 4})
	}
	return append(out, confine.Landlock{Layer: confine.Layer{Applied: true}, ABI: 7, Used: 5, Net: true}, // without the correction
		confine.Landlock{Layer: confine.Layer{Applied: true}, ABI: 9, Used: 9}) // without rules for TCP
}

func seccompStates(network sandbox.Network) []confine.Seccomp {
	out := []confine.Seccomp{
		{},
		{Layer: confine.Layer{Code: confine.CodeOff}},
		{Layer: confine.Layer{Code: confine.CodeSeccompNotBuilt}},
		{Layer: confine.Layer{Code: confine.CodeSeccompArch}, Filter: confine.Filter{Metadata: true}},
	}
	for n := range 8 {
		f := confine.Filter{Inet: n&1 != 0, Unix: n&2 != 0, Metadata: n&4 != 0}
		if f.Inet || network == sandbox.NetworkDeny {
			out = append(out, confine.Seccomp{Layer: confine.Layer{Applied: true}, Arch: "x86-64", Length: 1, Hash: "a", Filter: f})
		}
	}
	return out
}

// allowed is what may be said to be enforced, written down a second time and in
// other words than the rows: the least that has to be there for each layer.
func allowed(id sandbox.LayerID, e evidence) bool {
	r := e.report
	ns := r.Namespace.Applied
	root, process, stack := ns && r.Namespaces.Root.Applied, ns && r.Namespaces.Process.Applied, ns && r.Namespaces.Network.Applied
	sealed := r.CapEff == "0000000000000000" || r.Seccomp.Applied
	abi := 0
	if r.Landlock.Applied {
		abi = r.Landlock.Used
	}
	bound := abi > 0 || ns && sealed // code cannot write to the files of its group
	noInet := r.Seccomp.Applied && !r.Seccomp.Filter.Inet
	switch id {
	case sandbox.FSWrite:
		return !r.SharedShm && (root && sealed || ns && sealed && abi > 0 || abi >= 3 && r.Seccomp.Applied && !r.Seccomp.Filter.Metadata)
	case sandbox.FSRead:
		return (root || abi > 0) && !r.SharedShm
	case sandbox.NetOutbound, sandbox.NetLoopback:
		return e.base.Network != sandbox.NetworkAllow && (noInet || stack && r.Seccomp.Applied)
	case sandbox.UnixSockets:
		return r.Seccomp.Applied && !r.Seccomp.Filter.Unix ||
			(abi >= 9 || root) && (abi >= 6 || stack) && (ns || r.Seccomp.Applied)
	case sandbox.Signals:
		return abi >= 6 || process
	case sandbox.Ptrace:
		return abi > 0 || ns
	case sandbox.Seclusion:
		return root && process && stack
	case sandbox.Devices:
		return root || abi > 0
	case sandbox.SyscallFilter:
		return r.Seccomp.Applied
	case sandbox.Capabilities:
		return r.CapEff == "0000000000000000"
	case sandbox.KernelSurface, sandbox.DiskLimit:
		return false
	case sandbox.MemoryLimit:
		return bound && r.Cgroup.Memory > 0
	case sandbox.ProcessLimit:
		return bound && r.Cgroup.Processes > 0 || r.UID != 0 && ns
	case sandbox.CPULimit:
		return bound && r.Cgroup.MilliCPU > 0 || !r.Narrowed && r.CPUs*1000 <= e.base.Limits.MilliCPU
	case sandbox.TreeKill:
		return (e.watch.Subreaper || process || r.Cgroup.Kill) && (abi >= 6 || process)
	case sandbox.WallClock:
		return abi >= 6 || process
	default:
		return true
	}
}

// named are the mechanisms that a row may only name where the report has them.
func named(mechanism string, r confine.Report) error {
	ns := r.Namespace.Applied
	for word, there := range map[string]bool{
		"landlock": r.Landlock.Applied, "seccomp": r.Seccomp.Applied, "system call filter": r.Seccomp.Applied,
		"private root": ns && r.Namespaces.Root.Applied, "mount namespace": ns, "user namespace": ns,
		"process namespace": ns && r.Namespaces.Process.Applied, "network namespace": ns && r.Namespaces.Network.Applied, "cgroup": r.Cgroup.Path != "",
	} {
		if strings.Contains(mechanism, word) && !there {
			return fmt.Errorf("%q, and there is no %s", mechanism, word)
		}
	}
	return nil
}

var abiNumber = regexp.MustCompile(`-abi-\d+-`)

// explained says that a code has its words in the table of reasons.
func explained(code string) bool {
	code = abiNumber.ReplaceAllString(code, "-abi-N-")
	if rest, ok := strings.CutPrefix(code, codeVisible); ok {
		code = codeVisible + strings.SplitN(rest, "-", 2)[0]
	}
	return why(code).code == code
}

// check holds one row against everything that each row must keep.
func check(id sandbox.LayerID, e evidence) error {
	row := e.row(id)
	if err := named(row.Mechanism, e.report); err != nil {
		return err
	}
	if row.State == sandbox.Enforced {
		switch {
		case row.Mechanism == "":
			return fmt.Errorf("enforced by nothing")
		case row.Code != "" || row.Reason != "" || row.Remedy != "":
			return fmt.Errorf("enforced, with a reason: %+v", row)
		case !allowed(id, e):
			return fmt.Errorf("enforced by %q, and nothing can hold it", row.Mechanism)
		}
		return nil
	}
	switch {
	case row.Code == "" || row.Reason == "" || row.Remedy == "":
		return fmt.Errorf("%s without code, reason or remedy: %+v", row.State, row)
	case !explained(row.Code):
		return fmt.Errorf("nobody explains the code %s", row.Code)
	case row.State == sandbox.Partial && row.Mechanism == "":
		return fmt.Errorf("partial by nothing: %+v", row)
	case strings.HasSuffix(row.Reason, ".") || strings.TrimSpace(row.Reason) != row.Reason || strings.Contains(row.Reason, "%!"):
		return fmt.Errorf("no clause: %q", row.Reason)
	}
	if allowed(id, e) && id != sandbox.CPULimit { // which a whole machine may have too many of
		return fmt.Errorf("%s for %s, and something holds it", row.State, row.Code)
	}
	return nil
}

// TestWalk: on no machine is a row without a reason that is not enforced, or
// enforced by nothing; and what is said to be enforced is what can be.
func TestWalk(t *testing.T) {
	rows := []sandbox.LayerID{
		sandbox.FSWrite, sandbox.FSRead, sandbox.NetOutbound, sandbox.NetLoopback, sandbox.UnixSockets, sandbox.Signals,
		sandbox.Ptrace, sandbox.Seclusion, sandbox.Devices, sandbox.Capabilities, sandbox.SyscallFilter, sandbox.KernelSurface, sandbox.WallClock, sandbox.TreeKill,
	}
	machines, failed := 0, 0
	for e := range reports() {
		machines++
		if machines%walkStep() != 0 {
			continue
		}
		for _, id := range rows {
			if err := check(id, e); err != nil {
				t.Errorf("%s: %v\n\t%+v", id, err, e.report)
				failed++
			}
		}
		if failed > 20 {
			t.Fatal("and so on")
		}
	}
	t.Logf("%d machines", machines)
}

// walkStep is how many machines a walk goes on at once: all of them are for the
// long run. It is no part of any period in which they repeat.
func walkStep() int {
	if os.Getenv("BRIG_TEST_LONG") != "" {
		return 1
	}
	return 7
}

// TestWalkLimits is the same for what holds limits and ends the tree.
func TestWalkLimits(t *testing.T) {
	l := sandbox.DefaultLimits()
	groups := []confine.Cgroup{{}}
	for _, code := range []string{confine.CodeCgroupV1, confine.CodeCgroupMissing, confine.CodeCgroupReadOnly, confine.CodeCgroupDelegation, confine.CodeNotAsked, "a code of tomorrow", confine.CodeCgroupControl, confine.CodeCgroupOccupied, confine.CodeCgroupRefused} {
		none := confine.Cgroup{Layer: confine.Layer{Code: code, Errno: "EACCES"}}
		some := confine.Cgroup{Layer: none.Layer, Path: "/a/brig-1", Processes: l.Processes, Kill: true, Lacks: []string{"cpu", "memory"}}
		groups = append(groups, none, some)
	}
	for n := range 16 {
		c := confine.Cgroup{Layer: confine.Layer{Applied: true}, Path: "/a/brig-1", Kill: n&8 != 0}
		if n&1 != 0 {
			c.Memory = l.Memory
		}
		if n&2 != 0 {
			c.Processes = l.Processes
		}
		if n&4 != 0 {
			c.MilliCPU = l.MilliCPU
		}
		groups = append(groups, c)
	}
	machines := 0
	for _, group := range groups {
		for _, namespaces := range namespaceStates(sandbox.NetworkDeny) {
			for _, uid := range []int{0, 1000} {
				for n := range 16 {
					if machines++; machines%walkStep() != 0 {
						continue
					}
					e := evidence{report: whole(), watch: watched(), base: testBaseOf(sandbox.ModeBestEffort)}
					e.base.Limits = e.base.Limits.WithDefaults()
					e.report.Namespace, e.report.Namespaces, e.report.Cgroup, e.report.UID = namespaces.Namespace, namespaces.Namespaces, group, uid
					e.report.Narrowed, e.watch.Subreaper = n&1 != 0, n&2 != 0
					if n&4 != 0 {
						e.report.CPUs = 64
					}
					if n&8 != 0 {
						e.report.Landlock = confine.Landlock{Layer: confine.Layer{Code: confine.CodeLandlockNotBuilt}}
					}
					for _, id := range []sandbox.LayerID{sandbox.ProcessLimit, sandbox.MemoryLimit, sandbox.CPULimit, sandbox.DiskLimit, sandbox.TreeKill, sandbox.WallClock} {
						if err := check(id, e); err != nil {
							t.Fatalf("%s: %v\n\t%+v", id, err, e.report)
						}
					}
				}
			}
		}
	}
}

// TestReasons: every code has words and a remedy, and stands there once.
func TestReasons(t *testing.T) {
	var codes []string
	for _, r := range reasons() {
		if r.code == "" || r.cause == "" || r.remedy == "" || strings.HasSuffix(r.cause, ".") {
			t.Errorf("%+v", r)
		}
		if slices.Contains(codes, r.code) {
			t.Errorf("%s stands there twice", r.code)
		}
		codes = append(codes, r.code)
	}
}

// TestWalkNotes: a note says that something is open only where it is.
func TestWalkNotes(t *testing.T) {
	for e := range reports() {
		ns := e.report.Namespace.Applied
		text := strings.Join(notes(e), "\n")
		for words, open := range map[string]bool{
			"that a file exists":  !ns || !e.report.Namespaces.Root.Applied,
			"command lines":       !ns || !e.report.Namespaces.Process.Applied,
			"/proc/net":           !ns || !e.report.Namespaces.Network.Applied,
			"loopback is refused": e.base.Network == sandbox.NetworkDeny && e.report.Seccomp.Applied && !e.report.Seccomp.Filter.Inet,
			"the session's own":   e.base.Network == sandbox.NetworkLoopback && e.report.Namespaces.Loopback && ns,
		} {
			if strings.Contains(text, words) != open {
				t.Fatalf("%q: %v\n\t%s\n\t%+v", words, !open, text, e.report)
			}
		}
	}
}
