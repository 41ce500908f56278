//go:build !linux

package confine

// RemoveCgroup has nothing to remove: only Linux has control groups.
func RemoveCgroup(string, string) ([]int, error) { return nil, nil }
