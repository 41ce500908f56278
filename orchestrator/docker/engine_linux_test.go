package docker

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/client"

	"brig/images"
	"brig/orchestrator/sandbox"
	"brig/orchestrator/sandbox/sandboxtest"
)

// ownEngine starts a second dockerd with everything of its own, network namespace
// included (with none, it would take the other one's bridge away), and gives it
// the base and the core image.
type ownEngine struct {
	cmd      *exec.Cmd
	endpoint string
	ended    chan struct{}
	end      sync.Once
}

func startEngine(t *testing.T, flags ...string) *ownEngine {
	t.Helper()
	source := engineBackend(t, images.Core)
	if os.Getuid() != 0 {
		sandboxtest.Skip(t, "root, to start an engine of its own", "an ordinary user")
	}
	for _, name := range []string{"dockerd", "unshare"} {
		if _, err := exec.LookPath(name); err != nil {
			sandboxtest.Skip(t, name+" on PATH", err.Error())
		}
	}
	dir := socketDir(t)
	e := &ownEngine{endpoint: "unix://" + dir + "/docker.sock", ended: make(chan struct{})}
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	e.cmd = exec.CommandContext(context.WithoutCancel(t.Context()), "unshare", "--net", "dockerd",
		"--host", e.endpoint, "--data-root", dir+"/data", "--exec-root", dir+"/exec", "--pidfile", dir+"/pid",
		"--bridge", "none", "--iptables=false", "--ip6tables=false")
	e.cmd.Args = append(e.cmd.Args, flags...)
	e.cmd.Stdout, e.cmd.Stderr = log, log
	e.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := e.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		_ = e.cmd.Wait()
		close(e.ended)
	}()
	t.Cleanup(func() { e.stop(t, dir) })
	cli, err := client.NewClientWithOpts(client.WithHost(e.endpoint), client.WithAPIVersionNegotiation())
	if err != nil {
		t.Fatal(err)
	}
	defer cli.Close()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for began := time.Now(); ; <-tick.C {
		if _, err := cli.Ping(t.Context()); err == nil {
			break
		}
		select {
		case <-e.ended:
			text, _ := os.ReadFile(log.Name())
			sandboxtest.Skip(t, "a second dockerd", "it ended: "+string(text[max(0, len(text)-500):]))
		default:
		}
		if time.Since(began) > 30*time.Second {
			t.Fatal("the second dockerd does not answer")
		}
	}
	e.load(t, source, cli)
	return e
}

// load copies the images over, so that nothing has to be built there.
func (e *ownEngine) load(t *testing.T, source *Backend, to *client.Client) {
	t.Helper()
	from, err := source.current(limited(t))
	if err != nil {
		t.Fatal(err)
	}
	ref, err := source.ensureImage(limited(t), images.Core)
	if err != nil {
		t.Fatal(err)
	}
	tarball, err := from.cli.ImageSave(limited(t), []string{images.DefaultBase, ref.Tag})
	if err != nil {
		t.Fatal(err)
	}
	defer tarball.Close()
	response, err := to.ImageLoad(limited(t), tarball)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if _, err := io.Copy(io.Discard, response.Body); err != nil {
		t.Fatal(err)
	}
}

func (e *ownEngine) signal(s syscall.Signal) { _ = e.cmd.Process.Signal(s) }

// kill ends the engine the hard way; its containerd and shims go on.
func (e *ownEngine) kill() {
	e.end.Do(func() {
		e.signal(syscall.SIGKILL)
		<-e.ended
	})
}

// stop ends everything of this engine: it is found by the directory on its command lines.
func (e *ownEngine) stop(t *testing.T, dir string) {
	e.signal(syscall.SIGCONT)
	e.kill()
	entries, err := os.ReadDir("/proc")
	if err != nil {
		t.Error(err)
	}
	for _, entry := range entries {
		line, err := os.ReadFile("/proc/" + entry.Name() + "/cmdline")
		if err == nil && bytes.Contains(line, []byte(dir+"/")) && !bytes.Contains(line, []byte("docker.test")) {
			if id, err := os.FindProcess(atoi(entry.Name())); err == nil {
				_ = id.Kill()
			}
		}
	}
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		t.Error(err)
	}
	lines := strings.Split(string(mounts), "\n")
	for n := len(lines) - 1; n >= 0; n-- {
		if fields := strings.Fields(lines[n]); len(fields) > 1 && strings.HasPrefix(fields[1], dir+"/") {
			_ = syscall.Unmount(fields[1], syscall.MNT_DETACH)
		}
	}
}

