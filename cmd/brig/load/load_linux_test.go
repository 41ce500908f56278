package load

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"brig/orchestrator/api"
)

// TestLoad: many clients that do everything at the same time meet declared limits and
// nothing else, and what brig takes does not grow with what it has done.
func TestLoad(t *testing.T) {
	clients, sessions, length := 16, 6, 12*time.Second
	if long() {
		clients, sessions, length = 64, 24, 3*time.Minute
	}
	for _, backend := range []string{"host", "docker"} {
		t.Run(backend, func(t *testing.T) {
			if backend == "docker" && !long() {
				clients, sessions = 8, 3
			}
			b := newBrig(t, backend, "BRIG_LIMITS_SESSIONS=96", "BRIG_POOL_HOST=2", "BRIG_POOL_DOCKER=2")
			b.up()
			met := newTally()
			ctx, stop := context.WithCancel(context.Background())
			defer stop()
			var running, watching sync.WaitGroup
			over := make(chan struct{})
			for i := range clients {
				role := api.Agent
				if i%2 == 0 {
					role = api.Operator
				}
				c := b.client(role)
				t.Cleanup(c.Close)
				name := fmt.Sprintf("shared-%s-%d", role, i/2%(sessions/2))
				if _, _, err := c.OpenSession(ctx, api.SessionRequest{Name: name}); err != nil {
					t.Fatal(err)
				}
				if i%16 == 0 {
					watching.Go(func() { _ = c.Watch(ctx, 0, func(api.Event) error { return nil }) })
				}
				m := newMixer(c, i, name)
				running.Go(func() {
					for {
						select {
						case <-over:
							return
						default:
						}
						began := time.Now()
						kind, err := m.step(ctx)
						met.note(kind, err, time.Since(began)-m.queued)
						m.queued = 0
						time.Sleep(time.Duration(rand.IntN(100)) * time.Millisecond)
					}
				})
			}
			time.Sleep(length / 3)
			early := b.measure()
			time.Sleep(length / 3)
			middle := b.measure()
			time.Sleep(length / 3)
			late := b.measure()
			close(over)
			time.AfterFunc(time.Minute, stop) // a call that has not ended by then shows as a problem
			running.Wait()
			stop()
			watching.Wait()
			report(t, met, early, middle, late)
			b.closeAll(t, fmt.Sprintf("shared-%s-0", api.Operator))
			b.down()
		})
	}
}

func report(t *testing.T, met *tally, early, middle, late figures) {
	t.Helper()
	met.mu.Lock()
	defer met.mu.Unlock()
	total := 0
	for _, n := range met.calls {
		total += n
	}
	median, p99 := percentile(met.live, 0.5), percentile(met.live, 0.99)
	t.Logf("%d calls, declared limits %v; a small run: median %s, p99 %s, ratio %.1f", total, met.limited, median, p99, float64(p99)/float64(max(1, median)))
	for _, kind := range slices.Sorted(maps.Keys(met.calls)) {
		t.Logf("  %-10s %d", kind, met.calls[kind])
	}
	t.Logf("after one third: %s\nafter two thirds: %s\nat the end: %s", early, middle, late)
	for _, p := range met.problems[:min(len(met.problems), 20)] {
		t.Error(p)
	}
	if more := len(met.problems) - 20; more > 0 {
		t.Errorf("and %d more", more)
	}
	if !long() {
		return
	}
	if late.heap > middle.heap+middle.heap/4+8<<20 {
		t.Errorf("the heap grows: %d, then %d bytes", middle.heap, late.heap)
	}
	if late.files > middle.files+48 {
		t.Errorf("descriptors grow: %d, then %d", middle.files, late.files)
	}
	if p99 > 10*median {
		t.Errorf("one in a hundred small runs took %s, the median is %s", p99, median)
	}
}
