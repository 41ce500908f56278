package confine

import (
	"fmt"
	"testing"
)

// TestLocate reads what kernels and container engines really write.
func TestLocate(t *testing.T) {
	const (
		unified = "30 24 0:26 / /sys/fs/cgroup rw,nosuid,nodev,noexec,relatime shared:9 - cgroup2 cgroup2 rw,nsdelegate\n"
		hybrid  = "25 24 0:23 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755\n" +
			"33 25 0:29 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n" +
			"35 25 0:31 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw\n"
		docker = "612 609 0:26 /../../../docker/abc /sys/fs/cgroup ro,nosuid - cgroup2 cgroup rw\n"
		ns     = "612 609 0:26 / /sys/fs/cgroup ro,nosuid - cgroup2 cgroup rw\n"
		part   = "612 609 0:26 /user.slice /mnt/my\\040groups rw - cgroup2 cgroup rw\n"
	)
	cases := []struct {
		name, mounts, groups string
		want                 hierarchy
		ok                   bool
	}{
		{"session", unified, "0::/user.slice/user-1000.slice/session-2.scope\n", hierarchy{mount: "/sys/fs/cgroup", own: "/sys/fs/cgroup/user.slice/user-1000.slice/session-2.scope"}, true},
		{"root", unified, "0::/\n", hierarchy{mount: "/sys/fs/cgroup", own: "/sys/fs/cgroup"}, true},
		{"a colon in the name", unified, "0::/a:b\n", hierarchy{mount: "/sys/fs/cgroup", own: "/sys/fs/cgroup/a:b"}, true},
		{"hybrid", hybrid, "8:memory:/x\n1:name=systemd:/y\n0::/y\n", hierarchy{mount: "/sys/fs/cgroup/unified", own: "/sys/fs/cgroup/unified/y", old: true}, true},
		{"old only", "33 25 0:29 / /c/memory rw - cgroup cgroup rw,memory\n", "8:cpu,memory:/x\n", hierarchy{old: true}, false},
		{"old pids", "", "8:pids:/x\n", hierarchy{old: true}, false},
		{"container", ns, "0::/\n", hierarchy{mount: "/sys/fs/cgroup", own: "/sys/fs/cgroup", readOnly: true}, true},
		{"container of the machine's namespace", docker, "0::/docker/abc\n", hierarchy{}, false},
		{"outside of the namespace", unified, "0::/../../other\n", hierarchy{}, false},
		{"a part of it", part, "0::/user.slice/a\n", hierarchy{mount: "/mnt/my groups", own: "/mnt/my groups/a"}, true},
		{"beside a part of it", part, "0::/user.slices\n", hierarchy{}, false},
		{"not mounted", "", "0::/a\n", hierarchy{}, false},
		{"none", "", "", hierarchy{}, false},
	}
	for _, c := range cases {
		if got, ok := locate(c.mounts, c.groups); got != c.want || ok != c.ok {
			t.Errorf("%s: %+v %v, want %+v %v", c.name, got, ok, c.want, c.ok)
		}
	}
}

// TestCgroupSettings is the rendering of limits, word for word.
func TestCgroupSettings(t *testing.T) {
	for _, c := range []struct {
		limits Limits
		want   string
	}{
		{Limits{}, ""},
		{
			Limits{Memory: 1 << 30, Processes: 256, MilliCPU: 1500},
			"memory.max=1073741824 memory.swap.max=0 memory.oom.group=1 pids.max=256 cpu.max=150000 100000 ",
		},
		{Limits{MilliCPU: 1}, "cpu.max=1000 100000 "},
		{Limits{Processes: 3}, "pids.max=3 "},
	} {
		got := ""
		for _, s := range c.limits.cgroup() {
			got += s.file + "=" + s.value + " "
		}
		if got != c.want {
			t.Errorf("%+v: %q, want %q", c.limits, got, c.want)
		}
	}
}

// TestCgroupReadBack: a limit that the kernel did not take as it was written is none.
func TestCgroupReadBack(t *testing.T) {
	memory := setting{file: "memory.max", value: "1000000"}
	for got, want := range map[string]bool{"1000000": true, "999424": true, "1003520": false, "max": false, "0": false, "": false} {
		if memory.kept(got) != want {
			t.Errorf("memory.max %q: %v", got, !want)
		}
	}
	pids := setting{file: "pids.max", value: "20"}
	for got, want := range map[string]bool{"20": true, "max": false, "19": false} {
		if pids.kept(got) != want {
			t.Errorf("pids.max %q: %v", got, !want)
		}
	}
}

func TestCount(t *testing.T) {
	const events = "low 0\nhigh 0\nmax 12\noom 3\noom_kill 2\noom_group_kill 1\n"
	got := fmt.Sprint(count(events, "oom_kill"), count(events, "max"), count(events, "oom"), count(events, "none"), count("", "max"))
	if got != "2 12 3 0 0" {
		t.Error(got)
	}
}
