package confine

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"brig/orchestrator/sandbox/sandboxtest"
)

// instance is a supervisor started by a test, with all ends of its pipes.
type instance struct {
	t      testing.TB
	plan   Plan
	cmd    *exec.Cmd
	life   *os.File // the control pipe's writing end
	stdin  *os.File
	out    syncBuffer
	events chan Event // closed at the end of the status pipe
	exited chan struct{}
}

type syncBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// basePlan runs command with the grants that a program of the system needs.
func basePlan(t testing.TB, command ...string) Plan {
	t.Helper()
	dir := t.TempDir()
	p := Plan{
		Token: "t" + filepath.Base(filepath.Dir(dir)), Command: command,
		Env:  []string{"PATH=/usr/bin:/bin", "HOME=" + dir + "/home/scratch", Marker + "=" + filepath.Base(dir)},
		Home: dir + "/home",
	}
	p.Policy = Policy{
		Mode: ModeBestEffort, Network: NetworkDeny, Namespace: true,
		Workspace: dir + "/workspace", Scratch: dir + "/home/scratch",
		Grants: Grants{
			Execute: []string{"/usr", "/bin", "/lib", "/lib64"},
			Read:    []string{"/proc", "/etc/ld.so.cache", "/dev/zero", "/dev/urandom"},
			Devices: []string{"/dev/null"},
		},
		Limits: Limits{Memory: 1 << 30, Processes: 256, OpenFiles: 1024, FileSize: 1 << 30, Disk: 1 << 30},
	}
	for _, d := range []string{p.Workspace, p.Home, p.Scratch} {
		if err := os.Mkdir(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	return p
}

// needWhole skips a test on a machine that does not offer every layer.
func needWhole(t *testing.T) {
	t.Helper()
	p := basePlan(t, "/bin/true")
	p.CheckOnly = true
	r := launch(t, p).started().Report
	if !r.Landlock.Applied || r.Landlock.Used < 6 || !r.Seccomp.Applied || !r.Namespace.Applied {
		sandboxtest.Skip(t, "Landlock of ABI 6 or newer, seccomp and user namespaces",
			fmt.Sprintf("landlock abi %d, seccomp %v, namespaces %v", r.Landlock.Used, r.Seccomp.Applied, r.Namespace.Applied))
	}
}

// needPython skips a test without the system's interpreter.
func needPython(t *testing.T) {
	t.Helper()
	if _, err := os.Stat(python); err != nil {
		sandboxtest.Skip(t, python, err.Error())
	}
}

// launch starts a supervisor for p, on a kernel that answers as the rules say
// (see role).
func launch(t testing.TB, p Plan, kernel ...string) *instance {
	t.Helper()
	i := &instance{t: t, plan: p, events: make(chan Event, 8), exited: make(chan struct{})}
	pipe := func() (*os.File, *os.File) {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		return r, w
	}
	controlR, controlW := pipe()
	statusR, statusW := pipe()
	stdinR, stdinW := pipe()
	i.life, i.stdin = controlW, stdinW
	i.cmd = exec.Command("/proc/self/exe", VerbSupervise)
	if len(kernel) > 0 {
		i.cmd = exec.Command("/proc/self/exe", append([]string{roleArgument, "kernel"}, kernel...)...)
	}
	i.cmd.Env = []string{}
	i.cmd.WaitDelay = 100 * time.Millisecond // survivors of a killed supervisor hold the output
	i.cmd.Stdin, i.cmd.Stdout, i.cmd.Stderr = stdinR, &i.out, &i.out
	i.cmd.ExtraFiles = []*os.File{controlR, statusW}
	i.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if slices.Contains(kernel, "masked=0") {
		i.cmd.SysProcAttr.Cloneflags = syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS
		i.cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: os.Getuid(), HostID: os.Getuid(), Size: 1}}
		i.cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: os.Getgid(), HostID: os.Getgid(), Size: 1}}
		i.cmd.SysProcAttr.AmbientCaps = []uintptr{21} // CAP_SYS_ADMIN, to mount
	}
	if err := i.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for _, f := range []*os.File{controlR, statusW, stdinR} {
		_ = f.Close()
	}
	go func() {
		defer close(i.events)
		for d := json.NewDecoder(statusR); ; {
			var e Event
			if d.Decode(&e) != nil {
				return
			}
			i.events <- e
		}
	}()
	go func() {
		defer close(i.exited)
		_ = i.cmd.Wait()
	}()
	if err := json.NewEncoder(controlW).Encode(p); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = i.life.Close()
		_ = i.stdin.Close()
		<-i.exited
	})
	return i
}

func (i *instance) next() Event {
	i.t.Helper()
	select {
	case e, ok := <-i.events:
		if !ok {
			i.t.Fatalf("the status pipe ended without another event; output: %s", i.out.String())
		}
		return e
	case <-time.After(30 * time.Second):
		i.t.Fatal("no event of the supervisor in 30 s")
	}
	return Event{}
}

func (i *instance) started() Started {
	i.t.Helper()
	e := i.next()
	if e.Started == nil {
		i.t.Fatalf("want started, got %+v; failed: %v; output: %s", e, e.Failed, i.out.String())
	}
	return *e.Started
}

func (i *instance) failed() Failure {
	i.t.Helper()
	e := i.next()
	if e.Failed == nil {
		i.t.Fatalf("want a failure, got %+v; output: %s", e, i.out.String())
	}
	return *e.Failed
}

func (i *instance) ended() Ended {
	i.t.Helper()
	e := i.next()
	if e.Ended == nil {
		i.t.Fatalf("want the end, got %+v", e)
	}
	return *e.Ended
}

func (i *instance) wait() {
	i.t.Helper()
	select {
	case <-i.exited:
	case <-time.After(30 * time.Second):
		i.t.Fatal("the supervisor did not end in 30 s")
	}
}

// run runs the plan's command to its end and returns its output.
func run(t *testing.T, p Plan, kernel ...string) (string, Ended, Report) {
	t.Helper()
	i := launch(t, p, kernel...)
	if err := i.stdin.Close(); err != nil {
		t.Fatal(err)
	}
	s := i.started()
	e := i.ended()
	i.wait()
	return i.out.String(), e, s.Report
}

// ready waits until the output contains a word that the command prints.
func (i *instance) ready(word string) {
	i.t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !strings.Contains(i.out.String(), word); {
		if time.Now().After(deadline) {
			i.t.Fatalf("no %q in the output: %s", word, i.out.String())
		}
		time.Sleep(2 * time.Millisecond)
	}
}
