package orchestrator

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"brig/images"
	"brig/orchestrator/config"
	"brig/orchestrator/docker"
	"brig/orchestrator/owner"
	"brig/orchestrator/sandbox"
	"brig/orchestrator/sandbox/sandboxtest"
	"brig/orchestrator/store"
	"brig/orchestrator/wire"
)

// These tell a copy of this test binary that it is a brig which is going to be killed.
const (
	childDir   = "BRIG_KEEP_TEST_DIR"
	childKeep  = "BRIG_KEEP_TEST_KEEP"
	childLease = "BRIG_KEEP_TEST_LEASE"
)

// childSessions is how many sessions such a brig opens.
const childSessions = 3

func TestMain(m *testing.M) {
	if dir := os.Getenv(childDir); dir != "" {
		fmt.Fprintln(os.Stderr, liveAndBeKilled(dir))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// realBrig is one brig over a real engine; end lets go of everything it has open.
type realBrig struct {
	*Orchestrator
	own *owner.Owner
	end func() error
}

// openBrig makes one in dir, with only the docker backend.
func openBrig(ctx context.Context, dir string, keep bool) (*realBrig, error) {
	paths := config.Paths{State: filepath.Join(dir, "state"), Data: filepath.Join(dir, "data")}
	own, err := owner.Open(paths.State)
	if err != nil {
		return nil, err
	}
	engine, err := docker.New(docker.Options{
		Env: os.LookupEnv, Owner: own.ID(), Process: own.Token(), Images: images.New(images.Options{Env: os.LookupEnv}),
	})
	if err != nil {
		return nil, err
	}
	db, _, err := store.Open(ctx, store.Options{Dir: paths.State, Owner: own.ID(), Process: own.Token()})
	if err != nil {
		return nil, err
	}
	o := Options{Backends: []sandbox.Backend{engine}, Config: config.Default(), Paths: paths, Owner: own, Store: db}
	o.Config.Execution.Fallback, o.Config.Docker.Tier = config.None, config.TierCore
	o.Config.Orchestrator.KeepSessions = keep
	orc, err := New(o)
	if err != nil {
		return nil, err
	}
	return &realBrig{orc, own, func() error {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		return errors.Join(orc.Close(ctx), engine.Close(ctx), db.Close(), own.Close())
	}}, nil
}

// liveAndBeKilled opens sessions with a variable and a file each, leaves the last
// one in the middle of a run, says so and waits for its end.
func liveAndBeKilled(dir string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 15*time.Minute)
	defer cancel()
	b, err := openBrig(ctx, dir, os.Getenv(childKeep) != "")
	if err != nil {
		return err
	}
	if text := os.Getenv(childLease); text != "" {
		if b.lease, err = time.ParseDuration(text); err != nil {
			return err
		}
	}
	for n := range childSessions {
		s, err := b.Open(ctx, SessionOptions{Name: fmt.Sprint("s", n)})
		if err != nil {
			return err
		}
		if _, err := python(ctx, s, fmt.Sprintf("x = %d\nopen('f', 'w').write('file %d')", n, n)); err != nil {
			return err
		}
		if n == childSessions-1 {
			_, err := s.Run(ctx, RunRequest{Source: []byte("y = 1\nprint('on', flush=True)\nimport time\nwhile True: time.sleep(1)")}, func(wire.Event) error {
				_, err := fmt.Println("ready")
				return err
			})
			return fmt.Errorf("the endless run has ended: %w", err)
		}
	}
	panic("BUG: no session was left running")
}

// python runs code to a good end and gives its standard output.
func python(ctx context.Context, s *Session, code string) (string, error) {
	r, out, err := pythonResult(ctx, s, code)
	if err == nil && r.Cause != sandbox.OK {
		err = fmt.Errorf("run %q: cause %s (%s), exception %+v", code, r.Cause, r.Detail, r.Exception)
	}
	return out, err
}

func pythonResult(ctx context.Context, s *Session, code string) (Result, string, error) {
	var out output
	r, err := s.Run(ctx, RunRequest{Source: []byte(code)}, out.emit)
	return r, out.stdout.String(), err
}

// killedBrig lets a brig live in dir and kills it in the middle of a run.
func killedBrig(t *testing.T, dir string, keep bool, lease time.Duration) {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), exe)
	cmd.Env = append(os.Environ(), childDir+"="+dir)
	if keep {
		cmd.Env = append(cmd.Env, childKeep+"=1")
	}
	if lease > 0 {
		cmd.Env = append(cmd.Env, childLease+"="+lease.String())
	}
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err := cmd.Process.Kill(); err != nil {
		t.Error(err)
	}
	_ = cmd.Wait() // killed: an error by design
	if line != "ready\n" {
		t.Fatalf("the other brig said %q: %v", line, err)
	}
}

// nextBrig is a brig of this process in dir.
func nextBrig(t *testing.T, dir string) *realBrig {
	t.Helper()
	b, err := openBrig(t.Context(), dir, true)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.end(); err != nil {
			t.Error(err)
		}
	})
	return b
}

// needEngine skips where no engine answers.
func needEngine(t *testing.T) {
	t.Helper()
	if out, err := exec.CommandContext(t.Context(), "docker", "version", "--format", "{{.Server.Version}}").CombinedOutput(); err != nil {
		sandboxtest.Skip(t, "a container engine and its command", strings.TrimSpace(string(out)))
	}
}

// containers lists the ids of an owner's.
func containers(t *testing.T, owner string, filters ...string) []string {
	t.Helper()
	args := append([]string{"ps", "--all", "--quiet", "--filter", "label=dev.brig.owner=" + owner}, filters...)
	out, err := exec.CommandContext(t.Context(), "docker", args...).Output()
	if err != nil {
		t.Fatalf("list containers: %v", err)
	}
	return strings.Fields(string(out))
}

// noContainers waits until an owner has none.
func noContainers(t *testing.T, owner string, within time.Duration, filters ...string) {
	t.Helper()
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for began := time.Now(); ; <-tick.C {
		left := containers(t, owner, filters...)
		if len(left) == 0 {
			return
		}
		if time.Since(began) > within {
			t.Errorf("containers are left after %s: %v", within, left)
			return
		}
	}
}
