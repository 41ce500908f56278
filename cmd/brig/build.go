package main

import (
	"crypto/sha256"
	"fmt"
	"io"
	"os"
)

// runningFile is this program's own file where the system has such a name: right also
// after another build has taken its place.
const runningFile = "/proc/self/exe"

// readBuild names this build in what outlives it: what another build saw is not about
// this one. A version is shared by many; the commit is not, if nothing was changed
// since, and where that is not known the program's own bytes tell.
func readBuild() string {
	v := readVersion()
	if v.Commit != "" && !v.Modified {
		return fmt.Sprintf("%s (commit %.12s)", v.Version, v.Commit)
	}
	f, err := os.Open(runningFile)
	if err != nil {
		name, unnamed := os.Executable()
		if unnamed != nil {
			return v.Version
		}
		if f, err = os.Open(name); err != nil {
			return v.Version
		}
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return v.Version
	}
	return fmt.Sprintf("%s (sha256 %.12x)", v.Version, h.Sum(nil)[:6])
}
