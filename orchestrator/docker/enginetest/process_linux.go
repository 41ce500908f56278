package enginetest

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// contain builds the container's file system from inside its namespaces and then
// becomes the container's first process.
//
//go:embed contain.py
var contain string

// process is the first one of a container, with everything below it.
type process struct {
	cmd            *exec.Cmd
	pid            int
	stdin          io.WriteCloser
	stdout, stderr io.Reader
}

// plan is what contain.py reads.
type plan struct {
	Root      string            `json:"root"` // an empty directory to build on
	Runner    string            `json:"runner"`
	Tmpfs     map[string]string `json:"tmpfs"`
	Mounts    []mountPoint      `json:"mounts"`
	ReadOnly  bool              `json:"readonly"`
	Hostname  string            `json:"hostname"`
	User      string            `json:"user"`
	Directory string            `json:"directory"`
	Limits    []ulimit          `json:"limits"`
	NoNew     bool              `json:"no_new_privileges"`
	Argv      []string          `json:"argv"`
	Env       []string          `json:"env"`
}

func startProcess(dir string, c *container) (*process, error) {
	root := filepath.Join(dir, c.id)
	if err := os.MkdirAll(root, 0o755); err != nil {
		return nil, err
	}
	noNew := false
	for _, option := range c.want.HostConfig.SecurityOpt {
		noNew = noNew || option == "no-new-privileges"
	}
	text, err := json.Marshal(plan{
		Root: root, Runner: c.image.runner, Tmpfs: c.want.HostConfig.Tmpfs, Mounts: c.want.HostConfig.Mounts,
		ReadOnly: c.want.HostConfig.ReadonlyRootfs, Hostname: c.want.Hostname, User: c.user(), Directory: c.directory(),
		Limits: c.want.HostConfig.Ulimits, NoNew: noNew, Argv: c.entry(), Env: c.environment(),
	})
	if err != nil {
		return nil, err
	}
	p := &process{cmd: exec.Command("python3", "-I", "-S", "-c", contain, string(text))}
	p.cmd.Env = []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
	p.cmd.SysProcAttr = &syscall.SysProcAttr{
		Setpgid:    true, // a test that dies ends its input, and so the runner
		Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWIPC | syscall.CLONE_NEWUTS,
	}
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	stdout, outEnd, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	stderr, errEnd, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	p.stdout, p.stderr, p.cmd.Stdout, p.cmd.Stderr = stdout, stderr, outEnd, errEnd
	err = p.cmd.Start()
	_, _ = outEnd.Close(), errEnd.Close()
	if err != nil {
		return nil, fmt.Errorf("start the first process: %w", err)
	}
	p.pid = p.cmd.Process.Pid
	return p, nil
}

// wait returns the status as an engine reports it.
func (p *process) wait() int {
	_ = p.cmd.Wait()
	_ = p.stdout.(*os.File).Close()
	_ = p.stderr.(*os.File).Close()
	state := p.cmd.ProcessState.Sys().(syscall.WaitStatus)
	if state.Signaled() {
		return 128 + int(state.Signal())
	}
	return state.ExitStatus()
}

// signal takes a name with or without SIG, or a number.
func (p *process) signal(name string) {
	number := unix.SignalNum("SIG" + strings.TrimPrefix(name, "SIG"))
	if n, err := strconv.Atoi(name); err == nil {
		number = syscall.Signal(n)
	}
	_ = p.cmd.Process.Signal(number)
}

// freeze stops every process in the pid namespace, which is what a freezer does as
// seen from outside.
func (p *process) freeze(stop bool) {
	number := syscall.SIGCONT
	if stop {
		number = syscall.SIGSTOP
	}
	own, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/pid", p.pid))
	if err != nil {
		return
	}
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return
	}
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		if ns, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/pid", pid)); err == nil && bytes.Equal([]byte(ns), []byte(own)) {
			_ = syscall.Kill(pid, number)
		}
	}
}
