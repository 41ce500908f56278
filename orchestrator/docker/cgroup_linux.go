package docker

import (
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/docker/docker/api/types/container"
)

// watchCounters opens the container's counters, if this machine has them. They are
// evidence on top: without them the instance is no Meter and everything else holds.
func (x *box) watchCounters(inspect container.InspectResponse) {
	if !x.engine.transport.local() || inspect.ContainerJSONBase == nil || inspect.State == nil {
		return
	}
	if m, err := openMeter("/proc", "", inspect.State.Pid, x.id); err == nil {
		x.meter = m
	}
}

var (
	errNotNamed    = errors.New("the control group is not named after the container")
	errNotVisible  = errors.New("the control group is not mounted where it can be read")
	errNoHierarchy = errors.New("no control group with memory accounting is mounted")
)

// openMeter finds the control groups of a container by its first process. proc is
// the directory of /proc, and under goes before every path that it tells: "" but
// for a recorded tree.
//
// The pid is the engine's word, and may mean another process in this /proc (an
// engine in a pid namespace of its own): only a group that bears the container's
// id counts, and nobody else can give a group that name.
func openMeter(proc, under string, pid int, id string) (*meter, error) {
	if pid <= 0 {
		return nil, errNotVisible
	}
	mounts, err := os.ReadFile(filepath.Join(proc, "self", "mountinfo"))
	if err != nil {
		return nil, fmt.Errorf("read the mounts: %w", err)
	}
	groups, err := os.ReadFile(filepath.Join(proc, strconv.Itoa(pid), "cgroup"))
	if err != nil {
		return nil, fmt.Errorf("read the control groups of the container: %w", err)
	}
	where := locate(string(mounts), string(groups))
	m := &meter{}
	for _, h := range []struct {
		memory, forks, file, source string
	}{
		{"memory", "pids", "memory.oom_control", "cgroup v1 memory.oom_control"},
		{"", "", "memory.events", "cgroup v2 memory.events"},
	} {
		directory, err := where.directory(h.memory, id)
		if err != nil {
			continue
		}
		m.source = h.source
		if m.memory, err = os.Open(filepath.Join(under, directory, h.file)); err != nil {
			continue // on a hybrid machine the second hierarchy has no memory in it
		}
		if directory, err = where.directory(h.forks, id); err == nil {
			m.forks, _ = os.Open(filepath.Join(under, directory, "pids.events")) // without it they are not counted
		}
		if _, err := m.read(); err != nil {
			m.close()
			return nil, err
		}
		return m, nil
	}
	_, err = where.directory("memory", id)
	if _, second := where.directory("", id); second == nil || !errors.Is(second, errNoHierarchy) {
		err = second
	}
	if err == nil {
		err = errNotVisible
	}
	return nil, err
}

// hierarchies is where each controller's groups are mounted and which group the
// process is in; "" is the one hierarchy of cgroup v2.
type hierarchies map[string]*hierarchy

type hierarchy struct {
	root, mount string // the group that is mounted, and where
	group       string // of the process, from the root of the reader's view
}

// locate reads mountinfo and /proc/PID/cgroup.
func locate(mountinfo, groups string) hierarchies {
	out := hierarchies{}
	for line := range strings.Lines(mountinfo) {
		before, after, found := strings.Cut(line, " - ")
		front, back := strings.Fields(before), strings.Fields(after)
		if !found || len(front) < 5 || len(back) < 3 {
			continue
		}
		names := []string{""}
		switch back[0] {
		case "cgroup":
			names = strings.Split(back[2], ",")
		case "cgroup2":
		default:
			continue
		}
		for _, name := range names {
			if out[name] == nil { // the first mount is the one that others may hide parts of
				out[name] = &hierarchy{root: unescape(front[3]), mount: unescape(front[4])}
			}
		}
	}
	for line := range strings.Lines(groups) {
		parts := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3)
		if len(parts) != 3 {
			continue
		}
		for _, name := range strings.Split(parts[1], ",") {
			if h := out[name]; h != nil {
				h.group = parts[2]
			}
		}
	}
	return out
}

// unescape undoes what the kernel does to blanks in mountinfo.
func unescape(s string) string {
	return strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace(s)
}

// directory is where the container's own group of a controller can be read.
func (h hierarchies) directory(controller, id string) (string, error) {
	one := h[controller]
	if one == nil || one.group == "" {
		return "", errNoHierarchy
	}
	group, ok := groupOf(one.group, id)
	if !ok {
		return "", errNotNamed
	}
	if one.root != "/" {
		inside, found := strings.CutPrefix(group, one.root)
		if !found || inside != "" && inside[0] != '/' {
			return "", errNotVisible
		}
		group = inside
	}
	return path.Join(one.mount, group), nil
}

// groupOf cuts a group's path behind the part that is the container's: the id
// itself with the cgroupfs driver, a scope named after it with systemd's. Some
// runtimes keep the processes in a group below that one.
func groupOf(group, id string) (string, bool) {
	parts := strings.Split(group, "/")
	end := 0
	for n, part := range parts {
		if part == ".." { // above what this process may see
			return "", false
		}
		scope, isScope := strings.CutSuffix(part, ".scope")
		_, scoped := strings.CutSuffix(scope, "-"+id)
		if part == id || isScope && scoped {
			end = n + 1
		}
	}
	return strings.Join(parts[:end], "/"), end > 0
}
