package confine

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// rootDir is where in the instance's directory the private root grows.
const rootDir = "root"

// root makes the private root and checks that it is what was to be made.
func (h *helper) root() error {
	if err := h.grow(); err != nil {
		return failure(StageRoot, err)
	}
	return nil
}

func (h *helper) grow() error {
	v := h.look()
	v.Process = h.report.Namespaces.Process.Applied && !h.plan.without("proc")
	v.Bare = h.plan.Zygote != nil
	v.SharedShm = h.plan.without("shm")
	steps := h.plan.Root(v)
	base := filepath.Join(h.plan.Home, rootDir)
	if err := os.Mkdir(base, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	if err := os.Chdir(base); err != nil {
		return err
	}
	unix.Umask(0) // the session's own comes later
	for _, s := range steps {
		if err := s.take(base); err != nil {
			f := failure(StageRoot, fmt.Errorf("%s %s: %w", s.Op, s.Path, err))
			if s.Op == OpProc {
				f.Stage = StageProc
			}
			return f
		}
	}
	if err := compare(Mounted(steps)); err != nil {
		return err
	}
	for _, s := range steps {
		if s.Op == OpTmpfs && s.Mode == modeShared {
			h.own = append(h.own, s.Path)
		}
	}
	h.report.PrivateShm = slices.Contains(h.own, shmRoot)
	h.report.Namespaces.Unprotected = h.plan.Unprotected(v)
	return nil
}

// take does one step. The working directory is base, where the new root grows.
func (s Step) take(base string) error {
	at := "." + s.Path
	switch s.Op {
	case OpTmpfs:
		flags := uintptr(unix.MS_NOSUID | unix.MS_NODEV)
		if slices.Contains(s.Attrs, NoExec) {
			flags |= unix.MS_NOEXEC
		}
		options := inMemoryOptions(s.Size, s.Inodes) + ",mode=" + strconv.FormatUint(uint64(s.Mode), 8)
		if err := unix.Mount("tmpfs", at, "tmpfs", flags, options); err != nil {
			return err
		}
		if s.Path == "/" { // what follows is below what was mounted, not below what it covers
			return os.Chdir(base)
		}
		return nil
	case OpDir:
		return unix.Mkdir(at, s.Mode)
	case OpFile:
		return unix.Mknod(at, unix.S_IFREG|0o444, 0)
	case OpLink:
		return unix.Symlink(s.Source, at)
	case OpMode:
		return unix.Chmod(at, s.Mode)
	case OpBind:
		return unix.Mount(s.Source, at, "", unix.MS_BIND|unix.MS_REC, "")
	case OpSelf:
		return unix.Mount(at, at, "", unix.MS_BIND|unix.MS_REC, "")
	case OpAttr:
		return unix.MountSetattr(unix.AT_FDCWD, at, unix.AT_RECURSIVE, &unix.MountAttr{Attr_set: bits(s.Attrs)})
	case OpOpen:
		return unix.MountSetattr(unix.AT_FDCWD, at, 0, &unix.MountAttr{Attr_clr: unix.MOUNT_ATTR_RDONLY})
	case OpProc:
		return mountProc(at)
	case OpPivot:
		return unix.PivotRoot(".", ".")
	case OpLeave:
		if err := unix.Unmount(".", unix.MNT_DETACH); err != nil { // the old root lies on the new one
			return err
		}
		return os.Chdir("/")
	}
	return fmt.Errorf("BUG: no step %q", s.Op)
}

func bits(attrs []Attr) (set uint64) {
	for _, a := range attrs {
		set |= map[Attr]uint64{
			ReadOnly: unix.MOUNT_ATTR_RDONLY, NoSuid: unix.MOUNT_ATTR_NOSUID,
			NoDev: unix.MOUNT_ATTR_NODEV, NoExec: unix.MOUNT_ATTR_NOEXEC,
		}[a]
	}
	return set
}

// compare reads the table of mounts: nothing may be in it that was not meant to
// be there, and nothing may be writable that was meant to be read-only.
func compare(want map[string]bool) error {
	f, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // opened for reading
	found := make(map[string]bool)
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20) // the options of a layered file system are long
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) < 6 {
			return fmt.Errorf("the table of mounts says %q", lines.Text())
		}
		at := unescape(fields[4])
		if found[at] {
			continue // it covers another one, and only the upper one can be reached
		}
		found[at] = true
		of := at
		for ; of != "/"; of = filepath.Dir(of) {
			if _, known := want[of]; known {
				break
			}
		}
		if of == "/" && at != "/" {
			return fmt.Errorf("something is mounted at %s", at)
		}
		var st unix.Statfs_t
		if err := unix.Statfs(at, &st); want[of] && (err != nil || st.Flags&unix.ST_RDONLY == 0) {
			return errors.Join(err, fmt.Errorf("%s can be written to", at))
		}
	}
	if err := lines.Err(); err != nil {
		return err
	}
	for at := range want {
		if !found[at] {
			return fmt.Errorf("nothing is mounted at %s", at)
		}
	}
	return nil
}
