package load

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	mathrand "math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"brig/orchestrator/api"
)

// TestKill: a brig that is killed at any moment under load has lost nothing that it had
// acknowledged, and leaves nothing behind that the next one does not find.
func TestKill(t *testing.T) {
	clients, kills, backends := 3, 1, []string{"host"} // the ledger is asked for at the pace that one credential has
	if long() {
		clients, kills, backends = 64, 20, []string{"host", "docker"}
	}
	for _, backend := range backends {
		t.Run(backend, func(t *testing.T) {
			b := newBrig(t, backend, "BRIG_LIMITS_SESSIONS=96", "BRIG_RECORDS_RUNS=100000", "BRIG_LIMITS_IDLE=2h")
			whole := newLedger()
			for round := range kills + 1 {
				b.up()
				fresh := newLedger()
				if round < kills {
					b.round(t, round, clients, fresh)
					b.kill()
					b.up()
				}
				c := b.client(api.Operator)
				ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
				whole.add(fresh)
				look := fresh
				if round == kills {
					look = whole // what was there after one kill is there after all of them
				}
				for _, p := range look.check(ctx, c) {
					t.Errorf("after kill %d: %s", round+1, p)
				}
				cancel()
				c.Close()
				t.Logf("round %d: acknowledged %d sessions, %d files, %d datasets, %d runs", round+1, len(look.sessions), len(look.files), len(look.datasets), len(look.runs))
				if round < kills || t.Failed() {
					b.kill()
				}
				if t.Failed() {
					return
				}
			}
			b.closeAll(t, "s0")
			b.down()
			if err := b.verify(); err != nil {
				t.Error(err)
			}
		})
	}
}

// round has clients work until the brig is killed under them.
func (b *brig) round(t *testing.T, round, clients int, l *ledger) {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	var killed atomic.Bool
	var running sync.WaitGroup
	for i := range clients {
		c := b.client(api.Operator)
		running.Go(func() {
			defer c.Close()
			for n := 0; ctx.Err() == nil; n++ {
				err := work(ctx, c, fmt.Sprintf("s%d", i%8), fmt.Sprintf("r%d-c%d-%d", round, i, n), n, l)
				if killed.Load() {
					return
				}
				if _, limit := declared(err); err != nil && !limit && ctx.Err() == nil {
					// The kill may be under way and not yet noted.
					if time.Sleep(200 * time.Millisecond); !killed.Load() {
						t.Errorf("before the kill: %v", err)
					}
					return
				}
			}
		})
	}
	at := 300 + mathrand.IntN(500)
	if long() {
		at = 500 + mathrand.IntN(2500)
	}
	time.Sleep(time.Duration(at) * time.Millisecond)
	killed.Store(true)
	_ = b.cmd.Process.Kill()
	<-b.ended
	stop()
	running.Wait()
}

// work makes one call and notes what was acknowledged.
func work(ctx context.Context, c api.Brig, session, name string, n int, l *ledger) error {
	switch n % 6 {
	case 0:
		s, created, err := c.OpenSession(ctx, api.SessionRequest{Name: session})
		if err == nil {
			l.put(func() {
				if l.sessions[session] == "" {
					l.found[session] = true
				}
				l.sessions[session], l.found[session] = s.ID, l.found[session] && !created
			})
		}
		return err
	case 1, 2:
		content := make([]byte, 1+mathrand.IntN(200<<10))
		rand.Read(content)
		_, err := c.WriteFile(ctx, session, "f/"+name, bytes.NewReader(content), api.WriteOptions{})
		if err == nil {
			l.put(func() { l.files[key(session, "f/"+name)] = sha256.Sum256(content) })
		}
		return err
	case 3:
		path := "d/" + name + ".csv"
		if _, err := c.WriteFile(ctx, session, path, bytes.NewReader([]byte("a,b\n1,2\n")), api.WriteOptions{}); err != nil {
			return err
		}
		_, err := c.PutDataset(ctx, session, name, api.DatasetRequest{Path: path})
		if err == nil {
			l.put(func() { l.datasets[key(session, name)] = path })
		}
		return err
	case 4:
		r, err := c.Start(ctx, session, api.RunRequest{Code: "print('" + name + "')"}, api.RunOptions{Key: name})
		if err == nil {
			l.put(func() {
				if l.runs[r.ID] == "" {
					l.runs[r.ID] = accepted
				}
			})
		}
		return err
	default:
		r, err := c.Run(ctx, session, api.RunRequest{Code: "print('" + name + "')"}, api.RunOptions{}, nil)
		if err == nil && r.Cause == "ok" {
			l.put(func() { l.runs[r.ID] = r.Stdout.Text })
		}
		return err
	}
}

func (l *ledger) add(o *ledger) {
	for k, v := range o.sessions {
		l.sessions[k], l.found[k] = v, o.found[k] && (l.found[k] || l.sessions[k] == "")
	}
	for k, v := range o.files {
		l.files[k] = v
	}
	for k, v := range o.datasets {
		l.datasets[k] = v
	}
	for k, v := range o.runs {
		l.runs[k] = v
	}
}

// closeAll ends every session, after having made sure that an orphan would be seen.
func (b *brig) closeAll(t *testing.T, live string) {
	c := b.client(api.Operator)
	defer c.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	if _, err := c.Run(ctx, live, api.RunRequest{Code: "1"}, api.RunOptions{}, nil); err != nil {
		t.Error(err)
	}
	if len(b.processes()) == 0 {
		t.Error("the session that runs was not seen, so an orphan would not be")
	}
	for {
		list, err := c.Sessions(ctx, api.Page{})
		if err != nil {
			t.Error(err)
		}
		if len(list.Sessions) == 0 {
			return
		}
		for _, s := range list.Sessions {
			if err := c.CloseSession(ctx, s.ID); err != nil && !api.IsProblem(err, api.CodeNotFound) && !api.IsProblem(err, api.CodeGone) {
				t.Errorf("close %s: %v", s.Name, err)
				return
			}
		}
	}
}
