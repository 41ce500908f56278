package sandboxtest

import (
	"errors"
	"testing"
	"time"

	"brig/orchestrator/sandbox"
	"brig/orchestrator/wire"
)

// keepCases are about instances that outlive their brig, and about backends that
// have none.
func keepCases() []testCase {
	return []testCase{
		{name: "NoLease", run: caseNoLease},
		{name: "StateSurvives", adopter: true, run: caseStateSurvives},
		{name: "RunIsEnded", adopter: true, run: caseRunIsEnded},
		{name: "DeafRunIsEnded", adopter: true, run: caseDeafRunIsEnded},
		{name: "InTheMiddleOfOutput", adopter: true, run: caseFloodAdopted},
		{name: "InTheMiddleOfInput", adopter: true, run: caseFeedAdopted},
		{name: "Again", adopter: true, run: caseAdoptedAgain},
		{name: "WrongOne", adopter: true, run: caseWrongOne},
		{name: "LeaseEnds", adopter: true, run: caseLeaseEnds},
		{name: "DiedMeanwhile", adopter: true, run: caseDiedMeanwhile},
		{name: "Detach", adopter: true, run: caseDetach},
		{name: "NeverBound", adopter: true, run: caseLeaseNeverBound},
		{name: "Sweep", adopter: true, run: caseSweepKept},
	}
}

// lease is one that no case outlasts.
const lease = time.Minute

// caseNoLease: a backend that cannot keep an instance refuses a lease or makes one
// that ends with it, and one that can keeps only what it is asked to keep.
func caseNoLease(t *testing.T, s *suite) {
	if _, ok := s.backend.(sandbox.Adopter); ok {
		if _, ok := s.any(t).Instance.(sandbox.Keepable); ok {
			t.Error("an instance without a lease can be kept")
		}
		return
	}
	if _, ok := s.any(t).Instance.(sandbox.Keepable); ok {
		t.Error("an instance can be kept by a backend that cannot adopt it")
	}
	base := s.f.Base
	base.Lease = lease
	workspace := s.workspace(t)
	p, err := s.backend.Prepare(limited(t), base, workspace)
	if err != nil {
		return
	}
	if _, ok := s.bound(t, p, workspace, sandbox.Claim{}).Instance.(sandbox.Keepable); ok {
		t.Error("an instance can be kept by a backend that cannot adopt it")
	}
}

// kept is an instance with a lease. What is left of it at the end of the test is swept.
type kept struct {
	*box
	adoption sandbox.Adoption
}

func (s *suite) kept(t *testing.T, lease time.Duration) *kept {
	t.Helper()
	base := s.f.Base
	base.Lease = lease
	workspace := s.workspace(t)
	p, err := s.backend.Prepare(limited(t), base, workspace)
	if err != nil {
		t.Fatalf("prepare: %v", err)
	}
	return s.keep(t, s.bound(t, p, workspace, sandbox.Claim{Timezone: "Asia/Kolkata"}), base)
}

func (s *suite) keep(t *testing.T, b *box, base sandbox.Base) *kept {
	t.Helper()
	i, ok := b.Instance.(sandbox.Keepable)
	if !ok {
		t.Fatalf("a %T with a lease is not Keepable", b.Instance)
	}
	k := &kept{box: b, adoption: sandbox.Adoption{Handle: i.Handle(), ID: b.ID(), Base: base, Workspace: b.workspace}}
	if k.adoption.Handle != i.Handle() || k.adoption.Handle.Name == "" || k.adoption.Handle.Secret == "" {
		t.Errorf("the handle is not constant or not complete: %+v", k.adoption.Handle)
	}
	return k
}

// label is what a sweep asks about.
func (k *kept) label() sandbox.InstanceID {
	if l := k.adoption.Handle.Label; l != "" {
		return l
	}
	return k.adoption.ID
}

// detach lets go; whatever the test then leaves is swept at its end.
func (k *kept) detach(t *testing.T, s *suite) {
	t.Helper()
	if err := k.Instance.(sandbox.Keepable).Detach(limited(t)); err != nil {
		t.Fatalf("detach: %v", err)
	}
	t.Cleanup(func() {
		if _, err := s.later(t).Sweep(limited(t), s.f.Owner, func(id sandbox.InstanceID) bool { return id != k.label() }); err != nil {
			t.Errorf("sweep: %v", err)
		}
	})
}

