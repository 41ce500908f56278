package docker

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"brig/orchestrator/sandbox"
	"brig/orchestrator/workspace"
)

// reading is the content of one control file, read in one place.
type reading struct{ place, file, value string }

// read collects control files from where they are evidence: inside, unless the
// kernel there is a program that shows what it was told; and outside, unless a
// virtual machine lies between, around which other limits hold.
func (ev evidence) read(files ...string) []reading {
	var found []reading
	collect := func(place string, groups map[string]string) {
		for _, file := range files {
			if value, ok := groups[file]; ok {
				found = append(found, reading{place, file, value})
			}
		}
	}
	if ev.kernel() != gvisorKernel {
		collect("inside", ev.in.Cgroup)
	}
	if ev.kernel() != kataKernel {
		collect("outside", ev.outside.groups)
	}
	return found
}

// unlimitedV1 is below what version 1 shows where there is no memory limit.
const unlimitedV1 = 1 << 60

// number is a limit; "max" and its like are -1.
func (r reading) number() int64 {
	n, err := strconv.ParseInt(r.value, 10, 64)
	if err != nil || n < 0 || n >= unlimitedV1 {
		return -1
	}
	return n
}

// someLimit tells whether every place shows some limit, and agree whether all show that one.
func someLimit(readings []reading) bool {
	return len(readings) > 0 && !slices.ContainsFunc(readings, func(r reading) bool { return r.number() < 0 })
}

func agree(readings []reading, want int64) bool {
	return len(readings) > 0 && !slices.ContainsFunc(readings, func(r reading) bool { return r.number() != want })
}

// first is what is shown of a limit that several places show.
func first(readings []reading) string {
	if len(readings) == 0 {
		return "unknown"
	}
	return printable(readings[0].value)
}

func shown(readings []reading) string {
	var words []string
	for _, r := range readings {
		words = append(words, fmt.Sprintf("%s=%s (%s)", r.file, printable(r.value), r.place))
	}
	if len(words) == 0 {
		return "none"
	}
	return strings.Join(words, " ")
}

// heard tells whether a limit was read where it has to be: inside, and under
// gVisor outside, where it can only be read if the engine's machine is this one.
func (ev evidence) heard(readings []reading) bool {
	place := "inside"
	if ev.kernel() == gvisorKernel {
		place = "outside"
	}
	return slices.ContainsFunc(readings, func(r reading) bool { return r.place == place })
}

// hearing is the check that a limit was read at all. Silence on a machine that
// could have spoken leaves nothing to go by.
func (ev evidence) hearing(what string, readings []reading) check {
	return check{
		holds: ev.heard(readings), code: "not-read", what: "there is only the engine's word for the " + what + ", which no control group that could be read confirms",
		fatal: len(readings) == 0 && ev.kernel() != gvisorKernel,
	}
}

// limitChecks are those of a limit that a control group holds.
func (ev evidence) limitChecks(what string, readings []reading, want int64) []check {
	return []check{
		ev.hearing(what, readings),
		vital(len(readings) == 0 || someLimit(readings), "not-applied", "the control group shows no "+what),
		need(len(readings) == 0 || agree(readings, want), "other-limit", "the control group shows another "+what+" than the one asked for"),
	}
}

func processLimit(ev evidence) sandbox.Layer {
	threads, processes, files := ev.want.hostThreads(), int64(ev.want.limits.Processes), int64(ev.want.limits.OpenFiles)
	asked, open, readings := ev.out.HostConfig.PidsLimit, ev.rlimit("nofile"), ev.read("pids.max")
	mechanism := fmt.Sprintf("cgroup pids.max=%s, %s open files in each", first(readings), amount(open))
	checks := append(ev.limitChecks("process limit", readings, threads),
		need(asked != nil && *asked == threads, "not-set", "the engine reports another process limit"),
		need(open == files, "nofile-not-applied", "the kernel shows another limit of open files inside"))
	seen := fmt.Sprintf("%s; nofile=%s", shown(readings), amount(open))
	if ev.kernel() == gvisorKernel {
		// The guest counts for its own users only, so this limit is the session's.
		guest := ev.rlimit("nproc")
		mechanism = fmt.Sprintf("the guest's nproc=%s; %s, which counts threads of the host", amount(guest), mechanism)
		seen += " nproc=" + amount(guest)
		checks = append(checks, need(guest == processes, "nproc-not-applied", "the guest's kernel shows another process limit"))
	}
	return judge(mechanism, seen, checks...)
}

