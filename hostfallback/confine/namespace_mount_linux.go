package confine

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// mounts gives the helper its own view of the file system.
func (h *helper) mounts() error {
	switch n := h.report.Namespaces; {
	case !h.report.Namespace.Applied:
		return nil
	case n.Root.Applied:
		return h.root()
	default:
		if err := h.guard(); err != nil {
			return failure(StageNamespace, err)
		}
		if n.Process.Applied && !h.plan.without("proc") {
			if err := mountProc("/proc"); err != nil {
				return failure(StageProc, err)
			}
		}
		return h.hide()
	}
}

// hide covers parts of /proc where there is no private root.
func (h *helper) hide() error {
	v := h.look()
	if h.plan.Zygote != nil {
		return nil
	}
	if err := os.Chdir("/"); err != nil {
		return failure(StageNamespace, err)
	}
	for _, s := range hide(v) {
		if err := s.take("/"); err != nil {
			return failure(StageNamespace, fmt.Errorf("%s %s: %w", s.Op, s.Path, err))
		}
	}
	return nil
}

// guard is the view where there is no private root: everything is read-only except workspace and scratch, and shared memory is private. That
// closes what Landlock does not see (owner, mode, times and attributes of every
// file of the user) and lets multiprocessing have its semaphores.
func (h *helper) guard() error {
	writable := []string{h.plan.Workspace, h.plan.Scratch}
	for _, dir := range writable {
		if err := mount(dir, dir, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
			return err
		}
	}
	const shm = shmRoot
	if _, err := os.Stat(shm); err == nil && !h.plan.without("shm") {
		options := inMemoryOptions(max(h.plan.Limits.Memory/2, sizeRoot), h.plan.Limits.inodes()) + ",mode=1777"
		if err := mount("tmpfs", shm, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, options); err != nil {
			return err
		}
		h.report.PrivateShm, h.own = true, []string{shm}
		writable = append(writable, shm)
	}
	readOnly := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY | unix.MOUNT_ATTR_NOSUID}
	if err := mountAttr("/", unix.AT_RECURSIVE, readOnly); err != nil {
		return err
	}
	for _, dir := range writable {
		if err := mountAttr(dir, 0, unix.MountAttr{Attr_set: unix.MOUNT_ATTR_NODEV, Attr_clr: unix.MOUNT_ATTR_RDONLY}); err != nil {
			return err
		}
	}
	return nil
}

// mountProc mounts the /proc of the own process namespace, which shows nothing of
// the processes outside. The kernel refuses that where parts of the /proc that
// is there are covered, because a fresh one would show them.
func mountProc(at string) error {
	if err := mount("proc", at, "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		return err
	}
	if err := mountAttr(at, 0, unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY}); err != nil {
		return err
	}
	if self, err := os.Readlink(at + "/self"); err != nil || self != "1" {
		return errors.Join(err, fmt.Errorf("/proc says that this is process %q", self))
	}
	return nil
}

func mount(source, target, kind string, flags uintptr, data string) error {
	if err := unix.Mount(source, target, kind, flags, data); err != nil {
		return fmt.Errorf("mount %s: %w", target, err)
	}
	return nil
}

func mountAttr(target string, flags uint, a unix.MountAttr) error {
	if err := unix.MountSetattr(unix.AT_FDCWD, target, flags, &a); err != nil {
		return fmt.Errorf("set mount attributes of %s: %w", target, err)
	}
	return nil
}
