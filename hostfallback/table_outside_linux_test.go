package hostfallback

import (
	"bufio"
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// targets are the things outside of the instance that the attempts go for. Each
// is the test's own, and each can tell whether it was reached.
type targets struct {
	TCP      int    `json:"tcp"`
	TCP6     int    `json:"tcp6"`
	UDP      int    `json:"udp"`
	Unix     string `json:"unix"`
	UnixHome string `json:"unix_home"`
	Abstract string `json:"abstract"`
	Dgram    string `json:"dgram"`
	Canary   string `json:"canary"`
	Movable  string `json:"movable"`
	Shared   string `json:"shared"` // a name in the directory where everybody may write
	Fifo     string `json:"fifo"`
	Victim   int    `json:"victim"`
	Address  uint64 `json:"address"` // in the victim's memory
	SysV     int    `json:"sysv"`    // key of a shared memory segment
	Shm      string `json:"shm"`
	LeftOpen int    `json:"left_open"` // a descriptor of this process that a child inherits
	Patience int    `json:"patience"`  // seconds for which what exceeds a limit stays

	secret  string       // in everything that can be read; whoever says it has read it
	signals atomic.Int64 // that the victim got
	reached atomic.Int64 // connections, datagrams and bytes in the FIFO that arrived
	victim  *exec.Cmd
	heard   chan struct{} // closed when the victim says no more
	holds   *os.File      // the victim's descriptor 3
}

func newTargets(t *testing.T) *targets {
	t.Helper()
	dir, err := os.MkdirTemp("", "t") // short: it holds socket names
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	home, err := os.UserHomeDir()
	if err == nil {
		home, err = os.MkdirTemp(home, ".t")
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(home) })
	var random [16]byte
	_, _ = rand.Read(random[:]) // it never fails
	g := &targets{
		Unix: dir + "/stream", UnixHome: home + "/agent", Dgram: dir + "/dgram", Abstract: "brig-test-" + filepath.Base(dir), Canary: dir + "/canary",
		Movable: dir + "/movable", Shared: "/tmp/brig-test-written-" + filepath.Base(dir),
		Fifo: dir + "/fifo", SysV: 0x62726967 ^ os.Getpid(), Shm: "/dev/shm/" + filepath.Base(dir) + "-brig",
		secret: hex.EncodeToString(random[:]),
	}
	g.TCP = g.accept(t, "tcp4", "127.0.0.1:0")
	g.TCP6 = g.accept(t, "tcp6", "[::1]:0")
	g.accept(t, "unix", g.Unix)
	g.accept(t, "unix", g.UnixHome)
	g.accept(t, "unix", "@"+g.Abstract)
	g.UDP = g.receive(t, "udp4", "127.0.0.1:0")
	g.receive(t, "unixgram", g.Dgram)
	g.furnish(t)
	if err := os.WriteFile(dir+"/"+g.secret, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(g.Shm, []byte(g.secret), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Remove(g.Shm) })
	g.readFifo(t)
	segment, err := unix.SysvShmGet(g.SysV, 4096, unix.IPC_CREAT|0o600)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = unix.SysvShmCtl(segment, unix.IPC_RMID, nil) })
	memory, err := unix.SysvShmAttach(segment, 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	copy(memory, g.secret)
	if err := unix.SysvShmDetach(memory); err != nil {
		t.Fatal(err)
	}
	// As a careless program leaves it: open in everything that this process starts.
	if g.LeftOpen, err = unix.Open(g.Canary, unix.O_RDONLY, 0); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Close(g.LeftOpen) })
	t.Setenv("BRIG_TEST_API_KEY", g.secret)
	if g.holds, err = os.Open(g.Canary); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = g.holds.Close() })
	g.startVictim(t)
	t.Cleanup(g.endVictim)
	return g
}

