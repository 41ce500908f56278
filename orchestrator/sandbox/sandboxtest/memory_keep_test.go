package sandboxtest

import (
	"errors"
	"os"
	"testing"
	"time"

	"brig/orchestrator/sandbox"
	"brig/orchestrator/wire"
)

func leased(d time.Duration) sandbox.Base { return sandbox.Base{Lease: d} }

// TestMemoryCrash: what a killed brig held lives on where it has a lease, and
// closing the old view of it does not harm the one that adopted it.
func TestMemoryCrash(t *testing.T) {
	s := memorySuite(t, MemoryOptions{Owner: "me"})
	m := s.backend.(*Memory)
	kept, mortal := s.ownWith(t, leased(ages)), s.own(t)
	kept.ok(t, Program{Set("n", 5)})
	l := kept.start(limited(t), t, Program{Print("ready"), Spin()})
	l.until(t, "ready\n")
	a := sandbox.Adoption{
		Handle: kept.Instance.(sandbox.Keepable).Handle(), ID: kept.ID(), Base: leased(ages), Workspace: kept.workspace,
	}
	m.Crash()
	for _, b := range []*box{kept, mortal} {
		b.awaitDone(t)
		if b.Cause().Cause != sandbox.BackendLost {
			t.Errorf("cause %+v", b.Cause())
		}
	}
	asLost(t, l.wait().err)
	if m.Instances() != 1 {
		t.Fatalf("%d instances are left", m.Instances())
	}
	later := m.Successor()
	i, err := later.Adopt(limited(t), a)
	if err != nil {
		t.Fatal(err)
	}
	b := &box{Instance: i, workspace: kept.workspace}
	defer b.mustClose(t)
	kept.mustClose(t)
	if o := b.ok(t, Program{Show("n")}); string(o.stdout) != "5\n" {
		t.Errorf("stdout %q", head(o.stdout))
	}
}

// TestMemoryStuckAdopt: a run that does not end is no reason to lose the instance.
func TestMemoryStuckAdopt(t *testing.T) {
	s := memorySuite(t, MemoryOptions{Owner: "me", Stuck: true})
	m := s.backend.(*Memory)
	kept := s.ownWith(t, leased(ages))
	kept.start(limited(t), t, Program{Print("ready"), Spin()}).until(t, "ready\n")
	a := sandbox.Adoption{
		Handle: kept.Instance.(sandbox.Keepable).Handle(), ID: kept.ID(), Base: leased(ages), Workspace: kept.workspace,
	}
	if err := kept.Instance.(sandbox.Keepable).Detach(limited(t)); err != nil {
		t.Fatal(err)
	}
	if _, err := m.Successor().Adopt(limited(t), a); err == nil || errors.Is(err, sandbox.ErrGone) {
		t.Errorf("adopt: %v", err)
	}
	if n, err := m.Sweep(limited(t), "me", func(sandbox.InstanceID) bool { return false }); n != 1 || err != nil || m.Instances() != 0 {
		t.Errorf("swept %d, %v, %d are left", n, err, m.Instances())
	}
}

func TestMemoryLosePrepared(t *testing.T) {
	s := memorySuite(t, MemoryOptions{})
	m := s.backend.(*Memory)
	bound, p := s.own(t), s.prepared(t, t.TempDir())
	if n := m.LosePrepared(sandbox.Ending{Cause: sandbox.Killed, Detail: "by the test"}); n != 1 {
		t.Errorf("lost %d", n)
	}
	<-p.Done()
	bound.usable(t)
}

// TestMemoryDetached: the whole suite, without a file in the host directory.
func TestMemoryDetached(t *testing.T) {
	f := memoryFactory()
	f.New = func(testing.TB) sandbox.Backend { return NewMemory(MemoryOptions{Owner: f.Owner, Detached: true}) }
	Run(t, f)
	s := memorySuite(t, MemoryOptions{Detached: true})
	b := s.own(t)
	b.ok(t, Program{WriteFile("f", "x")})
	dir := s.backend.(*Memory).Directory(b.ID())
	if _, err := os.Stat(dir + "/f"); err != nil || !b.Posture().Detached {
		t.Errorf("%v, posture %+v", err, b.Posture())
	}
	if entries, err := os.ReadDir(b.workspace); err != nil || len(entries) != 0 {
		t.Errorf("the host directory holds %v, %v", entries, err)
	}
	b.mustClose(t)
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the directory of a closed instance: %v", err)
	}
}

// TestMemoryCounters: what a test sets is what is read, whatever the runner says.
func TestMemoryCounters(t *testing.T) {
	s := memorySuite(t, MemoryOptions{Lie: func(e *wire.Exit) { e.OOMKills = 7 }})
	b := s.own(t)
	if o := b.ok(t, Program{Print("x")}); o.exit.OOMKills != 7 {
		t.Errorf("a lying runner reports %d", o.exit.OOMKills)
	}
	meter := b.Instance.(sandbox.Meter)
	if c, ok := meter.Counters(); !ok || c.OOMKills != 0 || c.Source == "" {
		t.Errorf("%+v, %v", c, ok)
	}
	want := sandbox.Counters{OOMKills: 2, ForkFailures: 3, Source: "set"}
	if !s.backend.(*Memory).SetCounters(b.ID(), want) {
		t.Error("the instance is unknown")
	}
	if c, ok := meter.Counters(); !ok || c != want {
		t.Errorf("%+v, %v", c, ok)
	}
	blind := memorySuite(t, MemoryOptions{Unmetered: true}).own(t)
	if c, ok := blind.Instance.(sandbox.Meter).Counters(); ok {
		t.Errorf("counters of an instance that cannot be read: %+v", c)
	}
}
