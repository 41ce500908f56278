//go:build !unix

package server

import (
	"fmt"
	"os"
)

// ownPlace makes sure that the runtime directory is one; the directories of a
// profile are closed to other users unless somebody opened them on purpose.
func ownPlace(dir string) error {
	info, err := os.Stat(dir)
	if err != nil {
		return fmt.Errorf("look at the runtime directory: %w", err)
	}
	if !info.IsDir() {
		return fmt.Errorf("the runtime directory %s is none", dir)
	}
	return nil
}
