package hostfallback

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"brig/hostfallback/confine"
	"brig/orchestrator/sandbox"
	"brig/orchestrator/sandbox/sandboxtest"
)

// booted is what brig must make of a machine that .ci/kernels boots: for each
// layer of the kernel the reason why it is missing, or nothing.
type booted struct {
	landlock, namespace, root, process, network, cgroup string

	lists bool     // there is a control group all the same, which lists and ends the tree
	rows  []string // of the posture: layer, state and code
}

func bootable() map[string]booted {
	limits := []string{"memory-limit enforced", "process-limit enforced", "cpu-limit enforced"}
	secluded := []string{"fs-write enforced", "fs-read enforced", "signals enforced", "seclusion enforced", "unix-sockets enforced", "ptrace enforced"}
	return map[string]booted{
		"whole":      {rows: slices.Concat(limits, secluded)},
		"scope":      {rows: slices.Concat(limits, secluded)},
		"nocpu":      {cgroup: confine.CodeCgroupControl, lists: true, rows: append(secluded, "memory-limit enforced", "process-limit enforced")},
		"bare":       {cgroup: confine.CodeCgroupDelegation, rows: append(secluded, "memory-limit partial cgroup-not-delegated", "process-limit enforced")},
		"readonly":   {cgroup: confine.CodeCgroupReadOnly, rows: append(secluded, "memory-limit partial cgroup-readonly")},
		"occupied":   {cgroup: confine.CodeCgroupOccupied, lists: true, rows: append(secluded, "memory-limit partial cgroup-occupied")},
		"old-groups": {cgroup: confine.CodeCgroupV1, lists: true, rows: append(secluded, "memory-limit partial cgroup-v1")},
		"nousers":    {namespace: confine.CodeUsernsSysctl, rows: limits},
		"masked":     {process: confine.CodeProcMasked, rows: append(limits, "fs-write enforced", "fs-read enforced", "seclusion partial visible-processes")},
		"nolandlock": {landlock: confine.CodeLandlockNotBoot, rows: slices.Concat(limits, secluded)},
		"nothing": {landlock: confine.CodeLandlockNotBoot, namespace: confine.CodeUsernsSysctl, rows: []string{
			"fs-write unsupported landlock-not-booted", "fs-read unsupported landlock-not-booted", "signals unsupported landlock-not-booted",
			"unix-sockets enforced", "net-outbound enforced", "ptrace partial landlock-missing", "seclusion off userns-sysctl",
			"memory-limit partial cgroup-own-files",
		}},
	}
}

// TestMachine applies everything on a kernel that is really another one, and runs
// code there.
func TestMachine(t *testing.T) {
	name := sandboxtest.OptIn(t, "BRIG_TEST_MACHINE", ".ci/kernels boots it")
	if want, ok := verdicts()[name]; ok {
		typed(t, want)
		return
	}
	want, ok := bootable()[name]
	if !ok {
		t.Fatalf("no machine %q", name)
	}
	b := testBackend(t)
	i := openInstance(t, b, testBase())
	in := i.(*instance)
	r := in.started.Report
	for _, l := range []struct {
		name string
		got  confine.Layer
		want string
	}{
		{"landlock", r.Landlock.Layer, want.landlock},
		{"seccomp", r.Seccomp.Layer, ""},
		{"namespace", r.Namespace, want.namespace},
		{"root", r.Namespaces.Root, want.root},
		{"process", r.Namespaces.Process, want.process},
		{"network", r.Namespaces.Network, want.network},
		{"cgroup", r.Cgroup.Layer, want.cgroup},
	} {
		if want.namespace != "" && slices.Contains([]string{"root", "process", "network"}, l.name) {
			if l.got.Applied {
				t.Errorf("%s without namespaces: %+v", l.name, l.got)
			}
			continue
		}
		if l.got.Code != l.want || l.got.Applied != (l.want == "") {
			t.Errorf("%s: %+v, want code %q", l.name, l.got, l.want)
		}
	}
	if got := r.Cgroup.Path != "" && r.Cgroup.Kill; got != (want.cgroup == "" || want.lists) {
		t.Errorf("cgroup: %+v", r.Cgroup)
	}
	var rows []string
	for _, row := range i.Posture().Layers {
		rows = append(rows, strings.TrimSpace(fmt.Sprintf("%s %s %s", row.ID, row.State, row.Code)))
		if row.State != sandbox.Enforced && (row.Reason == "" || row.Remedy == "") {
			t.Errorf("no words: %+v", row)
		}
	}
	if l := r.Landlock; l.Applied && want.namespace != "" {
		// Nothing else is there that could hold what this Landlock does not know.
		for _, row := range []struct {
			abi        int
			less, more string // below this version, and from it on
		}{
			{3, "fs-write partial landlock-abi-2-lacks-truncate", "fs-write partial userns-sysctl"},
			{6, "signals partial landlock-abi-2-lacks-scope", "signals enforced"},
		} {
			if l.ABI < row.abi {
				want.rows = append(want.rows, row.less)
			} else {
				want.rows = append(want.rows, row.more)
			}
		}
		want.rows = append(want.rows, "seclusion off userns-sysctl", "unix-sockets enforced")
	}
	if want.process != "" && r.Landlock.ABI >= 6 {
		want.rows = append(want.rows, "signals enforced")
	}
	for _, row := range want.rows {
		if !slices.Contains(rows, row) {
			t.Errorf("posture: no %q", row)
		}
	}
	if t.Failed() || testing.Verbose() {
		raw, err := json.Marshal(r)
		t.Logf("%s %v\n%s", raw, err, strings.Join(rows, "\n"))
	}
	if out, _ := output(t, i, "1", "print(6 * 7)"); strings.TrimSpace(out) != "42" {
		t.Errorf("output %q", out)
	}
}

