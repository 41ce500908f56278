package docker

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strings"

	"brig/orchestrator/workspace"
)

// placing is how a workspace gets into a container on this engine, and as whom
// code runs there:
//
//	engine on this machine, ordinary user   bind, as that user: what code writes is the user's own
//	engine on this machine, brig as root    bind, as 65532, to whom the directory is given
//	rootless engine of this user            bind, as 0, which is that user outside and has no capability
//	engine that maps users, or elsewhere    a tmpfs of its own, as 65532; files travel in the runner's frames
type placing struct {
	bind   bool
	user   user
	reason string // why it is not bound
}

func (e *engine) placing() placing { return placeFor(e, os.Getuid(), os.Getgid()) }

func placeFor(e *engine, uid, gid int) placing {
	switch {
	case !e.transport.local():
		return placing{user: sandboxUser(), reason: "the engine is reached over the network and cannot see this machine's directories"}
	case e.secures("userns"):
		return placing{user: sandboxUser(), reason: "the engine maps users, so a bound directory would belong to nobody brig knows"}
	case uid > 0 && e.secures("rootless"):
		return placing{bind: true, user: user{0, 0}}
	case uid > 0:
		return placing{bind: true, user: user{uid, gid}}
	default: // root, or a system without numeric users, where the engine's own machine maps ownership
		return placing{bind: true, user: sandboxUser()}
	}
}

func (p placing) describe() string {
	if p.bind {
		return "bound, as user " + p.user.String()
	}
	return "in memory, as user " + p.user.String() + ": " + p.reason
}

// secures tells whether the engine lists a security option, such as seccomp.
func (e *engine) secures(name string) bool {
	return slices.ContainsFunc(e.info.SecurityOptions, func(option string) bool {
		return option == "name="+name || strings.HasPrefix(option, "name="+name+",")
	})
}

func (e *engine) runtimes() []string {
	var names []string
	for name := range e.info.Runtimes {
		names = append(names, printable(name))
	}
	sort.Strings(names)
	return names
}

// workspaceFor checks the directory and, where brig is root, gives it to who runs code.
func (p placing) workspaceFor(directory string) (place, error) {
	info, err := os.Stat(directory)
	if err != nil {
		return place{}, fmt.Errorf("look at the workspace: %w", err)
	}
	if !info.IsDir() {
		return place{}, fmt.Errorf("look at the workspace: %s is not a directory", directory)
	}
	if !p.bind {
		return place{}, nil
	}
	resolved, err := resolve(directory)
	if err != nil {
		return place{}, err
	}
	if os.Getuid() == 0 {
		if err := workspace.Give(resolved, p.user.uid, p.user.gid); err != nil {
			return place{}, err
		}
	}
	return place{directory: resolved}, nil
}

// resolve is the path under which the engine is given a directory.
func resolve(directory string) (string, error) {
	absolute, err := filepath.Abs(directory)
	if err != nil {
		return "", fmt.Errorf("resolve the workspace: %w", err)
	}
	resolved, err := filepath.EvalSymlinks(absolute)
	if err != nil {
		return "", fmt.Errorf("resolve the workspace: %w", err)
	}
	return resolved, nil
}
