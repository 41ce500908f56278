package sandboxtest

import (
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"brig/orchestrator/sandbox"
	"brig/orchestrator/wire"
)

func preparedCases() []testCase {
	return []testCase{
		{name: "BindLate", run: caseBindLate},
		{name: "BindIsQuick", python: true, run: caseBindIsQuick},
		{name: "OtherOrder", run: caseOtherOrder},
		{name: "DiesBeforeBind", run: caseDiesBeforeBind},
		{name: "CloseEndsIt", run: caseClosePrepared},
		{name: "Place", run: casePlace},
		{name: "BindAfterARun", run: caseBindAfterRun},
	}
}

// waiting is an instance that was prepared when the suite began.
type waiting struct {
	sandbox.Prepared
	workspace string
	since     time.Time
}

// prepareEarly prepares what BindLate binds, so that the length of the suite is
// the time that it has waited.
func (s *suite) prepareEarly(t *testing.T) {
	workspace := s.workspace(t)
	p := s.prepared(t, workspace)
	s.early = &waiting{Prepared: p, workspace: workspace, since: time.Now()}
}

// caseBindLate: greeted is greeted. A prepared instance waits for a session for
// longer than a runner waits for a greeting.
func caseBindLate(t *testing.T, s *suite) {
	w := s.early
	s.early = nil
	if left := wire.HelloTimeout + 2*time.Second - time.Since(w.since); left > 0 {
		if os.Getenv("BRIG_TEST_LONG") == "" {
			t.Logf("it waited for %s only; BRIG_TEST_LONG makes it wait for longer than a runner waits for a greeting", time.Since(w.since).Round(time.Second))
		} else {
			time.Sleep(left)
		}
	}
	select {
	case <-w.Done():
		t.Error("a prepared instance ended by itself")
	default:
	}
	s.bound(t, w.Prepared, w.workspace, sandbox.Claim{}).usable(t)
}

// bound binds p for a case.
func (s *suite) bound(t *testing.T, p sandbox.Prepared, workspace string, c sandbox.Claim) *box {
	t.Helper()
	c.ID, c.Workspace = s.newID(), workspace
	c.Session = string(c.ID)
	i, err := p.Bind(limited(t), c)
	if err != nil {
		t.Fatalf("bind: %v", joinClose(limited(t), err, p))
	}
	b := &box{Instance: i, workspace: workspace}
	t.Cleanup(func() { b.mustClose(t) })
	return b
}

// caseBindIsQuick: what costs time was done by Prepare. The best of some is
// compared, because a loaded machine delays single ones at will.
func caseBindIsQuick(t *testing.T, s *suite) {
	slow, quick := time.Hour, time.Hour
	for range 3 {
		workspace := s.workspace(t)
		began := time.Now()
		p := s.prepared(t, workspace)
		slow = min(slow, time.Since(began))
		began = time.Now()
		b := s.bound(t, p, workspace, sandbox.Claim{})
		quick = min(quick, time.Since(began))
		b.mustClose(t)
	}
	t.Logf("prepare %s, bind %s", slow, quick)
	if quick > slow/4 {
		t.Errorf("a bind takes %s, and a whole start %s", quick, slow)
	}
}

// caseOtherOrder: which instance a session gets does not depend on which was first.
func caseOtherOrder(t *testing.T, s *suite) {
	var dirs [2]string
	var ps [2]sandbox.Prepared
	for n := range ps {
		dirs[n] = s.workspace(t)
		ps[n] = s.prepared(t, dirs[n])
	}
	var boxes [2]*box
	for _, n := range []int{1, 0} {
		boxes[n] = s.bound(t, ps[n], dirs[n], sandbox.Claim{})
	}
	for n, b := range boxes {
		b.ok(t, Program{WriteFile("mine", dirs[n])})
	}
	for n, b := range boxes {
		if text, err := b.get(t, "mine"); err != nil || string(text) != dirs[n] {
			t.Errorf("instance %d holds %q, %v, want %q", n, head(text), err, dirs[n])
		}
	}
}

