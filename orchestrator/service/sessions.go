package service

import (
	"context"

	"brig/orchestrator"
	"brig/orchestrator/api"
)

// session is one entry of the registry.
type session struct {
	id, name, creator string
	live              *orchestrator.Session
}

// find is the session of that id or name, if the caller may know of it. While
// sessions of an earlier brig are being taken over it waits for one that is not there yet.
func (v *view) find(ctx context.Context, name string) (*session, error) {
	return nil, notFound("session")
}

func (v *view) OpenSession(ctx context.Context, r api.SessionRequest) (api.Session, bool, error) {
	return api.Session{}, false, unbuilt()
}

func (v *view) Sessions(ctx context.Context, p api.Page) (api.SessionList, error) {
	return api.SessionList{}, unbuilt()
}

func (v *view) Session(ctx context.Context, session string) (api.Session, error) {
	return api.Session{}, unbuilt()
}

func (v *view) RenewSession(ctx context.Context, session string, r api.Renewal) (api.Session, error) {
	return api.Session{}, unbuilt()
}
func (v *view) CloseSession(ctx context.Context, session string) error { return unbuilt() }
func (v *view) Reset(ctx context.Context, session string) (api.Session, error) {
	return api.Session{}, unbuilt()
}
func (v *view) Interrupt(ctx context.Context, session string) error { return unbuilt() }
func (v *view) Variables(ctx context.Context, session string) (api.VariableList, error) {
	return api.VariableList{}, unbuilt()
}

func (v *view) SessionToken(ctx context.Context, session string) (api.Token, error) {
	return api.Token{}, unbuilt()
}
