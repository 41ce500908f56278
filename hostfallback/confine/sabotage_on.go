//go:build brig_sabotage

package confine

import "slices"

// sabotaged names what is left out; see sabotage_off.go.
type sabotaged struct {
	Sabotage []string `json:"sabotage,omitempty"`
}

// Sabotages are the names that supervisor and helper know.
func Sabotages() []string {
	return []string{"landlock", "seccomp", "namespaces", "nnp", "caps", "fds", "rlimits", "watch", "tree-kill"}
}

func (s sabotaged) without(name string) bool { return slices.Contains(s.Sabotage, name) }