// caseDiesBeforeBind: who waits for a session can be watched, and is not handed
// out when it is dead.
func caseDiesBeforeBind(t *testing.T, s *suite) {
	before := s.count(t)
	workspace := s.workspace(t)
	p := s.prepared(t, workspace)
	select {
	case <-p.Done():
		t.Fatal("a living instance is done")
	default:
	}
	s.f.LosePrepared(t, p)
	awaitClosed(t, p.Done())
	i, err := p.Bind(limited(t), sandbox.Claim{ID: s.newID(), Session: "late", Workspace: workspace})
	if err == nil {
		t.Error("a dead instance was bound")
		_ = i.Close(limited(t)) // the test has failed
	}
	if errors.Is(err, sandbox.ErrCold) {
		t.Errorf("the claim fits, the instance is dead: %v", err)
	}
	if err := p.Close(limited(t)); err != nil {
		t.Errorf("close: %v", err)
	}
	s.wantCount(t, before)
}

func caseClosePrepared(t *testing.T, s *suite) {
	before := s.count(t)
	workspace := s.workspace(t)
	p := s.prepared(t, workspace)
	if err := p.Close(limited(t)); err != nil {
		t.Errorf("close: %v", err)
	}
	awaitClosed(t, p.Done())
	if i, err := p.Bind(limited(t), sandbox.Claim{ID: s.newID(), Session: "late", Workspace: workspace}); err == nil {
		t.Error("a closed instance was bound")
		_ = i.Close(limited(t)) // the test has failed
	}
	s.wantCount(t, before)
}

// placeReport is what ShowPlace prints.
type placeReport struct {
	Offset    string `json:"offset"`    // of local time in June 2025
	Locale    string `json:"locale"`    // that the program runs in
	Installed bool   `json:"installed"` // whether the one that was asked about is
}

func (b *box) place(t testing.TB, locale string) placeReport {
	t.Helper()
	var r placeReport
	o := b.ok(t, Program{ShowPlace(locale)})
	if err := json.Unmarshal(o.stdout, &r); err != nil {
		t.Fatalf("read %q: %v", head(o.stdout), err)
	}
	return r
}

func (b *box) wantPlace(t testing.TB, when, offset, locale string) {
	t.Helper()
	r := b.place(t, locale)
	if r.Offset != offset {
		t.Errorf("%s: the offset of local time is %s, want %s", when, r.Offset, offset)
	}
	plain := func(name string) string { return strings.ReplaceAll(strings.ToLower(name), "-", "") }
	if r.Installed && plain(r.Locale) != plain(locale) {
		t.Errorf("%s: the locale is %s, and %s is installed", when, r.Locale, locale)
	}
	if !strings.HasSuffix(plain(r.Locale), "utf8") {
		t.Errorf("%s: the locale is %s, which is not UTF-8", when, r.Locale)
	}
}

// casePlace: what a session brings holds from its first run on, whatever was
// there before and whichever interpreter runs it.
func casePlace(t *testing.T, s *suite) {
	const locale = "de_DE.UTF-8"
	plain := s.own(t)
	plain.wantPlace(t, "a claim without", "+0000", "C.UTF-8")
	workspace := s.workspace(t)
	b := s.bound(t, s.prepared(t, workspace), workspace, sandbox.Claim{Timezone: "Asia/Kolkata", Locale: locale})
	b.wantPlace(t, "first run", "+0530", locale)
	if o := b.run(t, Program{HardExit(1)}); o.exit.State != wire.StateLost {
		t.Fatalf("the interpreter was not replaced: %s", describe(o.exit))
	}
	b.wantPlace(t, "run of the next interpreter", "+0530", locale)
}

// caseBindAfterRun: user code has run, so the instance is not to be given away any more.
func caseBindAfterRun(t *testing.T, s *suite) {
	b := s.own(t)
	bind := wire.Control{Op: wire.OpBind, Args: wire.ControlArgs{Timezone: "Asia/Kolkata"}}
	if _, err := b.Call(limited(t), bind, nil, nil); err != nil {
		t.Errorf("before the first run: %v", err)
	}
	b.usable(t)
	bind.Args.Timezone = "Asia/Tokyo"
	_, err := b.Call(limited(t), bind, nil, nil)
	refused(t, "bind after a run", err, wire.CodeInvalid)
	b.wantPlace(t, "after a refused bind", "+0530", "C.UTF-8")
}
