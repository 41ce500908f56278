package confine

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// cgroup is the control group of one instance. Without one, dir is empty or the
// pointer nil, and every method does nothing.
type cgroup struct {
	dir    string
	handle *os.File // a path only, to be born into
	report Cgroup
}

// makeCgroup makes a group for the instance, as near to brig's own as the machine
// allows, and sets the limits. What is missing is told by the report; a machine
// without any of it is an ordinary one.
func makeCgroup(p Plan) *cgroup {
	c := &cgroup{}
	parent, layer := findParent(p.Limits)
	c.report.Layer = layer
	if parent == "" {
		return c
	}
	if err := c.make(p, parent); err != nil {
		c.remove()
		c.report = Cgroup{Layer: Layer{Code: CodeCgroupRefused, Errno: errnoName(err)}}
	}
	return c
}

func (c *cgroup) make(p Plan, parent string) error {
	dir := filepath.Join(parent, cgroupPrefix+p.Token)
	// First the note, so that nothing is ever made that nobody finds again.
	if err := os.WriteFile(filepath.Join(p.Home, CgroupFile), []byte(dir), 0o600); err != nil {
		return err
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	c.dir = dir
	var err error
	if c.handle, err = os.OpenFile(dir, unix.O_PATH|unix.O_DIRECTORY, 0); err != nil {
		return err
	}
	c.report.Path = dir
	if h, ok := standing(); ok {
		c.report.Path = strings.TrimPrefix(dir, h.mount)
	}
	c.report.Kill = unix.Access(filepath.Join(dir, "cgroup.kill"), unix.W_OK) == nil
	if c.report.Code == "" {
		c.limit(p.Limits)
	}
	return nil
}

// limit writes the limits and reads them back. The group stays when one of them
// cannot be had: it lists and ends the tree all the same.
func (c *cgroup) limit(l Limits) {
	available := words(filepath.Join(c.dir, "cgroup.controllers"))
	for _, s := range l.cgroup() {
		if !slices.Contains(available, s.controller) {
			c.lack(s.controller)
			continue
		}
		err := write(c.dir, s.file, s.value)
		if s.optional && errors.Is(err, unix.ENOENT) {
			c.lack(s.file)
			continue
		}
		var got string
		if err == nil {
			got, err = read(c.dir, s.file)
		}
		if err == nil && !s.kept(got) {
			err = fmt.Errorf("%s is %q", s.file, got)
		}
		if err != nil {
			c.report.Code, c.report.Errno = CodeCgroupRefused, errnoName(err)
			c.lack(s.file)
			continue
		}
		c.report.note(s)
	}
	c.report.Applied = (l.Memory == 0 || c.report.Memory > 0) && (l.Processes == 0 || c.report.Processes > 0) && (l.MilliCPU == 0 || c.report.MilliCPU > 0)
	if !c.report.Applied && c.report.Code == "" {
		c.report.Code = CodeCgroupControl
	}
}

func (c *cgroup) lack(what string) {
	if !slices.Contains(c.report.Lacks, what) {
		c.report.Lacks = append(c.report.Lacks, what)
	}
}

// fork starts a program inside of the group: it is born there, so that there is no
// moment in which it is not. A group that the kernel does not let it into is given
// up, and the report says so.
func (c *cgroup) fork(program string, argv []string, attr *syscall.ProcAttr) (int, error) {
	if c == nil || c.handle == nil {
		return syscall.ForkExec(program, argv, attr)
	}
	attr.Sys.UseCgroupFD, attr.Sys.CgroupFD = true, int(c.handle.Fd())
	pid, err := syscall.ForkExec(program, argv, attr)
	if err == nil {
		return pid, nil
	}
	attr.Sys.UseCgroupFD, attr.Sys.CgroupFD = false, 0
	pid, without := syscall.ForkExec(program, argv, attr)
	if without == nil {
		c.refused(err)
	}
	return pid, without // an error now is not the group's
}

// told is what the report says of the group.
func (c *cgroup) told() Cgroup {
	if c == nil {
		return Cgroup{}
	}
	return c.report
}

// refused gives the group up, because the kernel does not let a process be born into it.
func (c *cgroup) refused(err error) {
	c.remove()
	c.report = Cgroup{Layer: Layer{Code: CodeCgroupRefused, Errno: errnoName(err)}}
}

// entered checks that a process is in the group, from what the kernel says of the process.
func (c *cgroup) entered(pid int) error {
	if c == nil || c.dir == "" {
		return nil
	}
	if got := c.pids(); !slices.Contains(got, pid) {
		return fmt.Errorf("process %d was put into %s, and is not there", pid, c.dir)
	}
	return nil
}

// standing is where this process is among the control groups.
func standing() (hierarchy, bool) {
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return hierarchy{}, false
	}
	groups, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return hierarchy{}, false
	}
	return locate(string(mounts), string(groups))
}

// pidsOf are the processes in a group itself. 0 is one that this pid namespace does not show.
func pidsOf(dir string) []int {
	var pids []int
	for _, word := range words(filepath.Join(dir, "cgroup.procs")) {
		if pid, err := strconv.Atoi(word); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}

func words(file string) []string {
	raw, err := os.ReadFile(file)
	if err != nil {
		return nil
	}
	return strings.Fields(string(raw))
}

func read(dir, file string) (string, error) {
	raw, err := os.ReadFile(filepath.Join(dir, file))
	return strings.TrimSpace(string(raw)), err
}

// write never creates: a file that is not there is an answer.
func write(dir, file, value string) error {
	f, err := os.OpenFile(filepath.Join(dir, file), os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(value)
	return errors.Join(err, f.Close())
}
