package service

import (
	"context"
	"errors"
	"fmt"
	"time"

	"brig/orchestrator"
	"brig/orchestrator/api"
	"brig/orchestrator/sandbox"
	"brig/orchestrator/store"
	"brig/orchestrator/wire"
	"brig/orchestrator/workspace"
)

// notFound is the answer about what does not exist and about what the caller may not see.
func notFound(what string) *api.Problem {
	return api.NewProblem(api.CodeNotFound, "there is no such "+what, "brig session list")
}

// invalid says what is wrong with one part of a request, without repeating it.
func invalid(location, message string) *api.Problem {
	p := api.NewProblem(api.CodeInvalid, location+": "+message, "")
	p.Errors = []api.FieldError{{Location: location, Message: message}}
	return p
}

// shutting is the answer to what comes too late.
func shutting() *api.Problem {
	return api.NewProblem(api.CodeShuttingDown, "brig is ending", "brig up")
}

// problem is err as a *api.Problem. What nobody foresaw is brig's own fault: it is
// logged, and only its sentence is told.
func (s *Service) problem(err error) error {
	if err == nil {
		return nil
	}
	var told *api.Problem
	if errors.As(err, &told) {
		return told
	}
	var held *orchestrator.HeldError
	if errors.As(err, &held) {
		return s.unreached(held)
	}
	var refused *orchestrator.RefusedError
	var unavailable *sandbox.Unavailable
	var lost *sandbox.Lost
	var call *wire.CallError
	switch {
	case errors.As(err, &refused):
		p := api.NewProblem(api.CodeRefused, refused.Reason, refused.Remedy)
		met := refused.Met
		if len(met) == 0 {
			met = []orchestrator.Refusal{refused.Refusal}
		}
		p.Isolation = &api.Isolation{
			Configured: string(s.options.Config().Config.Execution.Backend), Refusals: refusalsOf(met), Warnings: []string{"nothing runs: " + refused.Reason},
		}
		return p
	case errors.As(err, &unavailable):
		return api.NewProblem(api.CodeRefused, unavailable.Reason, unavailable.Remedy)
	case errors.Is(err, orchestrator.ErrTooMany):
		return retry(api.NewProblem(api.CodeTooMany, "too many sessions are open: limits.sessions allows no more", "brig session list"), 10)
	case errors.Is(err, orchestrator.ErrBusy):
		return retry(api.NewProblem(api.CodeBusy, orchestrator.ErrBusy.Error(), ""), 1)
	case errors.Is(err, orchestrator.ErrNoInterpreter):
		return api.NewProblem(api.CodeConflict, orchestrator.ErrNoInterpreter.Error(), "")
	case errors.Is(err, sandbox.ErrNotRunning):
		return api.NewProblem(api.CodeNotRunning, "nothing is running in this session", "")
	case errors.Is(err, orchestrator.ErrNameTaken):
		return api.NewProblem(api.CodeNameTaken, "a session of that name exists", "brig session list")
	case errors.Is(err, orchestrator.ErrTimeoutRange):
		return invalid("body.timeout_ms", orchestrator.ErrTimeoutRange.Error())
	case errors.Is(err, orchestrator.ErrTooLarge):
		return api.NewProblem(api.CodeTooLarge, err.Error(), "")
	case errors.Is(err, orchestrator.ErrLifetime):
		return invalid("body.lifetime_seconds", orchestrator.ErrLifetime.Error())
	case errors.Is(err, store.ErrCursor):
		return invalid("query.cursor", store.ErrCursor.Error())
	case errors.Is(err, errEnding), s.life.Err() != nil && errors.Is(err, orchestrator.ErrClosed):
		return shutting()
	case errors.Is(err, orchestrator.ErrClosed), errors.Is(err, sandbox.ErrClosed), errors.Is(err, store.ErrNotHeld):
		return api.NewProblem(api.CodeGone, "the session is closed", "brig session list")
	case errors.As(err, &lost):
		return retry(api.NewProblem(api.CodeBackendLost, lost.Error(), ""), 1)
	case errors.As(err, &call):
		return api.NewProblem(api.CodeConflict, call.Error(), "")
	case store.Failed(err), workspace.Full(err):
		return s.unwritable(err)
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return api.NewProblem(api.CodeDeadline, "it took longer than the call was given", "")
	}
	s.options.Log.Error().Err(err).Msg("a call failed")
	return api.NewProblem(api.CodeInternal, "brig failed: "+err.Error(), "brig doctor")
}

// heldRetry is after how many seconds at most a backend that went away is asked again.
const heldRetry = 10

// unreached is the answer of a session whose instance may live where brig does not reach it.
func (s *Service) unreached(e *orchestrator.HeldError) *api.Problem {
	why := *s.problem(e.Err).(*api.Problem)
	within := max(e.Within, time.Second).Round(time.Second)
	why.Detail = fmt.Sprintf("the session's instance may still live where brig cannot reach it, and two never share a workspace; "+
		"it is taken up again, or has ended by itself within %s: %s", within, why.Detail)
	return retry(&why, min(int(within.Seconds()), heldRetry))
}

// storage is the answer when something could not be written down, so that nothing was
// done. Nothing is wrong with the store where the caller, whose ctx it is, has left.
func (s *Service) storage(ctx context.Context, err error) error {
	var told *api.Problem
	if err == nil || errors.As(err, &told) {
		return err
	}
	if ctx.Err() != nil {
		return s.problem(context.Cause(ctx))
	}
	return s.unwritable(err)
}

// unwritable is the answer when the disk or the database on it refuses.
func (s *Service) unwritable(err error) *api.Problem {
	s.tally.storeFailed()
	s.options.Log.Error().Err(err).Msg("the store refused")
	return retry(api.NewProblem(api.CodeStorage, fmt.Sprintf("it could not be written down, so it was not done: %v", err), "df -h"), 5)
}

// retry says after how many seconds trying again makes sense.
func retry(p *api.Problem, seconds int) *api.Problem {
	p.RetryAfter = seconds
	return p
}
