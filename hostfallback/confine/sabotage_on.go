//go:build brig_sabotage

package confine

import "slices"

// sabotaged names what is left out; see sabotage_off.go.
type sabotaged struct {
	Sabotage []string `json:"sabotage,omitempty"`
}

// Sabotages are the names that supervisor and helper know. The parts of the namespace
// sandbox have one each: the private root, the process namespace with its /proc, the
// network stack, the private /proc alone, the control group, and the private /dev/shm.
func Sabotages() []string {
	return []string{
		"landlock", "seccomp", "namespaces", "root", "pidns", "netns", "proc", "shm",
		"cgroup", "nnp", "caps", "fds", "rlimits", "watch", "tree-kill",
	}
}

func (s sabotaged) without(name string) bool { return slices.Contains(s.Sabotage, name) }
