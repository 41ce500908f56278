package service

import (
	"brig/orchestrator"
	"brig/orchestrator/api"
	"brig/orchestrator/config"
	"brig/orchestrator/sandbox"
)

// approved is nil where the caller's code may run without a person being asked.
func (v *view) approved() error {
	profile := v.s.options.Config().Config.Permissions.Profile
	if v.c.Approval != api.ApprovedByProfile || profile == config.AutoApprove {
		return nil
	}
	return api.NewProblem(api.CodeForbidden, "running code needs a person's approval: permissions.profile is "+string(profile),
		`brig config show permissions.profile`)
}

// permits is nil where the caller's code may run in an instance of that posture. It
// is asked with the instance at hand, whatever way the request came: what a client saw
// before may have changed. The operator alone may run code that nothing contains.
func (v *view) permits(p sandbox.Posture, r orchestrator.Resolution) error {
	if v.c.Role == Operator {
		return nil
	}
	if err := v.approved(); err != nil {
		return err
	}
	if orchestrator.ToolsBacked(p, r) {
		return nil
	}
	told := api.NewProblem(api.CodeRefused, "nothing contains this code well enough for an agent's credential; the operator alone may run it so", "brig status")
	isolation := isolationOf(r, p)
	told.Isolation = &isolation
	return told
}
