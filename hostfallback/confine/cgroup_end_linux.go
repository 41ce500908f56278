package confine

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// pids are the processes in the group, wherever they are in the tree.
func (c *cgroup) pids() []int {
	if c.dir == "" {
		return nil
	}
	return pidsOf(c.dir)
}

// kill ends everything in the group at once, where the kernel can do that; what
// forks meanwhile is born dead. It returns those of the given processes that were
// in it. Elsewhere the sweep kills one by one.
func (c *cgroup) kill(known []int) []int {
	if c == nil || c.dir == "" || !c.report.Kill {
		return nil
	}
	inside := slices.DeleteFunc(c.pids(), func(pid int) bool { return !slices.Contains(known, pid) })
	if write(c.dir, "cgroup.kill", "1") != nil {
		return nil
	}
	return inside
}

// explain turns the kernel's events into the cause of an end that nobody ordered.
// An end by the runner itself says nothing against them: at the limit of memory
// the whole group is killed, the runner with it.
func (c *cgroup) explain(e *Ended) {
	if c == nil || c.dir == "" || e.Cause != EndSelf {
		return
	}
	if memory, err := read(c.dir, "memory.events"); err == nil && c.report.Memory > 0 && count(memory, "oom_kill") > 0 {
		e.Cause, e.By, e.Used, e.Limit = EndMemory, ByCgroup, c.report.Memory, c.report.Memory
		if peak, err := read(c.dir, "memory.peak"); err == nil { // kernels from 5.19 on
			if n, err := strconv.ParseInt(peak, 10, 64); err == nil {
				e.Used = n
			}
		}
		return
	}
	// A runner that ends by itself with an error after it was refused a process
	// has ended of that. A signal has another sender.
	if refused := c.refusals(); refused > 0 && e.Signal == 0 && e.Status > 0 {
		e.Cause, e.By, e.Used, e.Limit = EndProcesses, ByCgroup, int64(c.report.Processes)+1, int64(c.report.Processes)
	}
}

// refusals is how often a process or thread was refused at the limit.
func (c *cgroup) refusals() int64 {
	if c.report.Processes == 0 {
		return 0
	}
	text, err := read(c.dir, "pids.events")
	if err != nil {
		return 0
	}
	return count(text, "max")
}

// remove ends what is left in the group and removes it, within the time of a
// sweep. What would not die is returned; then the group stays for the next one.
func (c *cgroup) remove() []int {
	if c == nil {
		return nil
	}
	if c.handle != nil {
		_ = c.handle.Close() // a path only
		c.handle = nil
	}
	if c.dir == "" {
		return nil
	}
	left := removeGroup(c.dir)
	if len(left) == 0 {
		c.dir = ""
	}
	return left
}

// removeGroup removes a group with everything in it. Groups below it are none of
// brig's making: code could not, because it does not see the files.
func removeGroup(dir string) []int {
	pause := time.Millisecond
	for deadline := time.Now().Add(sweepTimeout); ; pause = min(2*pause, 50*time.Millisecond) {
		err := unix.Rmdir(dir)
		if err == nil || errors.Is(err, unix.ENOENT) {
			return nil
		}
		pids := pidsOf(dir)
		if time.Now().After(deadline) {
			return pids
		}
		if write(dir, "cgroup.kill", "1") != nil {
			for _, pid := range pids {
				if pid > 0 { // 0 is one that cannot be named, and would be this process's group
					_ = unix.Kill(pid, unix.SIGKILL) // it shows again if it lives
				}
			}
		}
		time.Sleep(pause)
	}
}

// RemoveCgroup ends and removes the control group that a supervisor noted in the
// home of its instance and could not remove, because it was killed. It returns the
// processes that would not die. The note is not trusted further than the name of
// the group, which is the instance's own.
func RemoveCgroup(home, token string) ([]int, error) {
	raw, err := ReadNote(filepath.Join(home, CgroupFile))
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read which control group the instance has: %w", err)
	}
	dir := strings.TrimSpace(string(raw))
	if !filepath.IsAbs(dir) || filepath.Base(dir) != cgroupPrefix+token {
		return nil, fmt.Errorf("the note of the control group names %q, which is not this instance's", dir)
	}
	// A link by this name would lead to a group of others.
	fd, err := unix.Open(dir, unix.O_PATH|unix.O_NOFOLLOW|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.ENOENT) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("the note of the control group names %q: %w", dir, err)
	}
	defer func() { _ = unix.Close(fd) }() // a path only
	var st unix.Statfs_t
	switch err := unix.Fstatfs(fd, &st); {
	case err != nil:
		return nil, os.NewSyscallError("fstatfs", err)
	case st.Type != unix.CGROUP2_SUPER_MAGIC:
		return nil, fmt.Errorf("the note of the control group names %q, which is none", dir)
	}
	return removeGroup(dir), nil
}