// tcpUncounted tells whether the memory of TCP connections was seen to be limited by
// nothing of the container's: version 1 counts it apart, and shows no limit. Where the
// kernel is a guest's, so are the connections.
func (ev evidence) tcpUncounted() bool {
	return !ev.kernel().own() && len(ev.read("memory.limit_in_bytes")) > 0 &&
		!someLimit(ev.read("memory.kmem.tcp.limit_in_bytes"))
}

// memoryLimit needs swap to be limited as well: otherwise the limit is what fits in memory only.
func memoryLimit(ev evidence) sandbox.Layer {
	want := ev.want.limits.Memory
	readings := ev.read("memory.max", "memory.limit_in_bytes")
	extra, both := ev.read("memory.swap.max"), ev.read("memory.memsw.limit_in_bytes") // on top, or together
	swap := ev.heard(extra) && agree(extra, 0) || ev.heard(both) && agree(both, want)
	swapping := "no swap"
	if !swap {
		swapping = "swap not limited"
	}
	if ev.tcpUncounted() {
		swapping += ", without the buffers of TCP connections"
	}
	return judge(
		fmt.Sprintf("cgroup memory limit %s bytes, %s", first(readings), swapping),
		shown(slices.Concat(readings, extra, both, ev.read("memory.kmem.tcp.limit_in_bytes"))),
		append(ev.limitChecks("memory limit", readings, want),
			need(ev.out.HostConfig.Memory == want, "not-set", "the engine reports another memory limit"),
			need(swap, "swap-not-limited", "swap comes on top, because the engine's machine does not account for it"))...)
}

func cpuLimit(ev evidence) sandbox.Layer {
	want := ev.want.cores()
	readings := ev.read("cpu.max", "cpu.cfs_quota_us", "cpu.cfs_period_us")
	quotas := ev.quotas(readings)
	all := func(holds func(cores float64) bool) bool {
		return len(quotas) == 0 || !slices.ContainsFunc(quotas, func(cores float64) bool { return !holds(cores) })
	}
	shownCores := "quota unknown"
	if len(quotas) > 0 {
		shownCores = fmt.Sprintf("quota of %.2f cores", quotas[0])
	}
	return judge(
		"cgroup "+shownCores,
		shown(readings),
		ev.hearing("processor limit", readings),
		vital(all(func(cores float64) bool { return cores > 0 }), "not-applied", "the control group shows no processor limit"),
		need(all(func(cores float64) bool { return near(cores, want) }), "other-limit", "the control group shows another processor limit than the one asked for"),
		need(near(float64(ev.out.HostConfig.NanoCPUs)/1e9, want), "not-set", "the engine reports another processor limit"),
	)
}

// quotas are the cores that each place allows; 0 where it limits nothing.
func (ev evidence) quotas(readings []reading) []float64 {
	numbers := map[string][2]string{} // place → quota, period
	var places []string
	for _, r := range readings {
		pair, known := numbers[r.place]
		if !known {
			places = append(places, r.place)
		}
		fields := strings.Fields(r.value)
		switch {
		case r.file == "cpu.max" && len(fields) == 2:
			pair = [2]string{fields[0], fields[1]}
		case r.file == "cpu.cfs_quota_us":
			pair[0] = r.value
		case r.file == "cpu.cfs_period_us":
			pair[1] = r.value
		}
		numbers[r.place] = pair
	}
	var cores []float64
	for _, place := range places {
		quota, _ := strconv.ParseInt(numbers[place][0], 10, 64) // "max" and nonsense are no limit
		period, _ := strconv.ParseInt(numbers[place][1], 10, 64)
		if quota <= 0 || period <= 0 {
			cores = append(cores, 0)
			continue
		}
		cores = append(cores, float64(quota)/float64(period))
	}
	return cores
}

