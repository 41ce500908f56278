package selftest

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// devices are those that this process can open, of a list on which opening and
// closing does nothing by itself.
func devices() []string {
	open := []string{}
	for _, path := range []string{
		"/dev/fuse", "/dev/kvm", "/dev/net/tun", "/dev/vhost-net", "/dev/vhost-vsock", "/dev/vsock", "/dev/loop-control",
		"/dev/mapper/control", "/dev/btrfs-control", "/dev/userfaultfd", "/dev/kmsg", "/dev/mem", "/dev/uinput",
		"/dev/input/event0", "/dev/dri/renderD128", "/dev/dri/card0", "/dev/snd/seq", "/dev/hwrng",
	} {
		fd, err := unix.Open(path, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
		if err != nil {
			continue
		}
		_ = unix.Close(fd)
		open = append(open, path)
	}
	return open
}

const mostMounts = 64 // that are told

// machineMounts are mounts that tell something of this machine, as "MAJOR:MINOR PLACE". Those that every session
// has in some form, and trees of programs that it may be given, are not among them.
func machineMounts() []string {
	raw, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil
	}
	told := []string{}
	for line := range strings.Lines(string(raw)) {
		fields := strings.Fields(line)
		if len(fields) < 5 || len(told) == mostMounts {
			continue
		}
		place := fields[4]
		if first, _, _ := strings.Cut(strings.TrimPrefix(place, "/"), "/"); !slices.Contains([]string{
			"", "proc", "sys", "dev", "usr", "bin", "sbin", "lib", "lib64", "opt", "nix", "gnu", "tmp",
		}, first) && !slices.Contains([]string{"/etc/hosts", "/etc/hostname", "/etc/resolv.conf"}, place) {
			told = append(told, fields[2]+" "+place)
		}
	}
	return told
}

// kernelBoot names this run of this machine's kernel; another answers another name.
func kernelBoot() string {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(id))
}

// serviceSockets are where the services of a desktop and of an engine listen.
func serviceSockets(env map[string]string) []string {
	runtime := env["XDG_RUNTIME_DIR"]
	if runtime == "" {
		runtime = fmt.Sprintf("/run/user/%d", os.Getuid())
	}
	paths := []string{
		"/var/run/docker.sock", "/run/docker.sock", "/run/podman/podman.sock", "/run/containerd/containerd.sock", "/run/dbus/system_bus_socket",
		"/tmp/.X11-unix/X0", filepath.Join(runtime, "bus"), filepath.Join(runtime, "wayland-0"), filepath.Join(runtime, "docker.sock"),
		filepath.Join(runtime, "podman", "podman.sock"), env["SSH_AUTH_SOCK"],
		strings.TrimPrefix(env["DOCKER_HOST"], "unix://"),
	}
	if path, ok := strings.CutPrefix(env["DBUS_SESSION_BUS_ADDRESS"], "unix:path="); ok {
		path, _, _ = strings.Cut(path, ",")
		paths = append(paths, path)
	}
	if name := env["WAYLAND_DISPLAY"]; name != "" {
		if !filepath.IsAbs(name) {
			name = filepath.Join(runtime, name)
		}
		paths = append(paths, name)
	}
	if number, ok := strings.CutPrefix(env["DISPLAY"], ":"); ok {
		number, _, _ = strings.Cut(number, ".")
		paths = append(paths, "/tmp/.X11-unix/X"+number)
	}
	absolute := paths[:0]
	for _, path := range paths {
		// One that this user may not connect to proves nothing when code may not either.
		if filepath.IsAbs(path) && unix.Access(path, unix.W_OK) == nil {
			absolute = append(absolute, path)
		}
	}
	return absolute
}

func (y *yard) listenAbstract() any {
	name := strayName + y.token
	if y.heard.stream("unix", "@"+name) == nil {
		return nil
	}
	return name
}

// inode is what the system notes of every change of a file, its attributes included.
func inode(info fs.FileInfo) string {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return ""
	}
	return fmt.Sprintf("%d:%d %d %d.%d", st.Uid, st.Gid, st.Nlink, st.Ctim.Sec, st.Ctim.Nsec)
}
