package service

import (
	"fmt"

	"brig/orchestrator/api"
)

// operatorID is the credential of the person.
const operatorID = "operator"

// reserve is how many of the sessions that are allowed agents leave to the operator.
func reserve(sessions int) int {
	if sessions < 2 {
		return 0
	}
	return max(1, sessions/4)
}

// takeShare counts a session in that an agent is about to open; it owes returnShare.
func (v *view) takeShare() error {
	if v.c.Role == Operator {
		return nil
	}
	most := v.s.options.Config().Config.Limits.Sessions
	share := most - reserve(most)
	v.s.mu.Lock()
	defer v.s.mu.Unlock()
	now := v.s.agentsOpening
	for _, x := range v.s.sessions {
		if x.creator != operatorID {
			now++
		}
	}
	if now >= share {
		return retry(api.NewProblem(api.CodeTooMany, fmt.Sprintf("agents have too many sessions open: limits.sessions leaves %d to all of them together", share), "brig session list"), 10)
	}
	v.s.agentsOpening++
	return nil
}

func (v *view) returnShare() {
	if v.c.Role == Operator {
		return
	}
	v.s.mu.Lock()
	defer v.s.mu.Unlock()
	v.s.agentsOpening--
}
