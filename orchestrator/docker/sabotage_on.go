//go:build brig_sabotage

package docker

import (
	"os"
	"slices"
	"strings"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/mount"
)

// sabotaged is what is left out of a container's hardening; see sabotage_off.go.
type sabotaged struct {
	// Sabotage are names of Sabotages, of which bind and device have a path behind a "=".
	Sabotage []string
	// Environ is what the container gets in addition with "env".
	Environ func() []string
}

// Sabotages are the names that a container knows.
func Sabotages() []string {
	return []string{
		"seccomp", "nnp", "caps", "user", "network-host", "network-bridge", "rootfs", "pid-host", "ipc-host",
		"memory", "pids", "cpu", "ulimits", "masked-paths", "bind", "device", "env",
	}
}

// spoil takes the named parts away from what was about to be asked for. What came of
// it is read back as ever.
func (s sabotaged) spoil(config *container.Config, host *container.HostConfig) {
	without := func(prefix string) {
		host.SecurityOpt = slices.DeleteFunc(host.SecurityOpt, func(o string) bool { return strings.HasPrefix(o, prefix) })
	}
	for _, entry := range s.Sabotage {
		name, path, _ := strings.Cut(entry, "=")
		switch name {
		case "seccomp":
			without("seccomp=")
			host.SecurityOpt = append(host.SecurityOpt, "seccomp=unconfined")
		case "nnp":
			without("no-new-privileges")
		case "caps":
			host.CapDrop = nil
		case "user":
			config.User = "0:0"
			// Without capabilities not even root could enter what is another's.
			for at, options := range host.Tmpfs {
				plain, _, _ := strings.Cut(options, ",mode=")
				host.Tmpfs[at] = plain + ",mode=0700,uid=0,gid=0"
			}
			for _, m := range host.Mounts {
				_ = os.Chmod(m.Source, 0o777) // where that fails, the start does
			}
		case "network-host":
			host.NetworkMode, host.ExtraHosts, host.DNS, host.DNSSearch = "host", nil, nil, nil
		case "network-bridge":
			host.NetworkMode, host.DNS, host.DNSSearch = "bridge", nil, nil
		case "rootfs":
			host.ReadonlyRootfs = false
		case "pid-host":
			host.PidMode = "host"
		case "ipc-host":
			host.IpcMode = container.IPCModeHost
		case "memory":
			host.Memory, host.MemorySwap = 0, 0
		case "pids":
			host.PidsLimit = nil
		case "cpu":
			host.NanoCPUs = 0
		case "ulimits":
			host.Ulimits = nil
		case "masked-paths":
			host.MaskedPaths, host.ReadonlyPaths = []string{}, []string{}
		case "bind":
			host.Mounts = append(host.Mounts, mount.Mount{Type: mount.TypeBind, Source: path, Target: path})
		case "device":
			host.Devices = append(host.Devices, container.DeviceMapping{PathOnHost: path, PathInContainer: path, CgroupPermissions: "rwm"})
		case "env":
			config.Env = append(config.Env, s.Environ()...)
		}
	}
}
