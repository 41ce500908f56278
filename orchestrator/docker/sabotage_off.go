//go:build !brig_sabotage

package docker

import "github.com/docker/docker/api/types/container"

// sabotaged is nothing in a brig that ships. Built with the tag brig_sabotage, it
// says which parts of a container's hardening are left out, so that the self-test
// can be seen to find that.
type sabotaged struct{}

func (sabotaged) spoil(*container.Config, *container.HostConfig) {}