// furnish puts the files outside back into the state in which attempts find them.
func (g *targets) furnish(t *testing.T) {
	t.Helper()
	names, err := os.ReadDir(filepath.Dir(g.Canary))
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range names {
		if n.Type().IsRegular() && n.Name() != g.secret && n.Name() != filepath.Base(g.Canary) {
			if err := os.Remove(filepath.Join(filepath.Dir(g.Canary), n.Name())); err != nil {
				t.Fatal(err)
			}
		}
	}
	_ = os.Remove(g.Shared)                     // it is hardly ever there
	_ = unix.Removexattr(g.Canary, "user.brig") // neither is this
	for _, name := range []string{g.Canary, g.Movable} {
		if err := os.WriteFile(name, []byte(g.secret), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(g.Canary, 0o600); err != nil {
		t.Fatal(err)
	}
}

// readFifo reads on for ever, and opens the end where attempts may write.
func (g *targets) readFifo(t *testing.T) {
	t.Helper()
	if err := unix.Mkfifo(g.Fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(g.Fifo, os.O_RDWR, 0) // a writer of its own keeps it from ending
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for buffer := make([]byte, 64); ; {
			n, err := f.Read(buffer)
			if err != nil {
				return
			}
			g.reached.Add(int64(n))
		}
	}()
	t.Cleanup(func() { _ = f.Close(); <-done })
}

// startVictim starts a process of the same user, with a secret in its
// environment, its arguments, its memory and behind a descriptor.
func (g *targets) startVictim(t *testing.T) {
	t.Helper()
	g.victim = exec.Command("/usr/bin/python3", "-I", "-S", "-c", `
import ctypes, signal, sys
signal.signal(signal.SIGUSR1, lambda *_: print("signalled", flush=True))
b = ctypes.create_string_buffer(sys.argv[1].encode()); print(ctypes.addressof(b), flush=True)
while True: signal.pause()`, g.secret)
	g.victim.Dir = filepath.Dir(g.Canary)
	g.victim.Env = []string{"API_KEY=" + g.secret}
	g.victim.ExtraFiles = []*os.File{g.holds}
	out, err := g.victim.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := g.victim.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewReader(out)
	if _, err := fmt.Fscanln(lines, &g.Address); err != nil {
		t.Fatal(err)
	}
	g.heard = make(chan struct{})
	go func() {
		defer close(g.heard)
		for {
			if _, err := lines.ReadString('\n'); err != nil {
				return
			}
			g.signals.Add(1)
		}
	}()
	g.Victim = g.victim.Process.Pid
}

func (g *targets) endVictim() {
	_ = g.victim.Process.Kill() // an attempt may have done that
	<-g.heard
	_ = g.victim.Wait()
}

func (g *targets) accept(t *testing.T, network, address string) int {
	t.Helper()
	l, err := net.Listen(network, address)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			g.reached.Add(1)
			_ = c.Close()
		}
	}()
	t.Cleanup(func() { _ = l.Close(); <-done })
	if a, ok := l.Addr().(*net.TCPAddr); ok {
		return a.Port
	}
	return 0
}

func (g *targets) receive(t *testing.T, network, address string) int {
	t.Helper()
	c, err := net.ListenPacket(network, address)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		buffer := make([]byte, 64)
		for {
			if _, _, err := c.ReadFrom(buffer); err != nil {
				return
			}
			g.reached.Add(1)
		}
	}()
	t.Cleanup(func() { _ = c.Close(); <-done })
	if a, ok := c.LocalAddr().(*net.UDPAddr); ok {
		return a.Port
	}
	return 0
}

// files is what the files outside look like, and what arrived at the listeners.
func (g *targets) files(t *testing.T) string {
	t.Helper()
	var out bytes.Buffer
	info, err := os.Stat(g.Canary)
	if err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(g.Canary)
	if err != nil {
		t.Fatal(err)
	}
	attribute := make([]byte, 8)
	n, _ := unix.Getxattr(g.Canary, "user.brig", attribute) // it is hardly ever there
	changed := info.Sys().(*syscall.Stat_t)
	fmt.Fprintf(&out, "canary %s %q %s %d %v\n", info.Mode(), content, info.ModTime(), n, changed.Ctim)
	names, err := os.ReadDir(filepath.Dir(g.Canary))
	if err != nil {
		t.Fatal(err)
	}
	_, err = os.Lstat(g.Shared)
	fmt.Fprintf(&out, "names %v written %v reached %d", names, err == nil, g.reached.Load())
	return out.String()
}

// state is what became of the victim.
func (g *targets) state(t *testing.T) string {
	t.Helper()
	var out strings.Builder
	if err := g.victim.Process.Signal(unix.Signal(0)); err != nil {
		return "gone"
	}
	var limit unix.Rlimit
	if err := unix.Prlimit(g.Victim, unix.RLIMIT_NOFILE, nil, &limit); err != nil {
		t.Fatal(err)
	}
	nice, err := unix.Getpriority(unix.PRIO_PROCESS, g.Victim)
	if err != nil {
		t.Fatal(err)
	}
	oom, err := os.ReadFile(fmt.Sprintf("/proc/%d/oom_score_adj", g.Victim))
	if err != nil {
		t.Fatal(err)
	}
	schedule, err := unix.SchedGetAttr(g.Victim, 0)
	if err != nil {
		t.Fatal(err)
	}
	var cpus unix.CPUSet
	if err := unix.SchedGetaffinity(g.Victim, &cpus); err != nil {
		t.Fatal(err)
	}
	io, _, errno := unix.Syscall(unix.SYS_IOPRIO_GET, 1, uintptr(g.Victim), 0)
	if errno != 0 {
		t.Fatal(errno)
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", g.Victim))
	if err != nil {
		t.Fatal(err)
	}
	_, traced, _ := strings.Cut(string(status), "TracerPid:")
	traced, _, _ = strings.Cut(traced, "\n")
	fmt.Fprintf(&out, "nofile %v nice %d oom %s policy %d cpus %d io %d tracer %s signals %d", limit, nice, bytes.TrimSpace(oom), schedule.Policy,
		cpus.Count(), io, strings.TrimSpace(traced), g.signals.Load())
	return out.String()
}

// restore waits until what arrived late has arrived, and puts everything back.
// untouched is the victim's state before.
func (g *targets) restore(t *testing.T, untouched string) {
	t.Helper()
	time.Sleep(5 * time.Millisecond)
	if g.state(t) != untouched {
		g.endVictim()
		g.startVictim(t)
	}
	g.furnish(t)
}