// typed does what a person would type first: doctor, and attempts of the self-test
// with the verdicts that they must have here.
func typed(t *testing.T, want map[string]string) {
	t.Helper()
	home := t.TempDir()
	call := func(args ...string) []byte {
		cmd := exec.Command(os.Getenv("BRIG_TEST_BRIG"), args...)
		cmd.Dir, cmd.Env = home, []string{"HOME=" + home, "PATH=/usr/bin:/bin", "XDG_RUNTIME_DIR=" + filepath.Join(home, "run")}
		cmd.Stderr = os.Stderr
		out, _ := cmd.Output() // the status tells of more than is asked here
		return out
	}
	t.Logf("doctor\n%s", call("doctor"))
	left := slices.Sorted(maps.Keys(want))
	for range 3 { // an emulated processor is slow, and what ran out of time is no verdict
		var again []string
		for probes := range slices.Chunk(left, 4) {
			args := []string{"selftest", "--backend", "host", "--json"}
			for _, id := range probes {
				args = append(args, "--probe", id)
			}
			var answer struct {
				Reports []struct {
					Probes []struct{ Probe, Verdict, Reason string }
				}
			}
			out := call(args...)
			if err := json.Unmarshal(out, &answer); err != nil || len(answer.Reports) != 1 || len(answer.Reports[0].Probes) != len(probes) {
				t.Fatalf("%v: %v\n%s", args, err, out)
			}
			for _, p := range answer.Reports[0].Probes {
				t.Logf("%s %s: %s", p.Probe, p.Verdict, p.Reason)
				switch p.Verdict {
				case want[p.Probe]:
				case "inconclusive":
					again = append(again, p.Probe)
				default:
					t.Errorf("%s is %s, want %s", p.Probe, p.Verdict, want[p.Probe])
				}
			}
		}
		if left = again; len(left) == 0 {
			return
		}
	}
	t.Errorf("undecided: %v", left)
}

// verdicts are of probes of the self-test that need no time, and what must come of
// them: with all layers, and without namespaces on a kernel whose Landlock sees
// neither truncation nor signals.
func verdicts() map[string]map[string]string {
	whole, poor := make(map[string]string), make(map[string]string)
	for _, id := range []string{
		"files-write", "files-read-home", "files-truncate", "files-chmod", "files-stat", "files-cgroup", "net-tcp", "net-loopback-tcp",
		"unix-abstract", "processes-kill", "processes-ptrace", "processes-environ", "kernel-userns-unshare", "kernel-keyctl",
		"environment-variable", "inherited-fd", "no-new-privileges-flag", "capabilities-held",
	} {
		whole[id], poor[id] = "blocked", "blocked"
	}
	for _, id := range []string{"files-truncate", "files-chmod", "files-stat", "processes-kill"} {
		poor[id] = "allowed"
	}
	for _, id := range []string{"kernel-userns-unshare", "capabilities-held"} {
		delete(poor, id) // their controls need a user namespace
	}
	return map[string]map[string]string{"selftest": whole, "selftest-nousers": poor}
}
