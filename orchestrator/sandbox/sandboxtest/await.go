package sandboxtest

import (
	"errors"
	"testing"
	"time"

	"brig/orchestrator/sandbox"
	"brig/orchestrator/wire"
)

// await asks until done says yes. It fails the test when patience is over.
func await(t testing.TB, what string, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !done(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited %s for %s", patience, what)
		}
	}
}

// awaitFile waits until a file of the workspace exists.
func (b *box) awaitFile(t testing.TB, path string) {
	t.Helper()
	await(t, "the file "+path, func() bool {
		_, err := b.get(t, path)
		var refusal *wire.CallError
		if err != nil && !(errors.As(err, &refusal) && refusal.Code == wire.CodeNotFound) {
			t.Fatalf("get %s: %v", path, err)
		}
		return err == nil
	})
}

// awaitGone waits until none of the processes lives, as an outside observer sees it.
func (b *box) awaitGone(t testing.TB, s *suite, ps []Process) {
	t.Helper()
	for _, p := range ps {
		await(t, "the end of process "+p.ID+" ("+p.Command+")", func() bool { return !s.f.Alive(t, b.Instance, p) })
	}
}

// awaitDone waits until the instance says that it is gone.
func (b *box) awaitDone(t testing.TB) {
	t.Helper()
	awaitClosed(t, b.Done())
}

func awaitClosed(t testing.TB, done <-chan struct{}) {
	t.Helper()
	select {
	case <-done:
	case <-time.After(patience):
		t.Fatalf("waited %s for Done", patience)
	}
}

// asLost expects a *sandbox.Lost that says why.
func asLost(t testing.TB, err error) *sandbox.Lost {
	t.Helper()
	var lost *sandbox.Lost
	if !errors.As(err, &lost) {
		t.Fatalf("%v (%T), want a *sandbox.Lost", err, err)
	}
	if lost.Ending.Cause == "" || lost.Ending.Cause == sandbox.OK || lost.Ending.Detail == "" {
		t.Errorf("lost without a reason: %+v", lost.Ending)
	}
	return lost
}

// refused expects a *wire.CallError, with one of the codes if any are named.
func refused(t testing.TB, what string, err error, codes ...string) {
	t.Helper()
	var refusal *wire.CallError
	if !errors.As(err, &refusal) {
		t.Errorf("%s: %v (%T), want a *wire.CallError", what, err, err)
		return
	}
	for _, c := range codes {
		if refusal.Code == c {
			return
		}
	}
	if len(codes) > 0 {
		t.Errorf("%s: code %q, want one of %q", what, refusal.Code, codes)
	}
}
