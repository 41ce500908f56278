package confine

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func answers(call string, errno unix.Errno) string { return fmt.Sprintf("%s=%d", call, int(errno)) }

// TestSabotage makes one step of a start fail for real. The runner must never
// have started, and the error must name the step.
func TestSabotage(t *testing.T) {
	needPython(t)
	needWhole(t)
	missing := func(p *Plan) { p.Command[0] = "/usr/bin/no-such-interpreter" }
	cases := []struct {
		name   string
		kernel []string
		change func(*Plan)
		stage  string
		errno  unix.Errno
	}{
		{name: "limits", kernel: []string{answers("prlimit64", unix.EPERM)}, stage: StageLimits, errno: unix.EPERM},
		{name: "landlock version", kernel: []string{answers("landlock_create_ruleset", unix.EPERM)}, stage: StageLandlock, errno: unix.EPERM},
		{name: "landlock rule", kernel: []string{answers("landlock_add_rule", unix.EPERM)}, stage: StageLandlock, errno: unix.EPERM},
		{name: "landlock enforcement", kernel: []string{answers("landlock_restrict_self", unix.EPERM)}, stage: StageLandlock, errno: unix.EPERM},
		{name: "landlock depth", kernel: []string{"domains=16"}, stage: StageLandlock, errno: unix.E2BIG},
		{name: "seccomp", kernel: []string{answers("seccomp", unix.EPERM)}, stage: StageSeccomp, errno: unix.EPERM},
		{name: "privileges", kernel: []string{answers("capset", unix.EINVAL), answers("unshare", unix.EPERM)}, change: func(p *Plan) { p.Namespace = false }, stage: StagePrivs, errno: unix.EINVAL},
		{name: "exec missing", change: missing, stage: StageExec, errno: unix.ENOENT},
		{name: "exec not there", change: func(p *Plan) { p.Grants.Execute = nil }, stage: StageExec, errno: unix.ENOENT},
		{name: "exec refused", kernel: []string{answers("pivot_root", unix.EPERM)}, change: func(p *Plan) { p.Grants.Execute = nil }, stage: StageExec, errno: unix.EACCES},
		{name: "scratch missing", change: func(p *Plan) { p.Namespace, p.Scratch = false, p.Scratch+"/none" }, stage: StageSession, errno: unix.ENOENT},
		{name: "lock missing", change: func(p *Plan) { p.Home += "/none" }, stage: StageLock, errno: unix.ENOENT},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			p := basePlan(t, "/bin/sh", "-c", "echo the runner has started")
			if c.change != nil {
				c.change(&p)
			}
			i := launch(t, p, c.kernel...)
			f := i.failed()
			i.wait()
			if f.Stage != c.stage || unix.Errno(f.Errno) != c.errno || f.Text == "" {
				t.Errorf("failure: %+v, want stage %s with %s", f, c.stage, c.errno)
			}
			if strings.Contains(i.out.String(), "started") {
				t.Error("the runner has started")
			}
		})
	}
}

