//go:build unix

package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"brig/orchestrator/api"
	"brig/orchestrator/sandbox/sandboxtest"
)

// place is the directories of an ordinary user, in which brigs start.
type place struct {
	dir, program string
}

func newPlace(t *testing.T) *place {
	t.Helper()
	if _, err := exec.LookPath("python3"); err != nil {
		sandboxtest.Skip(t, "python3 on PATH", "none")
	}
	p := &place{dir: ordinaryDir(t), program: copyOfTest(t)}
	for _, name := range []string{"run", "c/brig"} {
		if err := os.MkdirAll(filepath.Join(p.dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := giveToOrdinary(p.dir); err != nil {
		t.Fatal(err)
	}
	return p
}

func (p *place) runtime() string { return filepath.Join(p.dir, "run", "brig") }

func (p *place) command(t *testing.T, args []string, env ...string) *exec.Cmd {
	c := exec.CommandContext(t.Context(), p.program, args...)
	c.Dir, c.SysProcAttr = p.dir, credential()
	c.Env = append([]string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + p.dir, "XDG_RUNTIME_DIR=" + filepath.Join(p.dir, "run"),
		"XDG_CONFIG_HOME=" + filepath.Join(p.dir, "c"), "EXECUTION_BACKEND=host",
		"DOCKER_HOST=unix:///nonexistent/docker.sock", "BRIG_SERVER_LISTEN=127.0.0.1:0",
	}, env...)
	return c
}

// says runs a command to its end.
func (p *place) says(t *testing.T, want exitCode, args ...string) string {
	t.Helper()
	out, err := p.command(t, args).CombinedOutput()
	var exit *exec.ExitError
	code := 0
	if errors.As(err, &exit) {
		code = exit.ExitCode()
	} else if err != nil {
		t.Fatal(err)
	}
	if code != int(want) {
		t.Errorf("brig %v ended with %d, want %d:\n%s", args, code, want, out)
	}
	return string(out)
}

// upright is a brig up that has said that it is ready.
type upright struct {
	cmd  *exec.Cmd
	gone chan error

	mu   sync.Mutex
	said bytes.Buffer
}

// up starts one and waits until it is ready.
func (p *place) up(t *testing.T, env ...string) *upright {
	t.Helper()
	u := &upright{cmd: p.command(t, []string{"up", "--headless"}, env...), gone: make(chan error, 1)}
	pipe, err := u.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := u.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = u.cmd.Process.Kill(); _, _ = io.Copy(io.Discard, pipe) })
	ready := make(chan struct{})
	go func() {
		lines := bufio.NewScanner(pipe)
		for lines.Scan() {
			u.mu.Lock()
			u.said.WriteString(lines.Text() + "\n")
			u.mu.Unlock()
			if strings.HasPrefix(lines.Text(), "brig: ready ") {
				close(ready)
			}
		}
		u.gone <- u.cmd.Wait()
	}()
	select {
	case <-ready:
	case err := <-u.gone:
		t.Fatalf("brig up ended: %v\n%s", err, u.text())
	}
	return u
}

func (u *upright) text() string {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.said.String()
}

// end tells it to end and wants it to have done so well.
func (u *upright) end(t *testing.T, sig syscall.Signal) {
	t.Helper()
	if err := u.cmd.Process.Signal(sig); err != nil {
		t.Fatal(err)
	}
	if err := <-u.gone; err != nil {
		t.Errorf("%v: %v\n%s", sig, err, u.text())
	}
}

func (p *place) log(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(p.dir, ".local", "state", "brig", "log", "brig.log"))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestOneBrigStays starts a second one, in several ways.
func TestOneBrigStays(t *testing.T) {
	p := newPlace(t)
	u := p.up(t)
	if got := p.says(t, exitOK, "up"); !strings.Contains(got, "brig: brig is running already as process ") || !strings.Contains(got, "127.0.0.1:") {
		t.Errorf("a second one says %q", got)
	}
	other := p.command(t, []string{"up"}, "XDG_RUNTIME_DIR="+filepath.Join(p.dir, "other"))
	out, err := other.CombinedOutput()
	if err == nil || !strings.Contains(string(out), "another runtime directory") {
		t.Errorf("with another runtime directory: %v %q", err, out)
	}
	u.end(t, syscall.SIGTERM)
	if entries, err := os.ReadDir(p.runtime()); err != nil || len(entries) > 2 { // the lock, and what the host sandbox keeps
		t.Errorf("left behind: %v %v", entries, err)
	}
	if got := p.says(t, exitOK, "down"); !strings.Contains(got, "no brig is running") {
		t.Errorf("%q", got)
	}
}

// TestKilled starts a brig where one was killed: what that left is in nobody's way,
// and the session is there with its files.
func TestKilled(t *testing.T) {
	p := newPlace(t)
	u := p.up(t)
	p.says(t, exitOK, "run", "-q", "--session", "mine", "-c", "open('made.txt', 'w').write('hello')")
	if err := u.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-u.gone
	for _, name := range []string{api.AgentSocket, api.OperatorSocket, api.EndpointFile, api.AgentToken} {
		if _, err := os.Lstat(filepath.Join(p.runtime(), name)); err != nil {
			t.Fatalf("the kill left no %s, so nothing is tried: %v", name, err)
		}
	}
	if got := p.says(t, exitOK, "down"); !strings.Contains(got, "no brig is running") {
		t.Errorf("of a killed one: %q", got)
	}
	u = p.up(t)
	if got := p.says(t, exitOK, "run", "--session", "mine", "-c", "print(open('made.txt').read())"); !strings.Contains(got, "hello\n") {
		t.Errorf("%s", got)
	}
	for name, want := range map[string]fs.FileMode{api.AgentToken: 0o600, api.OperatorToken: 0o600, api.EndpointFile: 0o600, api.AgentSocket: 0o600 | fs.ModeSocket} {
		if info, err := os.Lstat(filepath.Join(p.runtime(), name)); err != nil || info.Mode() != want {
			t.Errorf("%s: %v %v", name, info, err)
		}
	}
	p.says(t, exitOK, "down")
	if err := <-u.gone; err != nil {
		t.Errorf("asked to end: %v\n%s", err, u.text())
	}
}

