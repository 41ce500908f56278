package service_test

import (
	"testing"
	"time"

	"brig/orchestrator/api"
)

// TestReplacedTokenIsHeldNoMore: what goes on with a session's token learns that
// another was made.
func TestReplacedTokenIsHeldNoMore(t *testing.T) {
	r := newRig(t)
	b := r.agent("agent")
	x, _, err := b.OpenSession(t.Context(), api.SessionRequest{})
	if err != nil {
		t.Fatal(err)
	}
	hold := func() <-chan struct{} {
		token, err := b.SessionToken(t.Context(), x.ID)
		if err != nil {
			t.Fatal(err)
		}
		_, revoked, ok := r.Hold(token.Token)
		if !ok {
			t.Fatal("the token is not known")
		}
		select {
		case <-revoked:
			t.Fatal("a new token counts no more")
		default:
		}
		return revoked
	}
	first := hold()
	second := hold()
	if err := b.CloseSession(t.Context(), x.ID); err != nil {
		t.Fatal(err)
	}
	for i, revoked := range []<-chan struct{}{first, second} {
		select {
		case <-revoked:
		case <-time.After(20 * time.Second):
			t.Errorf("token %d is held", i)
		}
	}
}
