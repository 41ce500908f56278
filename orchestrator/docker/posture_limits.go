package docker

import (
	"fmt"
	"strconv"
	"strings"

	"brig/orchestrator/sandbox"
)

// cgroup is a control file's number as the runner read it; "max" and silence are -1.
func (ev evidence) cgroup(name string) int64 {
	n, err := strconv.ParseInt(ev.in.Cgroup[name], 10, 64)
	if err != nil {
		return -1
	}
	return n
}

// cgroups shows the control files that exist, as name=value.
func (ev evidence) cgroups(names ...string) string {
	var seen []string
	for _, name := range names {
		if value, ok := ev.in.Cgroup[name]; ok {
			seen = append(seen, name+"="+printable(value))
		}
	}
	return orNone(seen)
}

func (ev evidence) hasCgroup(name string) bool { _, ok := ev.in.Cgroup[name]; return ok }

func processLimit(ev evidence) sandbox.Layer {
	want, files := int64(ev.want.limits.Processes), int64(ev.want.limits.OpenFiles)
	asked, open := ev.out.HostConfig.PidsLimit, ev.rlimit("nofile")
	return judge(
		fmt.Sprintf("cgroup pids.max=%s, %s open files in each", printable(ev.in.Cgroup["pids.max"]), amount(open)),
		fmt.Sprintf("%s; nofile=%s", ev.cgroups("pids.max"), amount(open)),
		check{asked != nil && *asked == want, "not-set", "the engine reports another process limit"},
		check{ev.cgroup("pids.max") == want, "not-applied", "the control group shows another process limit, or none, inside"},
		check{open == files, "nofile-not-applied", "the kernel shows another limit of open files inside"},
	)
}

// memoryLimit needs swap to be limited as well: otherwise the limit is what fits in memory only.
func memoryLimit(ev evidence) sandbox.Layer {
	want := ev.want.limits.Memory
	applied := max(ev.cgroup("memory.max"), ev.cgroup("memory.limit_in_bytes"))
	swap := ev.hasCgroup("memory.swap.max") && ev.cgroup("memory.swap.max") == 0 ||
		ev.hasCgroup("memory.memsw.limit_in_bytes") && ev.cgroup("memory.memsw.limit_in_bytes") == want
	swapping := "no swap"
	if !swap {
		swapping = "swap not limited"
	}
	return judge(
		fmt.Sprintf("cgroup memory limit %s bytes, %s", amount(applied), swapping),
		ev.cgroups("memory.max", "memory.swap.max", "memory.limit_in_bytes", "memory.memsw.limit_in_bytes"),
		check{ev.out.HostConfig.Memory == want, "not-set", "the engine reports another memory limit"},
		check{applied == want, "not-applied", "the control group shows another memory limit, or none, inside"},
		check{swap, "swap-not-limited", "swap comes on top, because the engine's machine does not account for it"},
	)
}

func cpuLimit(ev evidence) sandbox.Layer {
	want := ev.want.cores()
	quota, period := ev.cgroup("cpu.cfs_quota_us"), ev.cgroup("cpu.cfs_period_us")
	if both := strings.Fields(ev.in.Cgroup["cpu.max"]); len(both) == 2 {
		q, _ := strconv.ParseInt(both[0], 10, 64)
		p, _ := strconv.ParseInt(both[1], 10, 64)
		quota, period = q, p
	}
	cores := 0.0 // none read back
	if quota > 0 && period > 0 {
		cores = float64(quota) / float64(period)
	}
	return judge(
		fmt.Sprintf("cgroup quota of %.2f cores", cores),
		ev.cgroups("cpu.max", "cpu.cfs_quota_us", "cpu.cfs_period_us"),
		check{near(float64(ev.out.HostConfig.NanoCPUs)/1e9, want), "not-set", "the engine reports another processor limit"},
		check{near(cores, want), "not-applied", "the control group shows another processor limit, or none, inside"},
	)
}

func near(a, b float64) bool { return a > b*0.99 && a < b*1.01 }

func diskLimit(ev evidence) sandbox.Layer {
	size, sized := ev.rlimit("fsize"), true
	places := []string{scratchPath, "/tmp", "/dev/shm"}
	if ev.want.workspace.directory == "" {
		places = append(places, workspacePath)
	}
	var sizes, seen []string
	for _, path := range places {
		m := ev.mount(path)
		sized = sized && sizeOption(m.Options) != noSize
		sizes = append(sizes, path+" "+sizeOption(m.Options))
		seen = append(seen, fmt.Sprintf("%s is %s with %s", path, printable(m.FSType), sizeOption(m.Options)))
	}
	return judge(
		fmt.Sprintf("read-only root, files of at most %s bytes, %s", amount(size), strings.Join(sizes, ", ")),
		fmt.Sprintf("fsize=%s; %s", amount(size), strings.Join(seen, "; ")),
		check{size == ev.want.limits.FileSize, "fsize-not-applied", "the kernel shows another file size limit inside"},
		check{sized, "scratch-not-sized", "a scratch file system has no size of its own"},
		check{ev.out.HostConfig.LogConfig.Type == "none", "log-grows", "the engine writes a log that grows"},
		check{!ev.want.watched(), "watched", watchedDisk()},
	)
}

// watchedDisk is the gap of a workspace that is watched.
func watchedDisk() string {
	return fmt.Sprintf("no engine limits a bound directory, so brig looks every %s while something runs and ends the session above the limit; "+
		"what is written in between comes on top, and deleted files that are still open and directories closed to brig are not counted", diskLook)
}

// rlimit is the hard limit that the runner read back; unlimited and silence are -1.
func (ev evidence) rlimit(name string) int64 {
	if limit, ok := ev.in.Rlimits[name]; ok {
		return limit.Hard
	}
	return -1
}

// amount shows a limit that was read back.
func amount(n int64) string {
	if n < 0 {
		return "unlimited"
	}
	return strconv.FormatInt(n, 10)
}

const noSize = "no size"

// sizeOption finds the size among mount options.
func sizeOption(options string) string {
	for _, option := range strings.Split(options, ",") {
		if strings.HasPrefix(option, "size=") {
			return printable(option)
		}
	}
	return noSize
}

// outputLimit has numbers that nothing reads back: the limit is the runner's own,
// and which runner it is was compared by its hash.
func outputLimit(ev evidence) sandbox.Layer {
	limits := ev.want.limits
	return judge(
		fmt.Sprintf("the runner keeps %d bytes of each stream and logs %d, brig a bounded ring", limits.OutputKept, limits.OutputLogged),
		"log driver "+printable(ev.out.HostConfig.LogConfig.Type),
		check{ev.out.HostConfig.LogConfig.Type == "none", "log-grows", "the engine writes a log that grows"},
	)
}

func wallClock(ev evidence) sandbox.Layer {
	return judge(
		"brig's timer, then SIGKILL inside, then removal of the container",
		"stop signal "+printable(ev.out.Config.StopSignal),
		check{ev.out.Config.StopSignal == "SIGKILL", "stop-signal", "the engine would send a signal that code can ignore"},
	)
}
