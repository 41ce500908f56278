//go:build unix

package server

import (
	"bytes"
	"io"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"brig/orchestrator/api"
	"brig/orchestrator/sandbox/sandboxtest"
)

// TestMain is also a program of another user: it connects and tells what it heard.
func TestMain(m *testing.M) {
	at := os.Getenv(strangerVar)
	if at == "" {
		os.Exit(m.Run())
	}
	network, address, _ := strings.Cut(at, "!")
	c, err := net.Dial(network, address)
	if err != nil {
		os.Stdout.WriteString("not connected")
		os.Exit(0)
	}
	_ = c.SetDeadline(time.Now().Add(time.Minute))
	_, _ = io.WriteString(c, "GET /healthz HTTP/1.1\r\nHost: "+address+"\r\nConnection: close\r\n\r\n")
	heard, _ := io.ReadAll(c)
	os.Stdout.Write(append([]byte("heard "), heard...))
	os.Exit(0)
}

const strangerVar = "BRIG_SERVER_TEST_STRANGER"

// stranger is what another user's program hears. It starts from a directory that
// everybody may enter.
func stranger(t *testing.T, at string) string {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "brig-stranger-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(self)
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(dir, "stranger")
	if err := os.WriteFile(program, text, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), program)
	cmd.Env, cmd.Dir = []string{strangerVar + "=" + at}, "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65533, Gid: 65533}}
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v: %s", err, &out)
	}
	return out.String()
}

func needRoot(t *testing.T) {
	if os.Geteuid() != 0 {
		sandboxtest.Skip(t, "root, to be two users", "an ordinary user")
	}
}

// Another user reaches neither socket nor, where the kernel tells, an answer through
// the port.
func TestAnotherUser(t *testing.T) {
	needRoot(t)
	w := listening(t)
	for _, name := range []string{api.AgentSocket, api.OperatorSocket} {
		path := filepath.Join(w.dir, name)
		if got := stranger(t, "unix!"+path); got != "not connected" {
			t.Errorf("%s: %q", name, got)
		}
		// Not by the mode of files alone.
		for at := w.dir; at != "/tmp" && at != "/"; at = filepath.Dir(at) {
			if err := os.Chmod(at, 0o755); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.Chmod(path, 0o777); err != nil {
			t.Fatal(err)
		}
		if got := stranger(t, "unix!"+path); got != "heard " {
			t.Errorf("%s, opened by mistake: %q", name, got)
		}
	}
	want := "heard "
	if got := stranger(t, "tcp!"+w.bound.Address); got != want && tellsPeers {
		t.Errorf("through the port: %q", got)
	}
	if w.metrics.connections.foreign.Load() == 0 {
		t.Error("nothing was counted")
	}
	if r := w.get(t, "tcp", "/healthz"); r.StatusCode != 200 {
		t.Errorf("the user himself: %d", r.StatusCode)
	}
}

// Whatever the umask is, nobody else can open what was made.
func TestModes(t *testing.T) {
	for _, mask := range []int{0, 0o777} {
		old := syscall.Umask(mask)
		w := newWorldMasked(t, old, mask)
		for name, want := range map[string]fs.FileMode{
			api.AgentToken: 0o600, api.MCPToken: 0o600, api.OperatorToken: 0o600, api.EndpointFile: 0o600,
			api.AgentSocket: fs.ModeSocket | 0o600, api.OperatorSocket: fs.ModeSocket | 0o600,
		} {
			info, err := os.Lstat(filepath.Join(w.dir, name))
			if err != nil || info.Mode() != want {
				t.Errorf("umask %#o: %s: %v %v, want %v", mask, name, info, err, want)
			}
		}
	}
}

// newWorldMasked listens under a umask and gives the earlier one back.
func newWorldMasked(t *testing.T, old, mask int) *world {
	t.Helper()
	syscall.Umask(old)
	w := newWorld(t)
	syscall.Umask(mask)
	defer syscall.Umask(old)
	w.serve(t)
	return w
}

// Names that lead elsewhere are replaced, and what they lead to is not touched.
func TestPlantedLinks(t *testing.T) {
	w := newWorld(t)
	other := filepath.Join(t.TempDir(), "other")
	if err := os.WriteFile(other, []byte("mine"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{api.AgentToken, api.MCPToken, api.OperatorToken, api.EndpointFile} {
		if err := os.Symlink(other, filepath.Join(w.dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	w.serve(t)
	if text, err := os.ReadFile(other); err != nil || string(text) != "mine" {
		t.Errorf("%q %v", text, err)
	}
	if info, err := os.Lstat(filepath.Join(w.dir, api.AgentToken)); err != nil || !info.Mode().IsRegular() {
		t.Errorf("%v %v", info, err)
	}
}

func TestBadPlaces(t *testing.T) {
	refused := func(name string, w *world, part string) {
		t.Helper()
		if _, err := w.Listen(); err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("%s: %v", name, err)
		}
	}
	w := newWorld(t)
	if err := os.Chmod(w.dir, 0o750); err != nil {
		t.Fatal(err)
	}
	refused("open to the group", w, "chmod 700")

	w = newWorld(t)
	if err := os.WriteFile(filepath.Join(w.dir, api.AgentSocket), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	refused("a file where a socket belongs", w, "move it away")

	w = newWorld(t)
	if err := os.Symlink("/dev/null", filepath.Join(w.dir, api.OperatorSocket)); err != nil {
		t.Fatal(err)
	}
	refused("a link where a socket belongs", w, "move it away")

	w = newWorld(t)
	if err := os.Remove(w.dir); err != nil {
		t.Fatal(err)
	}
	refused("no directory", w, "runtime directory")

	needRoot(t)
	w = newWorld(t)
	if err := os.Chown(w.dir, 65533, 65533); err != nil {
		t.Fatal(err)
	}
	refused("another user's", w, "XDG_RUNTIME_DIR")

	w = newWorld(t)
	moved := w.dir + "-moved"
	if err := os.Rename(w.dir, moved); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(moved, w.dir); err != nil {
		t.Fatal(err)
	}
	if err := os.Lchown(w.dir, 65533, 65533); err != nil {
		t.Fatal(err)
	}
	refused("another user's link", w, "a link of somebody else")
}

// A path that no socket can have: the port is left, and that is said.
func TestLongPath(t *testing.T) {
	long := func(o *Options) {
		o.Paths.Runtime = filepath.Join(o.Paths.Runtime, strings.Repeat("x", 120))
		if err := os.MkdirAll(o.Paths.Runtime, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	w := newWorld(t, long)
	w.serve(t)
	if len(w.bound.Sockets) != 0 || len(w.bound.Notes) != 2 || !strings.Contains(w.bound.Notes[0], "too long") {
		t.Errorf("%+v", w.bound)
	}
	w = newWorld(t, long, func(o *Options) { o.Listen = "none" })
	if _, err := w.Listen(); err == nil {
		t.Error("nothing listens, and that is no error")
	}
}
