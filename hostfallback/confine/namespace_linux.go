package confine

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// cloneNamespaces are the namespaces that an instance gets where this user may
// make them: users, to be allowed the others; mounts; System V objects.
const cloneNamespaces = unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_NEWIPC

// namespace gives the helper its own view of the file system: everything is
// read-only except workspace and scratch, and shared memory is private. That
// closes what Landlock does not see (owner, mode, times and attributes of every
// file of the user) and lets multiprocessing have its semaphores.
func (h *helper) namespace() error {
	h.report.Namespace = h.order.Namespace
	if !h.order.Namespace.Applied {
		return nil
	}
	mount := func(source, target, kind string, flags uintptr, data string) error {
		if err := unix.Mount(source, target, kind, flags, data); err != nil {
			return fmt.Errorf("mount %s: %w", target, err)
		}
		return nil
	}
	attr := func(target string, flags uint, a unix.MountAttr) error {
		if err := unix.MountSetattr(unix.AT_FDCWD, target, flags, &a); err != nil {
			return fmt.Errorf("set mount attributes of %s: %w", target, err)
		}
		return nil
	}
	if err := mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return err
	}
	writable := []string{h.plan.Workspace, h.plan.Scratch}
	for _, dir := range writable {
		if err := mount(dir, dir, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
			return err
		}
	}
	const shm = "/dev/shm"
	if _, err := os.Stat(shm); err == nil {
		size := "size=" + strconv.FormatInt(max(h.plan.Limits.Memory/2, 1<<20), 10)
		if err := mount("tmpfs", shm, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, size+",mode=1777"); err != nil {
			return err
		}
		h.report.PrivateShm = true
		writable = append(writable, shm)
	}
	readOnly := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY | unix.MOUNT_ATTR_NOSUID}
	if err := attr("/", unix.AT_RECURSIVE, readOnly); err != nil {
		return err
	}
	for _, dir := range writable {
		if err := attr(dir, 0, unix.MountAttr{Attr_set: unix.MOUNT_ATTR_NODEV, Attr_clr: unix.MOUNT_ATTR_RDONLY}); err != nil {
			return err
		}
	}
	return nil
}

// refusedNamespace says why the kernel gave no namespaces, from its answer to
// the attempt and the switches that distributions have for it.
func refusedNamespace(err error, mounting bool) Layer {
	l := Layer{Code: CodeUsernsRefused, Errno: errnoName(err)}
	sysctl := func(name string) string {
		raw, err := os.ReadFile("/proc/sys/" + name)
		if err != nil {
			return ""
		}
		return strings.TrimSpace(string(raw))
	}
	switch {
	case sysctl("kernel/apparmor_restrict_unprivileged_userns") == "1":
		l.Code = CodeUsernsAppArmor
	case sysctl("user/max_user_namespaces") == "0", sysctl("kernel/unprivileged_userns_clone") == "0":
		l.Code = CodeUsernsSysctl
	case mounting && errors.Is(err, unix.ENOSYS):
		l.Code = CodeMountOldKernel
	case mounting:
		l.Code = CodeMountRefused
	}
	return l
}

func errnoName(err error) string {
	if errno := unix.Errno(0); errors.As(err, &errno) {
		return unix.ErrnoName(errno)
	}
	return ""
}
