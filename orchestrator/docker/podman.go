package docker

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/mount"
	"github.com/docker/go-units"
)

// profileName begins the name of a file that holds a system call profile for a moment.
const profileName = "brig-seccomp-"

// podmanProcesses is a limit per user of the machine, so it has to hold for all
// sessions together. Without one Podman asks for a limit of its own that is above what
// a service without CAP_SYS_RESOURCE may set, and no container starts.
const podmanProcesses = 4096

// suit changes a request to what the engine takes, and returns what to do once the
// engine has answered. Docker takes a profile of system calls in the request; Podman
// reads it from a file on its own machine while it creates the container. One that is
// elsewhere cannot be given one: it applies its own, and the posture says so.
func (e *engine) suit(host *container.HostConfig, profile string) (done func(), err error) {
	done = func() {}
	if !e.podman {
		return done, nil
	}
	host.Ulimits = append(host.Ulimits, &units.Ulimit{Name: "nproc", Soft: podmanProcesses, Hard: podmanProcesses})
	host.SecurityOpt = append(host.SecurityOpt, "mask="+strings.Join(host.MaskedPaths, ":")) // it leaves the field out
	given := "seccomp=" + profile
	host.SecurityOpt = slices.DeleteFunc(host.SecurityOpt, func(option string) bool { return option == given })
	if !e.transport.local() {
		return done, nil
	}
	file, err := os.CreateTemp("", profileName+"*.json")
	if err != nil {
		return done, fmt.Errorf("write the system call profile for podman: %w", err)
	}
	done = func() { _ = os.Remove(file.Name()) }
	_, err = file.WriteString(profile)
	if failed := file.Close(); err == nil {
		err = failed
	}
	if err != nil {
		done()
		return func() {}, fmt.Errorf("write the system call profile for podman: %w", err)
	}
	host.SecurityOpt = append(host.SecurityOpt, "seccomp="+file.Name())
	return done, nil
}

// isProfile tells whether a security option that an engine reports is a profile of
// brig's: the text itself, or from Podman the file that it was read from.
func (e *engine) isProfile(option string) bool {
	value, ok := strings.CutPrefix(option, "seccomp=")
	return ok && (strings.HasPrefix(value, "{") || e.podman && strings.HasPrefix(filepath.Base(value), profileName))
}

// readBack is what the engine says about a container, in Docker's words.
func (e *engine) readBack(ctx context.Context, id string) (container.InspectResponse, error) {
	found, err := e.cli.ContainerInspect(ctx, id)
	if err != nil || !e.podman || found.ContainerJSONBase == nil || found.HostConfig == nil {
		return found, err
	}
	inDockersWords(found)
	return found, nil
}

// inDockersWords undoes what Podman only names differently. What it does not tell,
// such as whether the input ends with the stream, stays untold.
func inDockersWords(found container.InspectResponse) {
	host := found.HostConfig
	// A mount that was asked for is told as a bind, which Docker keeps apart.
	host.Binds = slices.DeleteFunc(host.Binds, func(bind string) bool {
		source, target, _ := strings.Cut(bind, ":")
		target, options, _ := strings.Cut(target, ":")
		told := slices.ContainsFunc(found.Mounts, func(m container.MountPoint) bool {
			return m.Type == mount.TypeBind && m.Source == source && m.Destination == target
		})
		if told {
			host.Mounts = append(host.Mounts, mount.Mount{
				Type: mount.TypeBind, Source: source, Target: target, ReadOnly: slices.Contains(strings.Split(options, ","), "ro"),
			})
		}
		return told
	})
	if host.IpcMode == container.IPCModeShareable { // a namespace of its own; Podman has no word for one that nobody may join
		host.IpcMode = container.IPCModePrivate
	}
	if found.Config != nil && found.Config.StopSignal == "9" {
		found.Config.StopSignal = "SIGKILL"
	}
}

// removeAgain is how often Podman is asked to remove a container that ends meanwhile.
const removeAgain = 20

// ends tells whether a refusal to remove may be about a container that is ending just
// now: Podman finds it running, and then has nothing left to stop. It says so with the
// error of everything that fails inside it, so the question is asked again for a while.
func (e *engine) ends(ctx context.Context, err error, times int) bool {
	if !e.podman || !errdefs.IsInternal(err) || times >= removeAgain {
		return false
	}
	again := time.NewTimer(25 * time.Millisecond)
	defer again.Stop()
	select {
	case <-again.C:
		return true
	case <-ctx.Done():
		return false
	}
}
