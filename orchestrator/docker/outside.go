package docker

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// outside is what this machine shows of a container's first process, where it is
// the engine's machine. Nothing inside can forge it. Empty where it cannot be read:
// another machine, another control group layout, or no Linux.
type outside struct {
	groups map[string]string // control file → trimmed content, v1 or v2
	label  string            // of the security module
}

// maxControl bounds what is read of a control file.
const maxControl = 4096

// lookFromOutside reads below root, which is / but in tests. A socket on this
// machine can lead into a virtual one, where pid is somebody else's number: so the
// control group has to carry the container's id.
func lookFromOutside(root string, pid int, id string) outside {
	if pid <= 0 || len(id) < 12 {
		return outside{}
	}
	process := filepath.Join(root, "proc", strconv.Itoa(pid))
	found := outside{groups: map[string]string{}}
	for _, line := range strings.Split(control(filepath.Join(process, "cgroup")), "\n") {
		fields := strings.SplitN(line, ":", 3)
		if len(fields) != 3 || !strings.Contains(fields[2], id) || strings.Contains(fields[2], "..") {
			continue
		}
		group := filepath.Join(root, "sys/fs/cgroup", fields[1], fields[2])
		if strings.HasPrefix(fields[1], "name=") {
			continue
		}
		for _, name := range limitFiles() {
			if value := control(filepath.Join(group, name)); value != "" {
				found.groups[name] = value
			}
		}
	}
	if len(found.groups) > 0 {
		found.label = strings.Trim(control(filepath.Join(process, "attr/current")), "\x00")
	}
	return found
}

// limitFiles are the control files that hold a limit, of both versions.
func limitFiles() []string {
	return []string{
		"pids.max", "memory.max", "memory.swap.max", "memory.limit_in_bytes", "memory.memsw.limit_in_bytes",
		"cpu.max", "cpu.cfs_quota_us", "cpu.cfs_period_us",
	}
}

// control is the trimmed content of a small file; empty where there is none.
func control(name string) string {
	f, err := os.Open(name)
	if err != nil {
		return ""
	}
	defer f.Close()
	text := make([]byte, maxControl)
	n, _ := f.Read(text) // no content and no file are the same here
	return strings.TrimSpace(string(text[:n]))
}
