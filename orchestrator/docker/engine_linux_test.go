package docker

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/docker/docker/client"

	"brig/images"
	"brig/orchestrator/sandbox"
	"brig/orchestrator/sandbox/sandboxtest"
)

// ownEngine starts a second dockerd with everything of its own, network namespace
// included (with none, it would take the other one's bridge away), and gives it
// the base and the core image.
type ownEngine struct {
	dir, endpoint string
	args          []string
	cmd           *exec.Cmd
	ended         chan struct{}
	end           *sync.Once
}

// startEngine gives dockerd further arguments; a later one wins over an earlier one.
func startEngine(t *testing.T, args ...string) *ownEngine {
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
	e := &ownEngine{dir: dir, endpoint: "unix://" + dir + "/docker.sock", args: args}
	e.start(t)
	t.Cleanup(func() { e.stop(t, dir) })
	copyImages(t, source, e.client(t))
	return e
}

// storeArgs makes an engine of the 29.x line keep images as older ones do: with them
// an image that is copied keeps its ID, and with that its trust.
func storeArgs() []string {
	program, err := exec.LookPath("dockerd")
	if dir := os.Getenv("BRIG_TEST_ENGINE29"); err != nil || dir == "" || filepath.Dir(program) != filepath.Clean(dir) {
		return nil
	}
	return []string{"--feature", "containerd-snapshotter=false"}
}

// start starts the engine, also again after its end, and returns when it answers.
func (e *ownEngine) start(t *testing.T) {
	t.Helper()
	log, err := os.OpenFile(filepath.Join(e.dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	// What was killed may still stand in the process table, where nobody reaps it.
	_ = os.Remove(filepath.Join(e.dir, "pid"))
	_ = os.Remove(filepath.Join(e.dir, "exec", "containerd", "containerd.pid"))
	args := append([]string{
		"--net", "dockerd",
		"--host", e.endpoint, "--data-root", e.dir + "/data", "--exec-root", e.dir + "/exec", "--pidfile", e.dir + "/pid",
		"--bridge", "none", "--iptables=false", "--ip6tables=false",
	}, append(storeArgs(), e.args...)...)
	cmd, ended := exec.CommandContext(context.WithoutCancel(t.Context()), "unshare", args...), make(chan struct{})
	e.cmd, e.ended, e.end = cmd, ended, &sync.Once{}
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		_ = cmd.Wait()
		close(ended)
	}()
	cli := e.client(t)
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for began := time.Now(); ; <-tick.C {
		asking, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		_, err := cli.Ping(asking)
		cancel()
		if err == nil {
			return
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
}

func (e *ownEngine) client(t *testing.T) *client.Client {
	t.Helper()
	cli, err := client.NewClientWithOpts(client.WithHost(e.endpoint), client.WithAPIVersionNegotiation())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cli.Close() })
	return cli
}

// backend is a backend on this engine.
func (e *ownEngine) backend(t *testing.T) *Backend {
	t.Helper()
	return newBackend(t, func(o *Options) { o.Endpoint = e.endpoint })
}

// copyImages gives another engine the images of this machine's, so that nothing has
// to be built there.
func copyImages(t *testing.T, source *Backend, to *client.Client) {
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
func (e *ownEngine) kill() { e.finish(syscall.SIGKILL) }

// finish ends it with a signal and waits for that, and kills an engine that does not
// take notice: its own flaws are not what is tested.
func (e *ownEngine) finish(s syscall.Signal) {
	e.end.Do(func() {
		e.signal(s)
		select {
		case <-e.ended:
			return
		case <-time.After(15 * time.Second): // 20.10 was seen to hang in its own shutdown
		}
		e.signal(syscall.SIGKILL)
		<-e.ended
	})
}

// restore has its containers live on without it, from the next start on, which is now.
func (e *ownEngine) restore(t *testing.T) {
	t.Helper()
	if !slices.Contains(e.args, "--live-restore") {
		e.finish(syscall.SIGTERM)
		e.args = append(e.args, "--live-restore")
		e.start(t)
	}
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

// engineWithoutImages: what a start could not build is no part of a forecast
// either, and it is a step down and no mistake.
func engineWithoutImages(t *testing.T, own *ownEngine) {
	b := own.backend(t)
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
	bare := own.backend(t)
	_, forecast := bare.Capabilities(limited(t), coreBase())
	_, start := bare.Prepare(limited(t), coreBase(), t.TempDir())
	for what, err := range map[string]error{"forecast": forecast, "start": start} {
		var u *sandbox.Unavailable
		if !errors.As(err, &u) || u.Code != "image-base-missing" || u.Settings || u.Remedy != "docker pull "+images.DefaultBase {
			t.Errorf("%s: %v", what, err)
		}
	}
	copyImages(t, engineBackend(t, images.Core), own.client(t))
}