// TestKernels starts on kernels that lack something. In best-effort the start
// succeeds and the report says what is missing and why.
func TestKernels(t *testing.T) {
	needPython(t)
	needWhole(t)
	cases := []struct {
		name   string
		kernel []string
		mode   Mode
		check  func(r Report) bool
	}{
		{"whole", nil, ModeBestEffort, func(r Report) bool {
			return r.Landlock.Applied && r.Seccomp.Applied && r.Seccomp.Filter.Metadata == r.Namespace.Applied || r.Namespace.Applied
		}},
		{"no landlock", []string{answers("landlock_create_ruleset", unix.ENOSYS)}, ModeBestEffort, func(r Report) bool {
			return !r.Landlock.Applied && r.Landlock.Code == CodeLandlockNotBuilt && r.Seccomp.Applied
		}},
		{"landlock not booted", []string{answers("landlock_create_ruleset", unix.EOPNOTSUPP)}, ModeBestEffort, func(r Report) bool {
			return !r.Landlock.Applied && r.Landlock.Code == CodeLandlockNotBoot && r.Landlock.Errno == unix.ErrnoName(unix.EOPNOTSUPP)
		}},
		{"no seccomp", []string{answers("seccomp", unix.ENOSYS)}, ModeBestEffort, func(r Report) bool {
			return !r.Seccomp.Applied && r.Seccomp.Code == CodeSeccompNotBuilt && r.Landlock.Applied
		}},
		{"no namespaces", []string{answers("namespaces", unix.EPERM)}, ModeBestEffort, func(r Report) bool {
			return !r.Namespace.Applied && r.Namespace.Errno == "EPERM" && r.Namespace.Code != "" && r.SharedShm && r.Seccomp.Filter.Metadata
		}},
		{"no namespaces left", []string{answers("namespaces", unix.ENOSPC)}, ModeRequire, func(r Report) bool {
			return !r.Namespace.Applied && r.Namespace.Errno == "ENOSPC" && !r.SharedShm && !r.Seccomp.Filter.Metadata
		}},
		{"no mounts", []string{answers("mount", unix.EACCES)}, ModeBestEffort, func(r Report) bool {
			return !r.Namespace.Applied && r.Namespace.Errno == "EACCES" && r.Landlock.Applied
		}},
		{"no mount attributes", []string{answers("mount_setattr", unix.ENOSYS)}, ModeBestEffort, func(r Report) bool {
			return !r.Namespace.Applied && (r.Namespace.Code == CodeMountOldKernel || r.Namespace.Code == CodeUsernsAppArmor)
		}},
		{"no users", []string{answers("newuser", unix.EPERM)}, ModeBestEffort, func(r Report) bool {
			return !r.Namespace.Applied && r.Namespace.Errno == "EPERM" && reflect.DeepEqual(r.Namespaces, Namespaces{})
		}},
		{"no processes", []string{answers("newpid", unix.ENOSPC)}, ModeBestEffort, func(r Report) bool {
			n := r.Namespaces
			return r.Namespace.Applied && n.Process == Layer{Code: CodePIDRefused, Errno: "ENOSPC"} && n.Network.Applied
		}},
		{"no network", []string{answers("newnet", unix.EPERM)}, ModeBestEffort, func(r Report) bool {
			n := r.Namespaces
			return r.Namespace.Applied && n.Process.Applied && n.Network == Layer{Code: CodeNetRefused, Errno: "EPERM"}
		}},
		{"no processes and no network", []string{answers("newpid+newnet", unix.EPERM)}, ModeBestEffort, func(r Report) bool {
			n := r.Namespaces
			return r.Namespace.Applied && n.Process == Layer{Code: CodePIDRefused, Errno: "EPERM"} && n.Network == Layer{Code: CodeNetRefused, Errno: "EPERM"}
		}},
		{"no pivot_root", []string{answers("pivot_root", unix.EINVAL)}, ModeBestEffort, func(r Report) bool {
			n := r.Namespaces
			return r.Namespace.Applied && n.Root == Layer{Code: CodeMountRefused, Errno: "EINVAL"} && n.Process.Applied && n.Network.Applied && r.PrivateShm && !r.Seccomp.Filter.Unix
		}},
		{"no pivot_root and no network", []string{answers("pivot_root", unix.EPERM), answers("newnet", unix.ENOSPC)}, ModeBestEffort, func(r Report) bool {
			n := r.Namespaces
			return r.Namespace.Applied && n.Root == Layer{Code: CodeMountRefused, Errno: "EPERM"} && n.Process.Applied && n.Network == Layer{Code: CodeNetRefused, Errno: "ENOSPC"}
		}},
		{"a masked /proc", []string{"masked=0"}, ModeBestEffort, func(r Report) bool {
			n := r.Namespaces
			return r.Namespace.Applied && n.Root.Applied && n.Process == Layer{Code: CodeProcMasked, Errno: "EPERM"} && n.Network.Applied && r.Seccomp.Filter.Unix
		}},
		{"a masked /proc and no pivot_root", []string{"masked=0", answers("pivot_root", unix.EPERM)}, ModeBestEffort, func(r Report) bool {
			n := r.Namespaces
			return r.Namespace.Applied && !n.Root.Applied && n.Process == Layer{Code: CodeProcMasked, Errno: "EPERM"} && n.Network.Applied
		}},
		{"a network that cannot be brought up", []string{answers("ioctl", unix.EPERM)}, ModeBestEffort, func(r Report) bool {
			n := r.Namespaces
			return r.Namespace.Applied && n.Root.Applied && n.Process.Applied && n.Network.Applied && !n.Loopback && !r.Seccomp.Filter.Inet
		}},
		{"no close_range", []string{answers("close_range", unix.ENOSYS)}, ModeBestEffort, func(r Report) bool { return r.Landlock.Applied }},
		{"off", nil, ModeOff, func(r Report) bool {
			return !r.Landlock.Applied && !r.Seccomp.Applied && !r.Namespace.Applied && r.Landlock.Code == CodeOff && r.NoNewPrivs
		}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			p := basePlan(t, python, "-I", "-c", openFiles)
			p.Mode = c.mode
			out, ended, report := run(t, p, c.kernel...)
			if !c.check(report) {
				t.Errorf("report: %+v", report)
			}
			if ended.Cause != EndSelf || ended.Status != 0 || strings.TrimSpace(out) != "fds 0 1 2" {
				t.Errorf("%+v, output %q", ended, out)
			}
		})
	}
}

// TestNotFooled: a helper that reports and then cannot run is a failed start,
// and a plan that is no plan is refused.
func TestNotFooled(t *testing.T) {
	for name, raw := range map[string]string{
		"empty":        "",
		"no report":    "{}\n",
		"half":         `{"started":{"pid":1,"rep`,
		"then failure": "{\"started\":{\"pid\":1,\"report\":{}}}\n{\"failed\":{\"stage\":\"exec\",\"text\":\"no\"}}\n",
		"noise":        "hello\n",
	} {
		if s, err := verdict([]byte(raw)); err == nil {
			t.Errorf("%s: taken for a start: %+v", name, s)
		}
	}
	if _, err := verdict([]byte("{\"started\":{\"pid\":7,\"report\":{}}}\n")); err != nil {
		t.Errorf("control: %v", err)
	}
}
