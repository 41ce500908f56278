package runner

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"brig/orchestrator/wire"
)

// TestLeaseEnds: a runner that hears nothing ends after its lease and not before,
// with everything below it, whether its input has ended or not.
func TestLeaseEnds(t *testing.T) {
	const lease = time.Second
	each(t, func(t *testing.T, p interpreter) {
		for _, name := range []string{"silence", "EOF", "wrong knocks"} {
			t.Run(name, func(t *testing.T) {
				d := keep(t, p, lease)
				run := d.background("import os, signal, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\nprint('ready', flush=True)\nwhile True: time.sleep(100)")
				run.until(t, "ready")
				begin := time.Now() // the last frame went before
				d.lose()
				switch name {
				case "EOF":
					_ = d.in.Close()
				case "wrong knocks":
					for range 5 {
						d.knock()
						_, _ = d.in.Write(make([]byte, 1000))
						time.Sleep(50 * time.Millisecond)
					}
				}
				if status := d.waited(); status != 0 {
					t.Errorf("exit status %d", status)
				}
				if took := time.Since(begin); took < lease/2 {
					t.Errorf("it ended after %v", took)
				}
				<-run.done
			})
		}
	})
}

// TestLeaseRenewed: any frame renews it, and a frame that waits for a runner that
// was stopped for longer does too.
func TestLeaseRenewed(t *testing.T) {
	const lease = time.Second
	each(t, func(t *testing.T, p interpreter) {
		d := keep(t, p, lease)
		for begin := time.Now(); time.Since(begin) < 2*lease; time.Sleep(lease / 10) {
			if err := d.Ping(limited(t)); err != nil {
				t.Fatal(err)
			}
		}
		if err := d.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		pinged := make(chan error, 1)
		go func() { pinged <- d.Ping(limited(t)) }()
		time.Sleep(lease + lease/2)
		if err := d.cmd.Process.Signal(syscall.SIGCONT); err != nil {
			t.Fatal(err)
		}
		if err := <-pinged; err != nil {
			t.Errorf("a ping that waited: %v", err)
		}
	})
}

// TestLeaseIdle: waiting for brig costs nothing, also after the end of the input.
func TestLeaseIdle(t *testing.T) {
	each(t, func(t *testing.T, p interpreter) {
		d := keep(t, p, lease)
		d.ok("1")
		d.lose()
		_ = d.in.Close()
		used := func() time.Duration {
			data, err := os.ReadFile(sprintf("/proc/%d/schedstat", d.cmd.Process.Pid))
			if err != nil {
				t.Fatal(err)
			}
			return time.Duration(numbers(string(data))[0])
		}
		time.Sleep(100 * time.Millisecond)
		before := used()
		time.Sleep(500 * time.Millisecond)
		if spent := used() - before; spent > 100*time.Millisecond {
			t.Errorf("%v of processor time in half a second", spent)
		}
	})
}

// TestNotResumable: where the promise cannot be kept it is not given, and the end
// of the input is the end.
func TestNotResumable(t *testing.T) {
	each(t, func(t *testing.T, p interpreter) {
		h := hello()
		h.Lease, h.Resume = lease, wire.NewSecret()
		if r := startWith(t, p, h); r.ready.Resumable { // it closes its input at the end, and is waited for
			t.Error("resumable without a process namespace of its own")
		}
		without := filepath.Join(shared.dir, "without-ctypes-"+p.minor+".py")
		program := sprintf("import sys\nsys.modules['_ctypes'] = None\npath = %q\nexec(compile(open(path).read(), path, 'exec'), {'__name__': '__main__', '__file__': path})\n", shared.script)
		if err := os.WriteFile(without, []byte(program), 0o644); err != nil {
			t.Fatal(err)
		}
		d := keepAs(t, p, lease, without)
		if d.ready.Resumable {
			t.Error("resumable without _ctypes")
		}
		d.lose()
		_ = d.in.Close()
		d.waited()

		d = launchKept(t, p, shared.script)
		d.Peer = d.peer(unlimited, unlimited)
		if greet(t, d.rig, hello()); d.ready.Resumable {
			t.Error("resumable without a lease")
		}
		d.ok("import os; os.kill(1, 10)") // of no meaning
		d.lose()
		_ = d.in.Close()
		d.waited()
	})
}

// TestLeaseRefused: a lease without a secret, or the other way round, is no hello.
func TestLeaseRefused(t *testing.T) {
	r := launch(t, shared.interpreters[0])
	h := hello()
	h.Workspace, h.Scratch, h.Lease = r.workspace, r.scratch, time.Second
	if _, err := r.Hello(limited(t), h); err == nil || errors.As(err, new(*wire.LostError)) {
		t.Errorf("a lease without a secret: %v", err)
	}
}