func near(a, b float64) bool { return a > b*0.99 && a < b*1.01 }

func diskLimit(ev evidence) sandbox.Layer {
	size, sized := ev.rlimit("fsize"), true
	var sizes, seen []string
	for _, path := range ev.scratchPaths() {
		m := ev.mount(path)
		sized = sized && sizeOption(m.Options) != noSize
		sizes = append(sizes, path+" "+sizeOption(m.Options))
		seen = append(seen, fmt.Sprintf("%s is %s with %s", path, printable(m.FSType), sizeOption(m.Options)))
	}
	layer := judge(
		fmt.Sprintf("read-only root, files of at most %s bytes, %s, %s", amount(size), strings.Join(sizes, ", "), ev.room()),
		fmt.Sprintf("fsize=%s; %s", amount(size), strings.Join(seen, "; ")),
		need(size == ev.want.limits.FileSize, "fsize-not-applied", "the kernel shows another file size limit inside"),
		need(ev.coreLimited(), "core-not-applied", "the kernel shows another limit of core files inside"),
		need(sized, "scratch-not-sized", "a scratch file system has no size of its own"),
		need(ev.out.HostConfig.LogConfig.Type == "none", "log-grows", "the engine writes a log that grows"),
		need(!ev.want.watched(), "watched", watchedDisk()),
	)
	if layer.Code == "watched" {
		layer.Remedy = roomOfItsOwn
	}
	return layer
}

// room is how the size of the workspace is limited, which belongs to the layer: under
// another limit the posture is another one.
func (ev evidence) room() string {
	if ev.want.watched() {
		return fmt.Sprintf("the workspace watched for more than %d bytes", ev.want.limits.Workspace)
	}
	return fmt.Sprintf("the workspace of at most %d bytes", ev.want.limits.Workspace)
}

// roomOfItsOwn bounds what a watch is too slow for.
const roomOfItsOwn = "let XDG_DATA_HOME be on a file system of its own, of the size that sessions may fill"

// coreLimited tells whether a crash leaves no core file in the workspace. gVisor writes none.
func (ev evidence) coreLimited() bool { return ev.rlimit("core") == 0 || ev.kernel() == gvisorKernel }

// watchedDisk is the gap of a workspace that is watched.
func watchedDisk() string {
	return fmt.Sprintf("no engine limits a bound directory, so brig looks every %s while something runs and ends the session above the limit, "+
		"above %d files and directories, and where directories are nested deeper than %d; what is written in between comes on top, and deleted files that are still open and directories closed to brig are not counted",
		diskLook, workspace.MaxEntries, workspace.MaxNesting)
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

// outputLimit is the runner's own: which runner it is was compared by its hash,
// and it repeats the bounds that it holds.
func outputLimit(ev evidence) sandbox.Layer {
	bounds := ev.in.Bounds
	return judge(
		fmt.Sprintf("the runner keeps %d bytes of each stream and logs %d, brig a bounded ring", bounds.Kept, bounds.Logged),
		fmt.Sprintf("kept %d, logged %d; log driver %s", bounds.Kept, bounds.Logged, printable(ev.out.HostConfig.LogConfig.Type)),
		need(bounds == ev.want.limits.Bounds(), "other-bounds", "the runner holds other bounds than it was told"),
		need(ev.out.HostConfig.LogConfig.Type == "none", "log-grows", "the engine writes a log that grows"),
	)
}

func wallClock(ev evidence) sandbox.Layer {
	return judge(
		"brig's timer, then SIGKILL inside, then removal of the container",
		"stop signal "+printable(ev.out.Config.StopSignal),
		need(ev.out.Config.StopSignal == "SIGKILL", "stop-signal", "the engine would send a signal that code can ignore"),
	)
}