func atoi(s string) int {
	n := 0
	for _, c := range s {
		n = n*10 + int(c-'0')
	}
	return n
}

// TestEngineDies: no end was seen, so none is reported, and success least of all.
func TestEngineDies(t *testing.T) {
	own := startEngine(t)
	b := newBackend(t, func(o *Options) { o.Endpoint = own.endpoint })
	i := session(t, b, coreBase(), t.TempDir())
	idle := session(t, b, coreBase(), t.TempDir())
	o := runUntil(limited(t), i, "print('on', flush=True)\nimport time\ntime.sleep(600)", func(string) { own.kill() })
	wantLost(t, o.err, sandbox.BackendLost)
	if o.stdout.String() != "on\n" {
		t.Errorf("stdout %q", o.stdout.String())
	}
	<-idle.Done()
	if c := idle.Cause(); c.Cause != sandbox.BackendLost {
		t.Errorf("the idle one: %+v", c)
	}
	_, err := b.Prepare(limited(t), coreBase(), t.TempDir())
	var u *sandbox.Unavailable
	if !errors.As(err, &u) || u.Code != "engine-stale-socket" {
		t.Errorf("prepare on a dead engine: %v", err)
	}
	for _, x := range []*instance{i, idle} {
		var left *sandbox.LeftBehind
		if err := x.Close(limited(t)); !errors.As(err, &left) || !strings.Contains(left.Error(), x.box.name) {
			t.Errorf("close on a dead engine: %v", err)
		}
		x.closeErr = nil // said; the cleanup of the helper asks again
	}
}

// TestEngineWithoutImages: what a start could not build is no part of a forecast
// either, and it is a step down and no mistake.
func TestEngineWithoutImages(t *testing.T) {
	own := startEngine(t)
	b := newBackend(t, func(o *Options) { o.Endpoint = own.endpoint })
	if _, err := b.Capabilities(limited(t), coreBase()); err != nil {
		t.Fatalf("control: %v", err)
	}
	ref, err := b.ensureImage(limited(t), images.Core)
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{ref.Tag, images.DefaultBase} {
		if err := b.RemoveImage(limited(t), id); err != nil {
			t.Fatal(err)
		}
	}
	bare := newBackend(t, func(o *Options) { o.Endpoint = own.endpoint })
	_, forecast := bare.Capabilities(limited(t), coreBase())
	_, start := bare.Prepare(limited(t), coreBase(), t.TempDir())
	for what, err := range map[string]error{"forecast": forecast, "start": start} {
		var u *sandbox.Unavailable
		if !errors.As(err, &u) || u.Code != "image-base-missing" || u.Settings || u.Remedy != "docker pull "+images.DefaultBase {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// TestEngineHangs stops the engine's process: everything stays within its bounds.
func TestEngineHangs(t *testing.T) {
	own := startEngine(t)
	b := newBackend(t, func(o *Options) { o.Endpoint = own.endpoint })
	i := session(t, b, coreBase(), t.TempDir())
	within := func(what string, bound time.Duration, f func()) {
		t.Helper()
		began := time.Now()
		f()
		if took := time.Since(began); took > bound {
			t.Errorf("%s took %s", what, took)
		}
	}
	own.signal(syscall.SIGSTOP)
	within("probe", 5*time.Second, func() {
		var u *sandbox.Unavailable
		if _, err := b.Probe(limited(t)); !errors.As(err, &u) || u.Code != "engine-hung" {
			t.Errorf("probe: %v", err)
		}
	})
	short, cancel := context.WithTimeout(limited(t), 2*time.Second)
	defer cancel()
	workspace := t.TempDir()
	within("prepare", 10*time.Second, func() {
		if _, err := b.Prepare(short, coreBase(), workspace); err == nil {
			t.Error("prepared on a hung engine")
		}
	})
	within("close", 12*time.Second, func() {
		var left *sandbox.LeftBehind
		if err := i.Close(limited(t)); !errors.As(err, &left) {
			t.Errorf("close: %v", err)
		}
	})
	own.signal(syscall.SIGCONT)
	// What was asked for without an answer is carried out late, and swept.
	e, err := b.reachAgain(limited(t))
	if err != nil {
		t.Fatal(err)
	}
	if err := e.cli.ContainerRemove(limited(t), i.box.name, container.RemoveOptions{Force: true}); err == nil {
		t.Log("the container was still there")
	}
	i.closeErr = nil
}
