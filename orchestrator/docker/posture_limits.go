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
	want := int64(ev.want.limits.Processes)
	asked := ev.out.HostConfig.PidsLimit
	return judge(
		fmt.Sprintf("cgroup pids.max=%d", want),
		ev.cgroups("pids.max"),
		check{asked != nil && *asked == want, "not-set", "the engine reports another process limit"},
		check{ev.cgroup("pids.max") == want, "not-applied", "the control group shows another process limit, or none, inside"},
	)
}

// memoryLimit needs swap to be limited as well: otherwise the limit is what fits in memory only.
func memoryLimit(ev evidence) sandbox.Layer {
	want := ev.want.limits.Memory
	limited := ev.cgroup("memory.max") == want || ev.cgroup("memory.limit_in_bytes") == want
	swap := ev.hasCgroup("memory.swap.max") && ev.cgroup("memory.swap.max") == 0 ||
		ev.hasCgroup("memory.memsw.limit_in_bytes") && ev.cgroup("memory.memsw.limit_in_bytes") == want
	return judge(
		fmt.Sprintf("cgroup memory limit %d bytes, no swap", want),
		ev.cgroups("memory.max", "memory.swap.max", "memory.limit_in_bytes", "memory.memsw.limit_in_bytes"),
		check{ev.out.HostConfig.Memory == want, "not-set", "the engine reports another memory limit"},
		check{limited, "not-applied", "the control group shows another memory limit, or none, inside"},
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
	applied := quota > 0 && period > 0 && near(float64(quota)/float64(period), want)
	return judge(
		fmt.Sprintf("cgroup quota of %.2f cores", want),
		ev.cgroups("cpu.max", "cpu.cfs_quota_us", "cpu.cfs_period_us"),
		check{near(float64(ev.out.HostConfig.NanoCPUs)/1e9, want), "not-set", "the engine reports another processor limit"},
		check{applied, "not-applied", "the control group shows another processor limit, or none, inside"},
	)
}

func near(a, b float64) bool { return a > b*0.99 && a < b*1.01 }

func diskLimit(ev evidence) sandbox.Layer {
	scratch, tmp := ev.mount(scratchPath), ev.mount("/tmp")
	size := ev.in.Rlimits["fsize"]
	seen := fmt.Sprintf("fsize=%d; %s is %s with %s; /tmp is %s with %s", size.Hard, scratchPath,
		printable(scratch.FSType), sizeOption(scratch.Options), printable(tmp.FSType), sizeOption(tmp.Options))
	layer := judge(
		"read-only root, sized scratch, file size limit",
		seen,
		check{size.Hard == ev.want.limits.FileSize, "fsize-not-applied", "the kernel shows another file size limit inside"},
		check{sizeOption(scratch.Options) != "no size" && sizeOption(tmp.Options) != "no size", "scratch-not-sized", "a scratch file system has no size of its own"},
		check{ev.out.HostConfig.LogConfig.Type == "none", "log-grows", "the engine writes a log that grows"},
		check{ev.want.workspace.directory == "", "workspace-not-limited", "no engine limits a bound directory, so only each file in the workspace is limited, not their sum"},
	)
	return layer
}

// sizeOption finds the size among mount options.
func sizeOption(options string) string {
	for _, option := range strings.Split(options, ",") {
		if strings.HasPrefix(option, "size=") {
			return printable(option)
		}
	}
	return "no size"
}

func outputLimit(ev evidence) sandbox.Layer {
	limits := ev.want.limits
	return judge(
		fmt.Sprintf("the runner keeps %d bytes of each stream, brig a bounded ring", limits.OutputKept),
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
