package docker

import (
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"brig/images"
	"brig/orchestrator/docker/enginetest"
	"brig/orchestrator/sandbox"
	"brig/orchestrator/wire"
)

// stalling passes connections on to a socket until it is told to stand still: what is
// sent to the engine from then on is read by nobody, and no connection ends.
type stalling struct {
	endpoint string
	still    atomic.Bool
}

func newStalling(t *testing.T, socket string) *stalling {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &stalling{endpoint: "tcp://" + l.Addr().String()}
	over := make(chan struct{})
	var work sync.WaitGroup
	work.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			work.Go(func() { s.pass(conn, socket, over, &work) })
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		close(over)
		work.Wait()
	})
	return s
}

func (s *stalling) pass(conn net.Conn, socket string, over chan struct{}, work *sync.WaitGroup) {
	defer conn.Close()
	to, err := net.Dial("unix", socket)
	if err != nil {
		return
	}
	defer to.Close()
	work.Go(func() {
		<-over
		_ = conn.Close()
		_ = to.Close()
	})
	work.Go(func() {
		buf := make([]byte, 32<<10)
		for {
			n, err := conn.Read(buf)
			if err == nil && s.still.Load() {
				<-over
				return
			}
			if err == nil {
				_, err = to.Write(buf[:n])
			}
			if err != nil {
				_ = to.Close()
				return
			}
		}
	})
	_, _ = io.Copy(conn, to)
	if s.still.Load() {
		<-over
	}
}

// TestSilence: a container whose connection stands still ends by itself, with the code
// that it runs. One that waits for a session is heard of, and so is an idle one.
func TestSilence(t *testing.T) {
	direct := engineBackend(t, images.Core)
	e, err := direct.current(limited(t))
	if err != nil {
		t.Fatal(err)
	}
	s := newStalling(t, strings.TrimPrefix(e.endpoint, "unix://"))
	b := newBackend(t, func(o *Options) { o.Endpoint = s.endpoint })
	b.patience.silence = 4 * time.Second
	directory := t.TempDir()
	p, err := b.Prepare(limited(t), coreBase(), directory)
	if err != nil {
		t.Fatal(err)
	}
	time.Sleep(2 * b.patience.silence)
	bound, err := p.Bind(limited(t), sandbox.Claim{ID: "silence-1", Session: "silence", Workspace: directory})
	if err != nil {
		t.Fatal(err)
	}
	i := bound.(*instance)
	time.Sleep(2 * b.patience.silence)
	ended := make(chan error, 1)
	printed := make(chan struct{}, 1)
	go func() {
		_, err := i.Run(limited(t), wire.Run{ID: "r1", Source: []byte("print('on', flush=True)\nwhile True: pass")}, func(e wire.Event) error {
			if e.Kind == wire.EventStdout {
				printed <- struct{}{}
			}
			return nil
		})
		ended <- err
	}()
	<-printed
	s.still.Store(true)
	box := &box{engine: e, id: i.box.id}
	for until := time.Now().Add(b.patience.silence + 15*time.Second); box.look(limited(t)) != sightEnded; time.Sleep(100 * time.Millisecond) {
		if time.Now().After(until) {
			t.Fatal("the code runs on, and nobody hears it")
		}
	}
	<-ended
	_ = i.Close(limited(t)) // the engine does not answer on that way
}

// TestSilentStart: an engine that falls silent in the middle of a start is given up,
// and somebody who waits is told before.
func TestSilentStart(t *testing.T) {
	built := builtEngine(t)
	for _, op := range []enginetest.Op{enginetest.Create, enginetest.Attach, enginetest.Start, enginetest.Inspect} {
		t.Run(string(op), func(t *testing.T) {
			t.Parallel()
			e := fakeEngine(t, enginetest.Options{Images: built})
			b := fakeBackend(t, e)
			b.patience.start = sayAfter + 2*time.Second
			said := make(chan string, 100)
			b.options.Progress = func(p images.Progress) { said <- p.Text }
			injected := e.Inject(enginetest.Fault{Op: op, Hold: true})
			go func() {
				<-injected.Met()
				e.Hang()
			}()
			began := time.Now()
			p, err := b.Prepare(limited(t), coreBase(), t.TempDir())
			if err == nil {
				_ = p.Close(limited(t))
				t.Fatal("it succeeded")
			}
			if took, bound := time.Since(began), b.patience.start+createGrace+undoTimeout+reachTimeout+5*time.Second; took > bound {
				t.Errorf("it took %s, more than %s: %v", took, bound, err)
			}
			if unavailable := new(sandbox.Unavailable); !errors.As(err, &unavailable) || unavailable.Code != "engine-hung" {
				t.Errorf("%v", err)
			}
			select {
			case text := <-said:
				if text != "waiting for the engine at "+e.Endpoint() {
					t.Errorf("said %q", text)
				}
			default:
				t.Error("nothing was said")
			}
			injected.Clear()
			e.Resume()
		})
	}
}
