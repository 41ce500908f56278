package sandboxtest

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"brig/orchestrator/sandbox"
	"brig/orchestrator/wire"
)

func lifecycleCases() []testCase {
	return []testCase{
		{name: "BindOnce", run: caseBindOnce},
		{name: "BindCold", run: caseBindCold},
		{name: "NeverBound", run: caseNeverBound},
		{name: "MissingWorkspace", run: caseMissingWorkspace},
		{name: "PrepareCancelled", run: casePrepareCancelled},
		{name: "CloseIdempotent", run: caseCloseIdempotent},
		{name: "CloseDuringRun", run: caseCloseDuringRun},
		{name: "AfterClose", run: caseAfterClose},
		{name: "Parallel", run: caseParallel},
	}
}

func (s *suite) prepared(t *testing.T, workspace string) sandbox.Prepared {
	t.Helper()
	p, err := s.backend.Prepare(limited(t), s.f.Base, workspace)
	if err != nil {
		t.Fatalf("prepare: %v", err)
	}
	return p
}

func caseBindOnce(t *testing.T, s *suite) {
	workspace := s.workspace(t)
	p := s.prepared(t, workspace)
	claim := sandbox.Claim{ID: s.newID(), Session: "one", Workspace: workspace}
	i, err := p.Bind(limited(t), claim)
	if err != nil {
		t.Fatalf("bind: %v", err)
	}
	b := &box{Instance: i, workspace: workspace}
	defer b.mustClose(t)
	if _, err := p.Bind(limited(t), claim); err == nil {
		t.Error("an instance was bound twice")
	}
	// After Bind the instance is the session's: this does nothing.
	if err := p.Close(limited(t)); err != nil {
		t.Errorf("close of a bound one: %v", err)
	}
	if e := b.Cause(); e != (sandbox.Ending{}) {
		t.Errorf("a living instance has ended: %+v", e)
	}
	b.usable(t)
}

func caseBindCold(t *testing.T, s *suite) {
	p := s.prepared(t, s.workspace(t))
	i, err := p.Bind(limited(t), sandbox.Claim{ID: s.newID(), Session: "cold", Workspace: s.workspace(t)})
	if err == nil {
		(&box{Instance: i}).mustClose(t)
	}
	if !errors.Is(err, sandbox.ErrCold) {
		t.Errorf("bind to another workspace: %v", err)
	}
	if err := p.Close(limited(t)); err != nil {
		t.Errorf("close: %v", err)
	}
}

func caseNeverBound(t *testing.T, s *suite) {
	before := s.count(t)
	p := s.prepared(t, s.workspace(t))
	for range 2 {
		if err := p.Close(limited(t)); err != nil {
			t.Errorf("close: %v", err)
		}
	}
	s.wantCount(t, before)
}

func (s *suite) count(t testing.TB) int {
	t.Helper()
	if s.f.Count == nil {
		return 0
	}
	return s.f.Count(t, s.backend)
}

func (s *suite) wantCount(t testing.TB, want int) {
	t.Helper()
	await(t, fmt.Sprintf("only %d instances to be left", want), func() bool { return s.count(t) <= want })
}

func caseMissingWorkspace(t *testing.T, s *suite) {
	before := s.count(t)
	if p, err := s.backend.Prepare(limited(t), s.f.Base, filepath.Join(s.workspace(t), "missing")); err == nil {
		t.Error("prepared in a directory that does not exist")
		_ = p.Close(limited(t)) // the test has failed
	}
	s.wantCount(t, before)
}

// casePrepareCancelled ends the context at different moments. What was not
// handed out is not there.
func casePrepareCancelled(t *testing.T, s *suite) {
	before := s.count(t)
	for _, after := range []time.Duration{0, time.Millisecond, 10 * time.Millisecond, 40 * time.Millisecond, 90 * time.Millisecond} {
		ctx, cancel := context.WithTimeout(t.Context(), after)
		p, err := s.backend.Prepare(ctx, s.f.Base, s.workspace(t))
		cancel()
		if err == nil {
			if after == 0 {
				t.Error("prepared although the context had ended")
			}
			if err := p.Close(limited(t)); err != nil {
				t.Errorf("close: %v", err)
			}
		}
	}
	s.wantCount(t, before)
}

func caseCloseIdempotent(t *testing.T, s *suite) {
	b := s.own(t)
	b.usable(t)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() { b.mustClose(t) })
	}
	wg.Wait()
	b.mustClose(t)
	b.awaitDone(t)
	if e := b.Cause(); e.Cause == "" || e.Detail == "" {
		t.Errorf("a closed instance ended without a reason: %+v", e)
	}
}

func caseCloseDuringRun(t *testing.T, s *suite) {
	b := s.own(t)
	l := b.start(limited(t), t, Program{Print("ready"), Spin()})
	l.until(t, "ready\n")
	b.mustClose(t)
	o := l.wait()
	asLost(t, o.err)
	if string(o.stdout) != "ready\n" {
		t.Errorf("stdout %q", head(o.stdout))
	}
}

func caseAfterClose(t *testing.T, s *suite) {
	b := s.own(t)
	b.mustClose(t)
	if o := b.try(t, Program{Print("x")}); o.err == nil {
		t.Errorf("a run on a closed instance ended %s", describe(o.exit))
	}
	if _, err := b.Call(limited(t), wire.Control{Op: wire.OpPing}, nil, nil); err == nil {
		t.Error("a call on a closed instance was answered")
	}
	if err := b.Interrupt(limited(t), "run-1", wire.Soft, false); err == nil {
		t.Error("an interrupt on a closed instance worked")
	}
	if b.Posture().Digest() == "" {
		t.Error("a closed instance forgot its posture")
	}
}

// caseParallel: instances beside each other share nothing.
func caseParallel(t *testing.T, s *suite) {
	const many = 6
	type made struct {
		id        sandbox.InstanceID
		workspace string
	}
	var plan []made
	for range many {
		plan = append(plan, made{s.newID(), s.workspace(t)})
	}
	ctx := limited(t)
	var wg sync.WaitGroup
	for i, m := range plan {
		wg.Go(func() {
			b, err := s.prepare(ctx, s.f.Base, m.workspace, m.id)
			if err != nil {
				t.Error(err)
				return
			}
			defer b.mustClose(t)
			mine := fmt.Sprintf("instance %d", i)
			for _, p := range []Program{
				{Set("mine", int64(i)), WriteFile("mine", mine)},
				{Show("mine"), ReadFile("mine")},
			} {
				o := b.try(t, p)
				if o.err != nil || o.exit.Outcome != wire.OutcomeOK {
					t.Errorf("%s ended %s, %v", mine, describe(o.exit), o.err)
					return
				}
				if want := fmt.Sprintf("%d\n%s\n", i, mine); len(o.stdout) > 0 && string(o.stdout) != want {
					t.Errorf("%s printed %q, want %q", mine, head(o.stdout), want)
				}
			}
		})
	}
	wg.Wait()
}
