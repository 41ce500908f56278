package confine

import (
	"path"
	"slices"
	"strconv"
	"strings"
)

// CgroupFile is the file in an instance's home that names its control group, so
// that a later brig finds it when this one and the supervisor were killed.
const CgroupFile = "cgroup"

// cgroupPrefix begins the name of an instance's control group; its token follows.
const cgroupPrefix = "brig-"

// cgroupLeaf is where brig itself goes when it divides the group it was started
// in: a group that hands controllers on may hold no process.
const cgroupLeaf = "brig-main"

// setting is one file of a control group and what is written to it.
type setting struct {
	controller, file, value string
	// optional: a kernel without swap has no such file, and nothing is lost.
	optional bool
}

const (
	cpuPeriod   = 100_000 // microseconds
	cpuMinQuota = 1_000   // the least that the kernel takes
	pageSize    = 4096    // the kernel keeps limits of memory in whole pages, of this size or a multiple
)

// cgroup renders the limits as settings, in the order in which they are written.
func (l Limits) cgroup() []setting {
	var out []setting
	if l.Memory > 0 {
		out = append(out,
			setting{"memory", "memory.max", strconv.FormatInt(l.Memory, 10), false},
			setting{"memory", "memory.swap.max", "0", true},
			// Half a tree is no session: what is over the limit ends as a whole, and at once.
			setting{"memory", "memory.oom.group", "1", false})
	}
	if l.Processes > 0 {
		out = append(out, setting{"pids", "pids.max", strconv.Itoa(l.Processes), false})
	}
	if l.MilliCPU > 0 {
		quota := max(l.MilliCPU*cpuPeriod/1000, cpuMinQuota)
		out = append(out, setting{"cpu", "cpu.max", strconv.Itoa(quota) + " " + strconv.Itoa(cpuPeriod), false})
	}
	return out
}

// controllers are those that the limits need, and the same without the one that
// managers of services often do not hand on.
func (l Limits) controllers() (all, least []string) {
	for _, s := range l.cgroup() {
		if !slices.Contains(all, s.controller) {
			all = append(all, s.controller)
		}
		if s.controller != "cpu" && !slices.Contains(least, s.controller) {
			least = append(least, s.controller)
		}
	}
	return all, least
}

// kept says that a value read back is the one that was written, as the kernel rounds it.
func (s setting) kept(got string) bool {
	if s.file != "memory.max" {
		return got == s.value
	}
	want, err := strconv.ParseInt(s.value, 10, 64)
	now, nerr := strconv.ParseInt(got, 10, 64)
	return err == nil && nerr == nil && now <= want && now > want-16*pageSize
}

// note adds a limit that holds to the report.
func (c *Cgroup) note(s setting) {
	n, _ := strconv.ParseInt(strings.Fields(s.value)[0], 10, 64) // it was rendered above
	switch s.file {
	case "memory.max":
		c.Memory = n
	case "pids.max":
		c.Processes = int(n)
	case "cpu.max":
		c.MilliCPU = int(n * 1000 / cpuPeriod)
	}
}

// hierarchy is where this process stands in the control groups of version 2.
type hierarchy struct {
	mount    string // where the hierarchy is mounted
	own      string // the group of this process, below mount
	readOnly bool
	old      bool // the controllers are bound to hierarchies of version 1
}

// locate reads /proc/self/mountinfo and /proc/self/cgroup. ok is false where the
// own group cannot be seen.
func locate(mountinfo, groups string) (h hierarchy, ok bool) {
	var own string
	for line := range strings.Lines(groups) {
		number, rest, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ":")
		controllers, group, found := strings.Cut(rest, ":")
		switch {
		case !found:
		case number == "0" && controllers == "":
			own = group
		case slices.Contains(strings.Split(controllers, ","), "memory"), slices.Contains(strings.Split(controllers, ","), "pids"):
			h.old = true
		}
	}
	// A group outside of the visible part is told with steps upwards.
	if !strings.HasPrefix(own, "/") || own != path.Clean(own) {
		return h, false
	}
	for line := range strings.Lines(mountinfo) {
		before, after, _ := strings.Cut(line, " - ")
		fields, kind := strings.Fields(before), strings.Fields(after)
		if len(fields) < 6 || len(kind) < 3 || kind[0] != "cgroup2" {
			continue
		}
		root, point := unescape(fields[3]), unescape(fields[4])
		below, found := strings.CutPrefix(own, strings.TrimSuffix(root, "/"))
		if !found || below != "" && below[0] != '/' {
			continue
		}
		h.mount, h.own = point, path.Join(point, below)
		h.readOnly = slices.Contains(strings.Split(fields[5], ","), "ro") || slices.Contains(strings.Split(kind[2], ","), "ro")
		ok = true // the last one lies on top
	}
	return h, ok
}

// unescape reads the octal numbers that mountinfo writes for blanks.
func unescape(s string) string {
	return strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace(s)
}

// count reads one line of a file of names and numbers.
func count(text, name string) int64 {
	for line := range strings.Lines(text) {
		if value, ok := strings.CutPrefix(line, name+" "); ok {
			n, _ := strconv.ParseInt(strings.TrimSpace(value), 10, 64) // 0 is no event
			return n
		}
	}
	return 0
}
