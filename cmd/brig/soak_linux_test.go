package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"brig/hostfallback"
	"brig/images"
	"brig/orchestrator"
	"brig/orchestrator/config"
	"brig/orchestrator/docker"
	"brig/orchestrator/owner"
	"brig/orchestrator/sandbox"
	"brig/orchestrator/sandbox/sandboxtest"
	"brig/orchestrator/wire"
)

// longVar asks for the full numbers, which take minutes.
const longVar = "BRIG_TEST_LONG"

// living is a brig that stays, over the real backends, in directories of its own.
type living struct {
	*orchestrator.Orchestrator
	owner *owner.Owner
}

// liveBrig makes one for a kind of backend, and skips where that cannot be used here.
func liveBrig(t testing.TB, kind sandbox.Kind, edit ...func(*orchestrator.Options)) *living {
	t.Helper()
	if kind == sandbox.Docker {
		if out, err := exec.CommandContext(t.Context(), "docker", "version", "--format", "{{.Server.Version}}").CombinedOutput(); err != nil {
			sandboxtest.Skip(t, "a container engine and its command", strings.TrimSpace(string(out)))
		}
	} else if _, err := exec.LookPath("python3"); err != nil {
		sandboxtest.Skip(t, "python3 on PATH", "none")
	}
	dir := t.TempDir()
	own, err := owner.Open(filepath.Join(dir, "state"))
	must(t, err)
	engine, err := docker.New(docker.Options{
		Env: os.LookupEnv, Owner: own.ID(), Process: own.Token(), Images: images.New(images.Options{Env: os.LookupEnv}),
	})
	must(t, err)
	host, err := hostfallback.New(hostfallback.Options{
		Env: os.LookupEnv, Cache: filepath.Join(dir, "cache"), Runtime: filepath.Join(dir, "run"), Owner: own.ID(),
	})
	must(t, err)
	o := orchestrator.Options{
		Backends: []sandbox.Backend{engine, host}, Config: config.Default(), Owner: own,
		Paths: config.Paths{State: filepath.Join(dir, "state"), Data: filepath.Join(dir, "data")},
	}
	o.Config.Execution.Backend, o.Config.Execution.Fallback = kind, config.None
	o.Config.Docker.Tier = config.TierCore
	// Without one, whatever stands first on PATH, which may be slow to say what it is.
	o.Config.Host.Python, _, _ = strings.Cut(os.Getenv("BRIG_TEST_PYTHONS"), string(os.PathListSeparator))
	for _, f := range edit {
		f(&o)
	}
	l := &living{owner: own}
	l.Orchestrator, err = orchestrator.New(o)
	must(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		for _, end := range []func(context.Context) error{l.Close, engine.Close, host.Close} {
			if err := end(ctx); err != nil {
				t.Error(err)
			}
		}
		if kind == sandbox.Docker {
			if left := l.containers(t); left != 0 {
				t.Errorf("%d containers are left after the end", left)
			}
		}
		if err := own.Close(); err != nil {
			t.Error(err)
		}
	})
	return l
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// containers counts what this brig has on the engine.
func (l *living) containers(t testing.TB) int {
	t.Helper()
	out, err := exec.CommandContext(context.WithoutCancel(t.Context()), "docker", "ps", "--all", "--quiet", "--filter", "label=dev.brig.owner="+l.owner.ID()).Output()
	if err != nil {
		t.Fatalf("count containers: %v", err)
	}
	return len(strings.Fields(string(out)))
}

// session opens one, runs something in it and closes it.
func (l *living) session(ctx context.Context, n int) error {
	s, err := l.Open(ctx, orchestrator.SessionOptions{})
	if err != nil {
		return err
	}
	var out strings.Builder
	r, err := s.Run(ctx, orchestrator.RunRequest{Source: fmt.Appendf(nil, "open('f', 'w').write('x' * 1000)\nprint(%d)", n)}, func(e wire.Event) error {
		out.Write(e.Data)
		return nil
	})
	if err == nil && (r.Cause != sandbox.OK || out.String() != fmt.Sprintln(n)) {
		err = fmt.Errorf("session %d: cause %s (%s), output %q", n, r.Cause, r.Detail, out.String())
	}
	closeErr := s.Close(ctx)
	if err == nil {
		err = closeErr
	}
	return err
}

