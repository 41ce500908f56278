package main

import (
	"fmt"
	"io"
	"sync"

	"brig/orchestrator/wire"
)

// carrying shows on a terminal how far files are that travel to an engine
// elsewhere and back. The output of the code comes from another goroutine, so
// both take turns.
type carrying struct {
	mu    sync.Mutex
	s     *stream // nil: nothing is shown
	shown bool
}

func newCarrying(s *stream, silent bool) *carrying {
	if silent || !s.terminal {
		return &carrying{}
	}
	return &carrying{s: s}
}

// show replaces the live line; with a total of 0 it goes away.
func (c *carrying) show(done, total int) {
	if c.s == nil {
		return
	}
	if !c.mu.TryLock() {
		return // output is being printed, perhaps to a reader that is slow: files do not wait for it
	}
	defer c.mu.Unlock()
	switch {
	case total > 0:
		if c.s.cursor.mid && !c.s.cursor.live {
			return // behind what the code wrote without an end of line there is no place
		}
		c.s.wipe()
		text := fmt.Sprintf("brig: carrying %d of %d files", done, total)
		io.WriteString(c.s.w, c.s.styled(styleDim, cut(text, c.s.width-1)))
		c.s.cursor.live, c.s.cursor.mid = true, true
		c.shown = true
	case c.shown:
		c.s.wipe()
		c.shown = false
	}
}

// between lets emit print when no live line is being drawn.
func (c *carrying) between(emit func(wire.Event) error) func(wire.Event) error {
	if c.s == nil {
		return emit
	}
	return func(e wire.Event) error {
		c.mu.Lock()
		defer c.mu.Unlock()
		return emit(e)
	}
}

// done takes the line away.
func (c *carrying) done() { c.show(0, 0) }