// later is the backend of a later brig.
func (s *suite) later(t testing.TB) sandbox.Adopter {
	t.Helper()
	b := s.f.Later(t, s.backend)
	t.Cleanup(func() {
		if err := b.Close(limited(t)); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return b.(sandbox.Adopter)
}

// adopted takes k up again in a later brig.
func (s *suite) adopted(t *testing.T, k *kept) *kept {
	t.Helper()
	i, err := s.later(t).Adopt(limited(t), k.adoption)
	if err != nil {
		t.Fatalf("adopt: %v", err)
	}
	b := &box{Instance: i, workspace: k.workspace, runs: k.runs}
	t.Cleanup(func() { b.mustClose(t) })
	return s.keep(t, b, k.adoption.Base)
}

// caseStateSurvives: the same interpreter in the same workspace, under a posture
// that was read back anew.
func caseStateSurvives(t *testing.T, s *suite) {
	before := s.count(t)
	k := s.kept(t, lease)
	k.ok(t, Program{Set("kept", 11), SetUnpicklable("generator"), WriteFile("f", "of the first")})
	digest := k.Posture().Digest()
	k.detach(t, s)
	b := s.adopted(t, k)
	if b.ID() != k.ID() || b.adoption != k.adoption {
		t.Errorf("another one came back: %s %+v, want %s %+v", b.ID(), b.adoption, k.ID(), k.adoption)
	}
	p := b.Posture()
	if err := sandbox.Complete(p.Layers); err != nil || p.Digest() != digest || p.Backend != s.backend.Kind() {
		t.Errorf("posture: %v, digest %s, want %s", err, p.Digest(), digest)
	}
	if o := b.ok(t, Program{Show("kept"), ReadFile("f"), WriteFile("g", "of the second")}); string(o.stdout) != "11\nof the first\n" {
		t.Errorf("stdout %q", head(o.stdout))
	}
	if text, err := b.get(t, "g"); err != nil || string(text) != "of the second" {
		t.Errorf("the file holds %q, %v", head(text), err)
	}
	b.put(t, "h", "by a call")
	if o := b.ok(t, Program{ReadFile("h")}); string(o.stdout) != "by a call\n" {
		t.Errorf("stdout %q", head(o.stdout))
	}
	b.wantPlace(t, "after an adoption", "+0530", "C.UTF-8")
	b.mustClose(t)
	b.awaitDone(t)
	s.wantCount(t, before)
}

// caseRunIsEnded: nobody waits for a run whose brig is gone, so it does not go
// on; what it had set is still there.
func caseRunIsEnded(t *testing.T, s *suite) {
	k := s.kept(t, lease)
	k.ok(t, Program{Set("kept", 12)})
	l := k.start(limited(t), t, Program{Set("during", 13), Print("ready"), Spin()})
	l.until(t, "ready\n")
	k.detach(t, s)
	if lost := asLost(t, l.wait().err); lost.Ending.Cause != sandbox.Cancelled {
		t.Errorf("the run that was let go: %+v", lost.Ending)
	}
	b := s.adopted(t, k)
	if o := b.ok(t, Program{Show("kept"), Show("during")}); string(o.stdout) != "12\n13\n" || len(o.late) != 0 {
		t.Errorf("stdout %q, late %+v", head(o.stdout), o.late)
	}
}

// caseDeafRunIsEnded: what obeys no interrupt costs the variables, not the instance.
func caseDeafRunIsEnded(t *testing.T, s *suite) {
	k := s.kept(t, lease)
	k.ok(t, Program{Set("kept", 14)})
	l := k.start(limited(t), t, Program{Deaf()})
	l.until(t, "deaf\n")
	k.detach(t, s)
	l.wait()
	b := s.adopted(t, k)
	if o := b.run(t, Program{Show("kept")}); o.exit.Exception == nil || o.exit.Exception.Name != "NameError" {
		t.Errorf("the interpreter of a deaf run: %s, stdout %q", describe(o.exit), head(o.stdout))
	}
	b.usable(t)
}

// caseFloodAdopted lets go while the connection is full of what the runner says.
func caseFloodAdopted(t *testing.T, s *suite) {
	base := s.f.Base
	base.Lease, base.Limits.OutputKept, base.Limits.OutputLogged = lease, 256<<20, 1<<20
	k := s.keep(t, s.ownWith(t, base), base)
	k.ok(t, Program{Set("kept", 15)})
	l := k.start(limited(t), t, Program{Print("ready"), Write(Stdout, Numbered, 64<<30)})
	l.until(t, "ready\n")
	k.detach(t, s)
	asLost(t, l.wait().err)
	b := s.adopted(t, k)
	if o := b.ok(t, Program{Show("kept")}); string(o.stdout) != "15\n" {
		t.Errorf("stdout %q", head(o.stdout))
	}
}

// caseFeedAdopted lets go in the middle of what the runner is told.
func caseFeedAdopted(t *testing.T, s *suite) {
	k := s.kept(t, lease)
	k.ok(t, Program{Set("kept", 16)})
	in := &endless{}
	failed := make(chan error, 1)
	ctx := limited(t)
	go func() {
		_, err := k.Call(ctx, wire.Control{Op: wire.OpPut, Args: wire.ControlArgs{Path: "endless"}}, in, nil)
		failed <- err
	}()
	await(t, "the transfer to be under way", func() bool { return in.beyond(1 << 20) })
	k.detach(t, s)
	if err := <-failed; err == nil {
		t.Error("a transfer that was cut off succeeded")
	}
	b := s.adopted(t, k)
	if o := b.ok(t, Program{Show("kept")}); string(o.stdout) != "16\n" {
		t.Errorf("stdout %q", head(o.stdout))
	}
	if text, err := b.get(t, "endless"); err == nil {
		t.Errorf("half a file was stored: %d bytes", len(text))
	}
	b.put(t, "f", "whole")
	if text, err := b.get(t, "f"); err != nil || string(text) != "whole" {
		t.Errorf("the file holds %q, %v", head(text), err)
	}
}

// caseAdoptedAgain: an adopted instance can be kept like any other.
func caseAdoptedAgain(t *testing.T, s *suite) {
	k := s.kept(t, lease)
	for n := range 3 {
		k.ok(t, Program{Set("kept", int64(n))})
		k.detach(t, s)
		b := s.adopted(t, k)
		if o := b.ok(t, Program{Show("kept")}); string(o.stdout) != string(rune('0'+n))+"\n" {
			t.Errorf("adoption %d: stdout %q", n, head(o.stdout))
		}
		k = b
	}
}

// caseWrongOne: whoever does not describe the instance does not get it, and who
// does gets it afterwards.
func caseWrongOne(t *testing.T, s *suite) {
	k := s.kept(t, lease)
	k.ok(t, Program{Set("kept", 17)})
	k.detach(t, s)
	// Refused without harm, and without hanging: the bound of a call is its context.
	wrong := map[string]func(*sandbox.Adoption){
		"secret":    func(a *sandbox.Adoption) { a.Handle.Secret = other(a.Handle.Secret) },
		"no secret": func(a *sandbox.Adoption) { a.Handle.Secret = "" },
		"workspace": func(a *sandbox.Adoption) { a.Workspace = s.workspace(t) },
	}
	gone := map[string]func(*sandbox.Adoption){
		"name":    func(a *sandbox.Adoption) { a.Handle.Name = other(a.Handle.Name) },
		"no name": func(a *sandbox.Adoption) { a.Handle.Name = "" },
	}
	for n, set := range []map[string]func(*sandbox.Adoption){wrong, gone} {
		for name, spoil := range set {
			a := k.adoption
			spoil(&a)
			i, err := s.later(t).Adopt(limited(t), a)
			if err == nil {
				t.Errorf("wrong %s: adopted", name)
				_ = i.Close(limited(t)) // the test has failed
			} else if n == 1 && !errors.Is(err, sandbox.ErrGone) {
				t.Errorf("wrong %s: %v", name, err)
			}
		}
	}
	if o := s.adopted(t, k).ok(t, Program{Show("kept")}); string(o.stdout) != "17\n" {
		t.Errorf("stdout %q", head(o.stdout))
	}
}

// other is a text of the same form.
func other(text string) string {
	if text == "" {
		return "0"
	}
	last := byte('0')
	if text[len(text)-1] == last {
		last = '1'
	}
	return text[:len(text)-1] + string(last)
}

// caseLeaseEnds: what nobody adopts ends by itself; what is held does not,
// however quiet it is.
func caseLeaseEnds(t *testing.T, s *suite) {
	const short = 3 * time.Second
	before := s.count(t)
	held, k := s.kept(t, short), s.kept(t, short)
	began := time.Now()
	k.detach(t, s)
	if s.f.Count != nil {
		await(t, "the end of the lease", func() bool { return s.count(t) <= before+1 })
		if lasted := time.Since(began); lasted < short/2 {
			t.Errorf("the lease of %s was over after %s", short, lasted)
		}
	} else {
		time.Sleep(2 * short)
	}
	if i, err := s.later(t).Adopt(limited(t), k.adoption); !errors.Is(err, sandbox.ErrGone) {
		t.Errorf("adopt after the end of the lease: %v", err)
		if err == nil {
			_ = i.Close(limited(t)) // the test has failed
		}
	}
	time.Sleep(time.Until(began.Add(short + time.Second))) // so that the silence was longer than the lease
	held.usable(t)
}

func caseDiedMeanwhile(t *testing.T, s *suite) {
	k := s.kept(t, lease)
	k.detach(t, s)
	s.f.Lose(t, k.Instance)
	if i, err := s.later(t).Adopt(limited(t), k.adoption); !errors.Is(err, sandbox.ErrGone) {
		t.Errorf("adopt of a dead instance: %v", err)
		if err == nil {
			_ = i.Close(limited(t)) // the test has failed
		}
	}
}

// caseDetach: it can be said twice; it and Close are each nothing after the other.
func caseDetach(t *testing.T, s *suite) {
	before := s.count(t)
	k := s.kept(t, lease)
	k.ok(t, Program{Set("kept", 18)})
	k.detach(t, s)
	k.awaitDone(t)
	if e := k.Cause(); e.Cause != sandbox.Cancelled || e.Detail == "" {
		t.Errorf("cause: %+v", e)
	}
	if o := k.try(t, Program{Print("x")}); o.err == nil {
		t.Error("an instance that was let go ran something")
	}
	if err := k.Instance.(sandbox.Keepable).Detach(limited(t)); err != nil {
		t.Errorf("second detach: %v", err)
	}
	k.mustClose(t)
	b := s.adopted(t, k)
	k.mustClose(t) // still nothing: it is somebody else's
	if o := b.ok(t, Program{Show("kept")}); string(o.stdout) != "18\n" {
		t.Errorf("stdout %q", head(o.stdout))
	}
	b.mustClose(t)
	if err := b.Instance.(sandbox.Keepable).Detach(limited(t)); err != nil {
		t.Errorf("detach after close: %v", err)
	}
	s.wantCount(t, before)
	if _, err := s.later(t).Adopt(limited(t), k.adoption); !errors.Is(err, sandbox.ErrGone) {
		t.Errorf("adopt of a closed instance: %v", err)
	}
}

// caseLeaseNeverBound: a lease does not keep what its own brig closes.
func caseLeaseNeverBound(t *testing.T, s *suite) {
	before := s.count(t)
	base := s.f.Base
	base.Lease = lease
	p, err := s.backend.Prepare(limited(t), base, s.workspace(t))
	if err != nil {
		t.Fatalf("prepare: %v", err)
	}
	if err := p.Close(limited(t)); err != nil {
		t.Errorf("close: %v", err)
	}
	s.wantCount(t, before)
}

// caseSweepKept: what waits to be adopted is swept when nobody wants it, not before.
func caseSweepKept(t *testing.T, s *suite) {
	before := s.count(t)
	k := s.kept(t, lease)
	k.detach(t, s)
	asked := false
	keep := func(id sandbox.InstanceID) bool {
		asked = asked || id == k.label()
		return true
	}
	if n, err := s.later(t).Sweep(limited(t), s.f.Owner, keep); n != 0 || err != nil || !asked {
		t.Errorf("swept %d, %v, asked about %s: %v", n, err, k.label(), asked)
	}
	b := s.adopted(t, k)
	b.usable(t)
	b.detach(t, s)
	unwanted := func(id sandbox.InstanceID) bool { return id != b.label() }
	if n, err := s.later(t).Sweep(limited(t), s.f.Owner, unwanted); n != 1 || err != nil {
		t.Errorf("swept %d, %v, want 1", n, err)
	}
	s.wantCount(t, before)
	if _, err := s.later(t).Adopt(limited(t), b.adoption); !errors.Is(err, sandbox.ErrGone) {
		t.Errorf("adopt of a swept instance: %v", err)
	}
}
