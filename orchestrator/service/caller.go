package service

import "brig/orchestrator/api"

// Role is what a credential may do. The zero value is the weaker one.
type Role uint8

const (
	// Agent opens sessions and sees its own. It changes no settings, reads no audit
	// log and sees nothing of others.
	Agent Role = iota
	// Operator is the person: everything.
	Operator
)

func (r Role) String() string {
	if r == Operator {
		return "operator"
	}
	return "agent"
}

// Caller is who asks. Whoever authenticated the request fills it in.
type Caller struct {
	Role Role
	// ID is the credential: "operator", "agent", or "session:" and a session's id. An
	// agent sees the sessions that its ID opened.
	ID string
	// Session is the id of the only session that the credential is for; empty: as ID says.
	Session string
	// Via says how the request came, for the audit log: "agent.sock uid 1000 pid 7".
	Via string
	// Approval is what the stamp of its runs says about who allowed them.
	Approval api.Approval
}

// sees says that the caller may know of a session of that id and creator.
func (c Caller) sees(session, creator string) bool {
	switch {
	case c.Role == Operator:
		return true
	case c.Session != "":
		return c.Session == session
	}
	return c.ID == creator
}
