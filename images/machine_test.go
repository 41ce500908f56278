package images

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// holdLock names the cache directory to a copy of this test that plays another brig.
const holdLock = "BRIG_IMAGES_TEST_HOLD"

func TestMain(m *testing.M) {
	cache := os.Getenv(holdLock)
	if cache == "" {
		os.Exit(m.Run())
	}
	if _, err := New(Options{Cache: cache}).lock(context.Background(), Machine{ID: "memory"}, Choice{Tier: Core}, func(Progress) {}); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println("held")
	_, _ = bufio.NewReader(os.Stdin).ReadByte()
	os.Exit(0)
}

// TestOneBuildPerMachine: of many brigs at once, one builds.
func TestOneBuildPerMachine(t *testing.T) {
	e, cache := newMemoryEngine(), t.TempDir()
	var together, most atomic.Int32
	e.building = func() {
		if n := together.Add(1); n > most.Load() {
			most.Store(n)
		}
		defer together.Add(-1)
		<-time.After(20 * time.Millisecond) // long enough for the others to come
	}
	var wg sync.WaitGroup
	for n := range 8 {
		wg.Go(func() {
			tier := Core
			if n%2 == 0 {
				tier = Standard
			}
			if _, err := New(Options{Cache: cache}).Ensure(t.Context(), e, Choice{Tier: tier}, nil); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if e.builds != 2 || most.Load() != 1 {
		t.Errorf("%d builds, %d at once", e.builds, most.Load())
	}
}

// TestADeadBuilderBlocksNobody: waiting is told, ends with the context, and a
// builder that is killed has given up its lock.
func TestADeadBuilderBlocksNobody(t *testing.T) {
	e, cache := newMemoryEngine(), t.TempDir()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	other := exec.CommandContext(t.Context(), exe)
	other.Env = append(os.Environ(), holdLock+"="+cache)
	other.Stderr = os.Stderr
	in, err := other.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	out, err := other.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || line != "held\n" {
		t.Fatalf("%q, %v", line, err)
	}

	waiting := make(chan struct{})
	var once sync.Once
	note := func(p Progress) {
		if p.Note && strings.Contains(p.Text, fmt.Sprintf("(process %d builds the core image); waiting for it, at most 20m0s", other.Process.Pid)) {
			once.Do(func() { close(waiting) })
		}
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	gaveUp := make(chan error, 1)
	go func() {
		_, err := New(Options{Cache: cache}).Ensure(ctx, e, Choice{Tier: Core}, note)
		gaveUp <- err
	}()
	<-waiting
	stop := errors.New("no patience")
	cancel(stop)
	if err := <-gaveUp; !errors.Is(err, stop) || e.builds != 0 {
		t.Errorf("%v, %d builds", err, e.builds)
	}

	if err := other.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = other.Wait()
	if ref := ensure(t, New(Options{Cache: cache}), e, Core); !ref.Built {
		t.Errorf("%+v", ref)
	}
}

func TestLastUse(t *testing.T) {
	e, cache := newMemoryEngine(), t.TempDir()
	before := time.Now().Add(-2 * time.Second)
	first := ensure(t, New(Options{Cache: cache}), e, Core)
	again := ensure(t, New(Options{Cache: cache}), e, Core)
	if again.ID != first.ID || again.Used.Before(before) {
		t.Errorf("used %s", again.Used)
	}
	if other := ensure(t, New(Options{}), e, Core); !other.Used.IsZero() {
		t.Errorf("without a cache it was used %s", other.Used)
	}
}

// TestAKilledBuildLeavesOneName: the next build takes it up and removes it.
func TestAKilledBuildLeavesOneName(t *testing.T) {
	e, cache := newMemoryEngine(), t.TempDir()
	left := "brig.invalid/base:" + New(Options{Cache: cache}).pinName(Choice{Tier: Core})
	e.pins[left] = "sha256:an-older-base"
	ensure(t, New(Options{Cache: cache}), e, Core) // fails the test if a name is left
	if got := e.last.Args["BASE"]; got != left {
		t.Errorf("built on %s, not on %s", got, left)
	}
	if other := New(Options{Cache: t.TempDir()}).pinName(Choice{Tier: Core}); strings.HasSuffix(left, other) {
		t.Error("two installations share a name")
	}
}
