package wire

const (
	maxLate       = 64 << 10 // bytes kept of each stream
	maxLateEvents = 1024
)

// lateOutput keeps what arrived between two runs: bounded, the rest counted.
type lateOutput struct {
	run    RunID // the run that ended last; empty before the first
	events []Event
	kept   [2]int
	lost   [2]int64
}

func (l *lateOutput) output(stream uint32, p []byte) {
	n := min(len(p), maxLate-l.kept[stream-1])
	if n > 0 {
		last := len(l.events) - 1
		switch {
		case last >= 0 && l.events[last].Kind == kindOf(stream):
			l.events[last].Data = append(l.events[last].Data, p[:n]...)
		case len(l.events) < maxLateEvents:
			l.events = append(l.events, Event{Kind: kindOf(stream), Run: l.run, Late: true, Data: append([]byte(nil), p[:n]...)})
		default:
			n = 0
		}
		l.kept[stream-1] += n
	}
	l.lost[stream-1] = sum(l.lost[stream-1], int64(len(p)-n))
}

// gap counts what the runner dropped itself.
func (l *lateOutput) gap(stream uint32, n int64) {
	l.lost[stream-1] = sum(l.lost[stream-1], n)
}

// take returns everything and starts anew.
func (l *lateOutput) take() []Event {
	events := l.events
	for i, stream := range []uint32{StreamStdout, StreamStderr} {
		if l.lost[i] > 0 {
			events = append(events, Event{Kind: EventGap, Run: l.run, Late: true, Stream: stream, Dropped: l.lost[i]})
		}
	}
	*l = lateOutput{run: l.run}
	return events
}
