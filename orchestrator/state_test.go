package orchestrator

import (
	"strings"
	"testing"
)

// TestTransitions walks every state and every event against a table in words.
func TestTransitions(t *testing.T) {
	const table = `
		new          start:starting close:closing
		starting     ready:idle lost:lost fail:closing close:closing
		idle         run:running replace:replacing lost:lost close:closing
		running      interrupt:interrupting end:idle lost:lost close:closing
		interrupting interrupt:interrupting end:idle lost:lost close:closing
		lost         replace:replacing close:closing
		replacing    ready:idle fail:lost close:closing
		closing      ready:closing fail:closing interrupt:closing end:closing lost:closing close:closing closed:closed
		closed       ready:closed fail:closed interrupt:closed end:closed lost:closed close:closed`
	want := map[string]string{}
	for line := range strings.Lines(strings.TrimSpace(table)) {
		words := strings.Fields(line)
		for _, move := range words[1:] {
			e, to, _ := strings.Cut(move, ":")
			want[words[0]+" "+e] = to
		}
	}
	seen := 0
	for s := range State(stateCount) {
		for e := range event(eventCount) {
			key := s.String() + " " + e.String()
			to, ok := next(s, e)
			wanted, allowed := want[key]
			if ok != allowed {
				t.Errorf("%s: allowed %v, want %v", key, ok, allowed)
				continue
			}
			if !ok && to != s {
				t.Errorf("%s: refused, but moved to %s", key, to)
			}
			if ok {
				seen++
				if to.String() != wanted {
					t.Errorf("%s: %s, want %s", key, to, wanted)
				}
			}
		}
	}
	if seen != len(want) {
		t.Errorf("saw %d moves of the table's %d", seen, len(want))
	}
}

// TestStatesReachTheEnd shows that Close works from everywhere and that nothing leaves the end.
func TestStatesReachTheEnd(t *testing.T) {
	for s := range State(stateCount) {
		to, ok := next(s, eventClose)
		if !ok || to != StateClosing && to != StateClosed {
			t.Errorf("close in %s: %s, %v", s, to, ok)
		}
		if strings.HasPrefix(s.String(), "state(") {
			t.Errorf("state %d has no name", s)
		}
	}
	for e := range event(eventCount) {
		if to, _ := next(StateClosed, e); to != StateClosed {
			t.Errorf("%s left the end for %s", e, to)
		}
	}
}
