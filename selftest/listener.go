package selftest

import (
	"bytes"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	hello       = "brig-selftest " // then a plot's token, a space, a probe's id, and the end of the line
	helloBound  = 2 * time.Second
	helloLength = 512
	callers     = 64 // at a time; others on the machine may call too
)

// ears are the listeners of a yard, and what they have heard.
type ears struct {
	mu     sync.Mutex
	got    map[string]bool // token and id
	open   []io.Closer
	active sync.WaitGroup
}

// hear notes every token in what was received.
func (e *ears) hear(said []byte) {
	for line := range bytes.Lines(said) {
		text, whole := strings.CutSuffix(string(line), "\n")
		at := strings.Index(text, hello)
		if !whole || at < 0 {
			continue
		}
		e.mu.Lock()
		e.got[text[at+len(hello):]] = true
		e.mu.Unlock()
	}
}

func (e *ears) knows(token, id string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.got[token+" "+id]
}

func (e *ears) keep(c io.Closer) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.open = append(e.open, c)
}

func (e *ears) close() {
	e.mu.Lock()
	open := e.open
	e.open = nil
	e.mu.Unlock()
	for _, c := range open {
		_ = c.Close() // nothing was written that could be lost
	}
	e.active.Wait()
}

// stream listens and answers whoever says a line. nil: it cannot be listened there.
func (e *ears) stream(network, address string) net.Addr {
	l, err := net.Listen(network, address)
	if err != nil {
		return nil
	}
	e.keep(l)
	slots := make(chan struct{}, callers)
	e.active.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			select {
			case slots <- struct{}{}:
				e.active.Go(func() { e.answer(c); <-slots })
			default:
				_ = c.Close()
			}
		}
	})
	return l.Addr()
}

func (e *ears) answer(c net.Conn) {
	defer c.Close()
	if c.SetDeadline(time.Now().Add(helloBound)) != nil {
		return
	}
	said := make([]byte, 0, helloLength)
	for len(said) < helloLength && !bytes.HasSuffix(said, []byte("\n")) {
		n, err := c.Read(said[len(said):helloLength])
		said = said[:len(said)+n]
		if err != nil {
			break
		}
	}
	e.hear(said)
	_, _ = io.WriteString(c, "ok\n") // whoever has left does not need it
}

// packets receives datagrams and answers those that name their sender.
func (e *ears) packets(network, address string) net.Addr {
	c, err := net.ListenPacket(network, address)
	if err != nil {
		return nil
	}
	e.keep(c)
	e.active.Go(func() {
		said := make([]byte, 2048)
		for {
			n, from, err := c.ReadFrom(said)
			if err != nil {
				return
			}
			e.hear(said[:n])
			// Not at its beginning only: a question for a name carries it as well.
			if from != nil && from.String() != "" && bytes.Contains(said[:n], []byte(hello)) {
				_, _ = c.WriteTo([]byte("ok\n"), from)
			}
		}
	})
	return c.LocalAddr()
}

// listen opens every listener of the yard. One that cannot be had here is a target
// that is not there, and its probes say so by their control.
func (y *yard) listen() error {
	e := y.heard
	y.shared["tcp4"] = place(e.stream("tcp4", "127.0.0.1:0"))
	y.shared["tcp6"] = place(e.stream("tcp6", "[::1]:0"))
	y.shared["udp4"] = place(e.packets("udp4", "127.0.0.1:0"))
	y.shared["udp6"] = place(e.packets("udp6", "[::1]:0"))
	machineTCP, machineUDP := []any{}, []any{}
	for _, address := range machineAddresses() {
		at := net.JoinHostPort(address, "0")
		if here := place(e.stream("tcp", at)); here != nil {
			machineTCP = append(machineTCP, here)
		}
		if here := place(e.packets("udp", at)); here != nil {
			machineUDP = append(machineUDP, here)
		}
	}
	y.shared["machine_tcp"], y.shared["machine_udp"] = machineTCP, machineUDP

	dir, err := y.socketDir()
	if err != nil {
		return err
	}
	sockets := map[string]any{}
	for _, name := range []string{"engine", "bus", "wayland", "x11", "agent", "brig"} {
		sockets[name] = nil
		if path := filepath.Join(dir, name); e.stream("unix", path) != nil {
			sockets[name] = path
		}
	}
	y.shared["sockets"] = sockets
	y.shared["dgram"] = nil
	if path := filepath.Join(dir, "dgram"); e.packets("unixgram", path) != nil {
		y.shared["dgram"] = path
	}
	y.shared["abstract"] = y.listenAbstract()
	y.shared["fifo"] = y.listenFifo()
	y.shared["devices"] = devices()
	y.shared["mounts"] = machineMounts()
	y.shared["boot"] = kernelBoot()
	y.shared["real"] = realSockets(y.options.Environ)
	y.shared["running"] = running(y.options.Own["runtime"])
	return nil
}

// socketDir is a directory with a path that is short enough for sockets in it.
func (y *yard) socketDir() (string, error) {
	dir := filepath.Join(y.dir, "s")
	if len(filepath.Join(dir, "wayland")) <= pathRoom {
		return dir, os.Mkdir(dir, 0o700)
	}
	dir = filepath.Join(os.TempDir(), strayName+y.token)
	if err := y.note(dir, false); err != nil {
		return "", err
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		return "", err
	}
	return dir, y.hold(dir)
}

// place is a listener's address as T has it: the address and the port, or nothing.
func place(a net.Addr) any {
	switch a := a.(type) {
	case *net.TCPAddr:
		return []any{a.IP.String(), a.Port}
	case *net.UDPAddr:
		return []any{a.IP.String(), a.Port}
	}
	return nil
}

// realSockets are sockets of services that run here, where custom and the environment say.
func realSockets(environ []string) []string {
	named := map[string]string{}
	for _, v := range environ {
		name, value, _ := strings.Cut(v, "=")
		named[name] = value
	}
	found := []string{}
	for _, path := range serviceSockets(named) {
		info, err := os.Stat(path)
		if err == nil && info.Mode()&os.ModeSocket != 0 && !slices.Contains(found, path) {
			found = append(found, path)
		}
	}
	return found
}
