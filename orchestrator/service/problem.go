package service

import "brig/orchestrator/api"

func unbuilt() error { return api.NewProblem(api.CodeInternal, "not built yet", "") }

// notFound is the answer about what does not exist and about what the caller may not see.
func notFound(what string) *api.Problem {
	return api.NewProblem(api.CodeNotFound, "there is no such "+what, "")
}

// problem is err as a *api.Problem.
func problem(err error) error {
	return err
}