// sessions uses so many, from several clients at the same time.
func (l *living) sessions(t *testing.T, clients, n int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	next := make(chan int)
	var wg sync.WaitGroup
	for range clients {
		wg.Go(func() {
			for i := range next {
				if err := l.session(ctx, i); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	wg.Wait()
}

// held is what a process holds.
type held struct {
	containers, goroutines, descriptors, threads int
	heap                                         int64
}

func (l *living) held(t *testing.T, kind sandbox.Kind) held {
	t.Helper()
	var h held
	if kind == sandbox.Docker {
		h.containers = l.containers(t)
	}
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	h.heap, h.goroutines = int64(m.HeapAlloc), runtime.NumGoroutine()
	open, err := os.ReadDir("/proc/self/fd")
	must(t, err)
	h.descriptors = len(open)
	status, err := os.ReadFile("/proc/self/status")
	must(t, err)
	for line := range strings.Lines(string(status)) {
		if value, found := strings.CutPrefix(line, "Threads:"); found {
			h.threads, err = strconv.Atoi(strings.TrimSpace(value))
			must(t, err)
		}
	}
	return h
}

// rested waits until a brig does nothing: its pool is full.
func (l *living) rested(t *testing.T, want int) {
	t.Helper()
	for end := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		ready := 0
		status := l.PoolStatus()
		for _, s := range status.Shelves {
			ready += s.Ready - s.Preparing
		}
		if ready == want {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("the pool does not fill: %+v", status)
		}
	}
}

// TestSoak: many sessions leave nothing, with and without the pool.
func TestSoak(t *testing.T) {
	n := 24
	if os.Getenv(longVar) != "" {
		n = 200
	}
	for _, kind := range []sandbox.Kind{sandbox.Docker, sandbox.Host} {
		for _, warm := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/warm=%t", kind, warm), func(t *testing.T) { soak(t, kind, warm, n) })
		}
	}
}

func soak(t *testing.T, kind sandbox.Kind, warm bool, n int) {
	const clients = 8
	spare := 0
	l := liveBrig(t, kind, func(o *orchestrator.Options) {
		if o.Warm = warm; warm {
			spare = 4
			o.Config.Pool.Docker, o.Config.Pool.Host = spare, spare
		}
	})
	l.sessions(t, clients, 2*clients) // what is made once is made now
	l.rested(t, spare)
	before := l.held(t, kind)
	began := time.Now()
	l.sessions(t, clients, n)
	took := time.Since(began)
	l.rested(t, spare)
	var after held
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		// Connections and goroutines that nobody waits for end a moment later.
		after = l.held(t, kind)
		if after.containers == spare*onlyDocker(kind) && after.goroutines <= before.goroutines+2 && after.descriptors <= before.descriptors+2 || time.Now().After(end) {
			break
		}
	}
	t.Logf("%d sessions by %d clients in %s: before %+v, after %+v, pool %+v", n, clients, took.Round(time.Millisecond), before, after, l.PoolStatus().PoolCounts)
	if after.containers != spare*onlyDocker(kind) {
		t.Errorf("%d containers are left, want %d", after.containers, spare*onlyDocker(kind))
	}
	for _, c := range []struct {
		what               string
		before, after, may int64
	}{
		{"goroutines", int64(before.goroutines), int64(after.goroutines), 2},
		{"file descriptors", int64(before.descriptors), int64(after.descriptors), 2},
		// The runtime keeps threads that it has once needed.
		{"threads", int64(before.threads), int64(after.threads), 8},
		{"bytes of heap", before.heap, after.heap, 1 << 20},
	} {
		if c.after > c.before+c.may {
			t.Errorf("%s grew from %d to %d over %d sessions", c.what, c.before, c.after, n)
		}
	}
	if status := l.PoolStatus(); warm && status.Warm == 0 || !warm && status.Warm > 0 || status.Failed+status.Lost+status.Unbound > 0 {
		t.Errorf("the pool: %+v", status)
	}
}

func onlyDocker(kind sandbox.Kind) int {
	if kind == sandbox.Docker {
		return 1
	}
	return 0
}