// TestReload reads settings anew, keeps the earlier ones where those are wrong, and
// says what takes a new start.
func TestReload(t *testing.T) {
	p := newPlace(t)
	u := p.up(t)
	file := filepath.Join(p.dir, "c", "brig", "config.toml")
	reload := func(content, message string) {
		t.Helper()
		before := strings.Count(p.log(t), message)
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := giveToOrdinary(filepath.Dir(file)); err != nil {
			t.Fatal(err)
		}
		if err := u.cmd.Process.Signal(syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
		for strings.Count(p.log(t), message) == before {
			select {
			case err := <-u.gone:
				t.Fatalf("brig up ended: %v\n%s", err, u.text())
			case <-time.After(10 * time.Millisecond):
			}
		}
	}
	// What differs from the settings of a command is told by the command.
	differs := func() bool { return strings.Contains(p.says(t, exitOK, "status", "--json"), `"settings_differ"`) }
	if differs() {
		t.Error("settings differ before anything was changed")
	}
	const longer = "limits.max_timeout = \"77s\"\n"
	if err := os.WriteFile(file, []byte(longer), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := giveToOrdinary(filepath.Dir(file)); err != nil {
		t.Fatal(err)
	}
	if !differs() {
		t.Error("a changed file does not show, so nothing is tried")
	}
	reload(longer, "the settings were read anew")
	if differs() {
		t.Error("after the signal the settings are not those of the file")
	}
	reload("limits.max_timeout = \"77 apples\"\n", "the earlier ones stay in force")
	reload("host.python = \"/bin/other-python\"\n", "this setting takes a new start")
	u.end(t, syscall.SIGTERM)
}

// TestAddressTaken refuses an address that was asked for, and says what to do.
func TestAddressTaken(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	p := newPlace(t)
	out, err := p.command(t, []string{"up"}, "BRIG_SERVER_LISTEN="+l.Addr().String()).CombinedOutput()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != int(exitFailed) || !strings.Contains(string(out), "another program listens at "+l.Addr().String()+" (BRIG_SERVER_LISTEN)") {
		t.Errorf("%v: %s", err, out)
	}
	// Nothing is in the way of the next one.
	p.up(t, "BRIG_SERVER_LISTEN=none").end(t, syscall.SIGINT)
}

// TestSupervisor tells systemd when it is ready and when it ends.
func TestSupervisor(t *testing.T) {
	p := newPlace(t)
	at := filepath.Join(p.dir, "notify")
	l, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: at, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if err := os.Chmod(at, 0o777); err != nil {
		t.Fatal(err)
	}
	u := p.up(t, "NOTIFY_SOCKET="+at)
	u.end(t, syscall.SIGTERM)
	var heard []string
	for range 2 {
		message := make([]byte, 200)
		n, err := l.Read(message)
		if err != nil {
			t.Fatal(err)
		}
		heard = append(heard, string(message[:n]))
	}
	if !strings.HasPrefix(heard[0], "READY=1\n") || heard[1] != "STOPPING=1" {
		t.Errorf("%q", heard)
	}
}

// TestEndDuringARun stops what runs and answers who waits for it.
func TestEndDuringARun(t *testing.T) {
	p := newPlace(t)
	u := p.up(t)
	run := p.command(t, []string{"run", "--json", "--session", "mine", "-c", "import time\nopen('begun', 'w').close()\nwhile True: time.sleep(1)"})
	var out bytes.Buffer
	run.Stdout = &out
	if err := run.Start(); err != nil {
		t.Fatal(err)
	}
	for {
		if begun, _ := filepath.Glob(filepath.Join(p.dir, ".local/share/brig/sessions/*/*/begun")); len(begun) > 0 {
			break
		}
		if begun, _ := filepath.Glob(filepath.Join(p.dir, ".local/share/brig/sessions/*/begun")); len(begun) > 0 {
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
	u.end(t, syscall.SIGTERM)
	err := run.Wait()
	var answer struct {
		Cause string `json:"cause"`
	}
	if err == nil || json.Unmarshal(out.Bytes(), &answer) != nil || answer.Cause == "" || answer.Cause == "ok" {
		t.Errorf("%v: %s", err, &out)
	}
	if strings.Contains(p.log(t), "\x1b") {
		t.Error("the log has an escape in it")
	}
}

// BenchmarkUp is from the start of the process to the line that it is ready: at most
// 300 ms are promised.
func BenchmarkUp(b *testing.B) {
	dir := b.TempDir()
	program, err := copyBinary(dir)
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		c := exec.Command(program, "up", "--headless")
		c.Dir = dir
		c.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "EXECUTION_BACKEND=host", "BRIG_SERVER_LISTEN=127.0.0.1:0"}
		pipe, err := c.StderrPipe()
		if err != nil {
			b.Fatal(err)
		}
		if err := c.Start(); err != nil {
			b.Fatal(err)
		}
		lines := bufio.NewReader(pipe)
		for {
			line, err := lines.ReadString('\n')
			if err != nil {
				b.Fatal(err)
			}
			if strings.HasPrefix(line, "brig: ready ") {
				break
			}
		}
		b.StopTimer()
		_ = c.Process.Signal(syscall.SIGTERM)
		_, _ = io.Copy(io.Discard, lines)
		if err := c.Wait(); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
	}
}
