package docker

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// lookFromOutside reads the limits and the label of a container's first process.
// proc and under are those of openMeter, and so is what pid is worth: only a group
// that bears the container's id counts, and without one nothing does.
func lookFromOutside(proc, under string, pid int, id string) outside {
	if pid <= 0 {
		return outside{}
	}
	process := filepath.Join(proc, strconv.Itoa(pid))
	where := locate(control(filepath.Join(proc, "self", "mountinfo")), control(filepath.Join(process, "cgroup")))
	found := outside{groups: map[string]string{}}
	for controller, names := range limitFiles() {
		directory, err := where.directory(controller, id)
		if err != nil {
			continue
		}
		for _, name := range names {
			if value := control(filepath.Join(under, directory, name)); value != "" {
				found.groups[name] = value
			}
		}
	}
	if len(found.groups) > 0 {
		found.label = strings.Trim(control(filepath.Join(process, "attr/current")), "\x00\n ")
	}
	return found
}

// control is the trimmed content of a file of the kernel; what cannot be read is no evidence.
func control(name string) string {
	text, err := os.ReadFile(name)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(text))
}
