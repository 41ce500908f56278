package runner

import (
	"context"
	"errors"
	"io"
	"math"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"testing"
	"time"

	"brig/orchestrator/sandbox/sandboxtest"
	"brig/orchestrator/wire"
)

// A dock stands between a runner and those that attach to it, one after the
// other, as a container engine does: the runner's own pipes stay open, and what
// it says while nobody is attached is lost.
type dock struct {
	*rig
	secret string
	in     *os.File // the runner's standard input
	pumped chan struct{}

	mu  sync.Mutex
	now *attachment
}

// attachment is one connection; it ends after so many bytes in either direction.
type attachment struct {
	d       *dock
	r       *io.PipeReader
	w       *io.PipeWriter // the runner's output goes here
	outLeft int
	inLeft  int
	once    sync.Once
	over    chan struct{} // closed when it has ended
}

const unlimited = math.MaxInt

// keep starts a runner as process 1 of a namespace, with pipes that outlive a
// connection, and greets it with a lease, if there is one.
func keep(t *testing.T, p interpreter, lease time.Duration) *dock {
	t.Helper()
	return keepAs(t, p, lease, shared.script)
}

func keepAs(t *testing.T, p interpreter, lease time.Duration, script string) *dock {
	t.Helper()
	d := launchKept(t, p, script)
	h := hello()
	if lease > 0 {
		d.secret = wire.NewSecret()
		h.Lease, h.Resume = lease, d.secret
	}
	d.Peer = d.peer(unlimited, unlimited)
	greet(t, d.rig, h)
	return d
}

func launchKept(t *testing.T, p interpreter, script string) *dock {
	t.Helper()
	if os.Getuid() != 0 {
		sandboxtest.Skip(t, "root, for a process namespace", "an ordinary user")
	}
	r, dir := newRig(t)
	const become = `mount -t proc proc /proc && exec setpriv --reuid 65534 --regid 65534 --clear-groups "$@"`
	cmd := exec.Command("/bin/sh", "-c", become, "sh", p.path, "-I", "-u", script)
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID, Unshareflags: syscall.CLONE_NEWNS}
	cmd.Dir, cmd.Stderr, cmd.Env = "/", r.stderr, append([]string{"PATH=/usr/bin:/bin"}, p.env...)
	theirIn, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	out, theirOut, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdin, cmd.Stdout = theirIn, theirOut
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_, _ = theirIn.Close(), theirOut.Close()
	r.cmd, r.stdin = cmd, in
	d := &dock{rig: r, in: in, pumped: make(chan struct{})}
	go d.pump(out)
	r.watch(dir, func() {
		if d.Peer != nil {
			_ = d.Close()
		}
		_ = in.Close()
		_ = cmd.Process.Signal(syscall.SIGTERM)
	})
	t.Cleanup(func() { // runs before that of watch
		d.detach()
	})
	return d
}

// pump passes on what the runner says.
func (d *dock) pump(out *os.File) {
	defer close(d.pumped)
	defer out.Close()
	buf := make([]byte, 64<<10)
	for {
		n, err := out.Read(buf)
		d.mu.Lock()
		a, part, last := d.now, 0, false
		if a != nil {
			part = min(n, a.outLeft)
			a.outLeft -= part
			last = a.outLeft == 0
		}
		d.mu.Unlock()
		if part > 0 {
			_, _ = a.w.Write(buf[:part])
		}
		if last {
			_ = a.close()
		}
		if err != nil {
			d.detach()
			return
		}
	}
}

// attach makes a connection; the one before ends.
func (d *dock) attach(outLimit, inLimit int) *attachment {
	d.detach()
	a := &attachment{d: d, outLeft: outLimit, inLeft: inLimit, over: make(chan struct{})}
	a.r, a.w = io.Pipe()
	d.mu.Lock()
	d.now = a
	d.mu.Unlock()
	return a
}

// detach ends the connection as the death of brig does: nobody says a word.
func (d *dock) detach() {
	d.mu.Lock()
	a := d.now
	d.now = nil
	d.mu.Unlock()
	if a != nil {
		_ = a.close()
	}
}

func (a *attachment) close() error {
	a.once.Do(func() {
		_, _ = a.w.Close(), a.r.Close()
		close(a.over)
	})
	return nil
}

func (a *attachment) Write(p []byte) (int, error) {
	a.d.mu.Lock()
	part := min(len(p), a.inLeft)
	a.inLeft -= part
	last := a.inLeft == 0
	a.d.mu.Unlock()
	n, err := a.d.in.Write(p[:part])
	if last {
		err = errors.Join(err, io.ErrClosedPipe)
		_ = a.close()
	}
	return n, err
}

// cut changes the limits of the current connection to so much from here on.
func (d *dock) cut(outLimit, inLimit int) *attachment {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.now.outLeft, d.now.inLeft = outLimit, inLimit
	return d.now
}

func (d *dock) peer(outLimit, inLimit int) *wire.Peer {
	a := d.attach(outLimit, inLimit)
	return wire.NewPeer(a.r, a, wire.PeerOptions{RingBytes: 64 << 20, Close: a.close})
}

// lose ends the connection and what brig had of it.
func (d *dock) lose() {
	d.detach()
	_ = d.Close()
}

func (d *dock) knock() {
	d.t.Helper()
	if err := d.cmd.Process.Signal(syscall.SIGUSR1); err != nil {
		d.t.Fatalf("knock: %v\n%s", err, d.stderr)
	}
}

// resume comes back as another brig does. The limits are those of the new connection.
func (d *dock) resume(outLimit, inLimit int) wire.Resumed {
	d.t.Helper()
	a := d.attach(outLimit, inLimit)
	d.knock()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	peer, resumed, err := wire.Resume(ctx, a.r, a, d.secret, wire.PeerOptions{RingBytes: 64 << 20, Close: a.close})
	if err != nil {
		d.t.Fatalf("resume: %v\n%s", err, d.stderr)
	}
	d.Peer = peer
	return resumed
}
