package orchestrator

import "fmt"

// State is where a session stands.
type State uint8

const (
	StateNew          State = iota // made, nothing started
	StateStarting                  // the first instance is being prepared
	StateIdle                      // an instance waits for a run
	StateRunning                   // a run is on
	StateInterrupting              // a run is being ended
	StateLost                      // the instance is gone; the next run replaces it
	StateReplacing                 // a fresh instance is being prepared
	StateClosing                   // Close has begun
	StateClosed                    // nothing is left
)

// event is what moves a session from one state to the next.
type event uint8

const (
	eventStart     event = iota // the first instance is asked for
	eventReady                  // an instance is bound
	eventFail                   // no instance could be had
	eventRun                    // a run takes the instance
	eventInterrupt              // the run is being ended, for whatever reason
	eventEnd                    // the run ended, the instance lives
	eventLost                   // the instance is gone or spent
	eventReplace                // a fresh instance is asked for
	eventClose                  // Close was called
	eventClosed                 // everything is gone
)

const (
	stateCount = int(StateClosed) + 1
	eventCount = int(eventClosed) + 1
)

// next is the one transition table. What is not in it cannot happen.
func next(from State, e event) (to State, ok bool) {
	switch from {
	case StateNew:
		switch e {
		case eventStart:
			return StateStarting, true
		case eventClose:
			return StateClosing, true
		}
	case StateStarting:
		switch e {
		case eventReady:
			return StateIdle, true
		case eventLost: // it is an earlier brig's, whose instance is gone
			return StateLost, true
		case eventFail, eventClose:
			return StateClosing, true
		}
	case StateIdle:
		switch e {
		case eventRun:
			return StateRunning, true
		case eventReplace:
			return StateReplacing, true
		case eventLost:
			return StateLost, true
		case eventClose:
			return StateClosing, true
		}
	case StateRunning:
		switch e {
		case eventInterrupt:
			return StateInterrupting, true
		case eventEnd:
			return StateIdle, true
		case eventLost:
			return StateLost, true
		case eventClose:
			return StateClosing, true
		}
	case StateInterrupting:
		switch e {
		case eventInterrupt: // softly first, then by force
			return StateInterrupting, true
		case eventEnd:
			return StateIdle, true
		case eventLost:
			return StateLost, true
		case eventClose:
			return StateClosing, true
		}
	case StateLost:
		switch e {
		case eventReplace:
			return StateReplacing, true
		case eventClose:
			return StateClosing, true
		}
	case StateReplacing:
		switch e {
		case eventReady:
			return StateIdle, true
		case eventFail:
			return StateLost, true
		case eventClose:
			return StateClosing, true
		}
	case StateClosing:
		switch e {
		// What was under way when Close began still ends.
		case eventReady, eventFail, eventInterrupt, eventEnd, eventLost, eventClose:
			return StateClosing, true
		case eventClosed:
			return StateClosed, true
		}
	case StateClosed:
		switch e {
		// What outlived the bound of Close may still end.
		case eventReady, eventFail, eventInterrupt, eventEnd, eventLost, eventClose:
			return StateClosed, true
		}
	}
	return from, false
}

func (s State) String() string {
	switch s {
	case StateNew:
		return "new"
	case StateStarting:
		return "starting"
	case StateIdle:
		return "idle"
	case StateRunning:
		return "running"
	case StateInterrupting:
		return "interrupting"
	case StateLost:
		return "lost"
	case StateReplacing:
		return "replacing"
	case StateClosing:
		return "closing"
	case StateClosed:
		return "closed"
	}
	return fmt.Sprintf("state(%d)", uint8(s))
}

func (e event) String() string {
	names := [eventCount]string{"start", "ready", "fail", "run", "interrupt", "end", "lost", "replace", "close", "closed"}
	if int(e) < len(names) {
		return names[e]
	}
	return fmt.Sprintf("event(%d)", uint8(e))
}
