package sandboxtest

import (
	"fmt"
	"io"
	"time"

	"brig/orchestrator/wire"
)

// sleeper starts a background child that does nothing for so long.
func (h *memoryRunner) sleeper(name string, run wire.RunID, d time.Duration) {
	h.table.spawn(name, run, func(p *process) { pause(p, d) })
}

// pause waits and tells whether p still lives.
func pause(p *process, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-p.killed:
		return false
	}
}

// lateWriter starts a child that writes when a file of the workspace appears.
func (h *memoryRunner) lateWriter(run wire.RunID, s Step) {
	h.table.spawn("late", run, func(p *process) {
		for range 6000 {
			if _, err := h.root.Stat(s.Name); err == nil {
				stream := wire.StreamStdout
				if s.To == Stderr {
					stream = wire.StreamStderr
				}
				h.write(stream, []byte(s.Text))
				_ = h.root.WriteFile(s.Name+".done", nil, 0o600) // the case that waits for it fails
				return
			}
			if !pause(p, 10*time.Millisecond) {
				return
			}
		}
	})
}

// plant makes a special file as a program would.
func (h *memoryRunner) plant(s Step) error {
	switch s.To {
	case "symlink":
		return h.root.Symlink(s.Text, s.Name)
	case "hardlink":
		return h.root.Link(s.Text, s.Name)
	case "fifo":
		return makeFIFO(h.root, s.Name)
	}
	panic(fmt.Sprintf("BUG: no way to plant a %q", s.To))
}

// finishProgram is what the end of a whole program does: threads are joined and
// exit handlers called, unless it was ended from below.
func (c *cell) finishProgram() {
	if c.ended.state == wire.StateLost {
		return
	}
	for _, text := range c.atExit {
		_, _ = io.WriteString(c.stdout, text+"\n") // fails when the connection has ended
	}
}

// sendDisplay sends a bundle: small parts inside the message, large ones on streams.
func (h *memoryRunner) sendDisplay(l *link, run wire.RunID, role string, parts []wire.Part) error {
	var large []wire.Part
	streams, err := l.mux.Announce(largeParts(parts), func(streams []*wire.SendStream) wire.Message {
		m := wire.DisplayMessage{Run: run, Role: role}
		for _, p := range parts {
			b := wire.BundlePart{MIME: p.MIME, Size: int64(len(p.Data))}
			if len(p.Data) <= wire.MaxInline {
				text := string(p.Data)
				b.Text = &text
			} else {
				b.Stream = streams[len(large)].ID()
				large = append(large, p)
			}
			m.Bundle = append(m.Bundle, b)
		}
		return m
	})
	if err != nil {
		return err
	}
	for i, p := range large {
		if err := streams[i].Send(l.ctx, p.Data); err != nil {
			return err
		}
		if err := streams[i].End(l.ctx); err != nil {
			return err
		}
	}
	return nil
}

func largeParts(parts []wire.Part) int {
	n := 0
	for _, p := range parts {
		if len(p.Data) > wire.MaxInline {
			n++
		}
	}
	return n
}
