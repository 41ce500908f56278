//go:build !unix && !windows

package config

import "errors"

func findPaths(func(string) (string, bool)) (Paths, *Problem) {
	return Paths{}, &Problem{Text: "brig does not know where files belong on this system", Err: errors.ErrUnsupported}
}
