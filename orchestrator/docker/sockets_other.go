//go:build !linux && !darwin && !windows

package docker

import (
	"errors"
	"fmt"
)

func sockets(environment) ([]string, error) {
	return nil, fmt.Errorf("list the usual places of an engine: %w", errors.ErrUnsupported)
}

func homeDir(env environment) string { return env.get("HOME") }

const (
	startCommand      = "docker version"
	restartCommand    = "docker version"
	permissionCommand = "docker version"
)
