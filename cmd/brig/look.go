package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"brig/images"
	"brig/orchestrator"
	"brig/orchestrator/config"
	"brig/orchestrator/sandbox"
)

// This file is what "brig status" and "brig doctor" look at in the same way.

// withBrig does something with a whole brig, made from the settings and closed in
// the end. Of a build nothing is drawn.
func (p *program) withBrig(ctx context.Context, do func(s settings, a *assembly) error) (err error) {
	s, err := p.loadSettings()
	if err != nil {
		return err
	}
	a, err := p.assemble(s, assembleOptions{silent: true})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, a.close(ctx)) }()
	return do(s, a)
}

// looking is withBrig for what only looks. It is bounded.
func (p *program) looking(parent context.Context, do func(ctx context.Context, s settings, a *assembly) error) error {
	ctx, cancel := context.WithTimeout(parent, lookTimeout)
	defer cancel()
	return p.withBrig(ctx, func(s settings, a *assembly) error { return do(ctx, s, a) })
}

// used is a backend as it is found now.
type used struct {
	Endpoint string            `json:"endpoint,omitempty"`
	Source   string            `json:"source,omitempty"`
	Version  string            `json:"version,omitempty"`
	Warnings []string          `json:"warnings,omitempty"` // its own, about itself
	Details  map[string]string `json:"details,omitempty"`
	// Not usable: why, and what to do about it.
	Code   string `json:"code,omitempty"`
	Reason string `json:"reason,omitempty"`
	Remedy string `json:"remedy,omitempty"`

	err error
}

func lookAt(ctx context.Context, b sandbox.Backend) used {
	facts, err := b.Probe(ctx)
	if err != nil {
		f := explain(err)
		return used{Code: f.Code, Reason: redact(f.Message), Remedy: redact(f.Remedy), err: err}
	}
	u := used{
		Endpoint: redact(facts.Endpoint), Source: redact(facts.Source), Version: facts.Version, Details: facts.Details,
	}
	for _, warning := range facts.Warnings {
		u.Warnings = append(u.Warnings, redact(warning))
	}
	return u
}

// engineAnswer is the container engine, with what brig would do on it.
type engineAnswer struct {
	used
	Runtime    string       `json:"runtime,omitempty"`
	RuntimeWhy string       `json:"runtime_why,omitempty"`
	Images     []imageState `json:"images,omitempty"`

	runtimeErr, imagesErr error
}

// imageState is one image in short.
type imageState struct {
	Name      string           `json:"name"` // of the tier, or the user's own reference
	Condition images.Condition `json:"condition"`
	Reason    string           `json:"reason,omitempty"` // why it is stale or unusable
	Tag       string           `json:"tag,omitempty"`
	Remedy    string           `json:"remedy,omitempty"`
	wanted    bool             // by the settings
}

func (p *program) lookAtEngine(ctx context.Context, a *assembly, s settings) engineAnswer {
	e := engineAnswer{used: lookAt(ctx, a.docker)}
	if e.err != nil {
		return e
	}
	e.Runtime, e.RuntimeWhy, e.runtimeErr = a.docker.Runtime(ctx, s.Config.BaseFor(sandbox.Docker))
	e.Images, e.imagesErr = p.imageStates(ctx, a, s)
	return e
}

// imageStates are the images that the engine has, and those that it lacks.
func (p *program) imageStates(ctx context.Context, a *assembly, s settings) ([]imageState, error) {
	states, err := p.trust(s.Paths).Status(ctx, a.docker, configuredImage(s.Config)...)
	if err != nil {
		return nil, err
	}
	var rows []imageState
	for _, state := range states {
		rows = append(rows, imageState{
			Name: cmp.Or(state.Choice.Reference, string(state.Choice.Tier)), Condition: state.Condition, Reason: state.Reason, Tag: state.Tag, Remedy: state.Remedy,
			wanted: state.Choice.String() == s.Config.BaseFor(sandbox.Docker).Image,
		})
	}
	return rows, nil
}

// sessionsAnswer is what the settings say about the life of sessions.
type sessionsAnswer struct {
	Warm map[sandbox.Kind]int `json:"warm"` // how many instances a brig that stays keeps ready: brig up
	Kept bool                 `json:"kept"` // they outlive brig
	Idle string               `json:"idle"` // after that long without use they are closed
}

func sessionsOf(c config.Config) sessionsAnswer {
	return sessionsAnswer{
		Warm: map[sandbox.Kind]int{sandbox.Docker: c.Pool.Docker, sandbox.Host: c.Pool.Host},
		Kept: c.Orchestrator.KeepSessions, Idle: c.Limits.Idle.String(),
	}
}

func (s sessionsAnswer) warm() string {
	return fmt.Sprintf("kept ready by brig up: %s %d, %s %d",
		sandbox.Docker, s.Warm[sandbox.Docker], sandbox.Host, s.Warm[sandbox.Host])
}

func (s sessionsAnswer) kept() string {
	if s.Kept {
		return "sessions outlive the brig up that opened them"
	}
	return "no session outlives the brig that opened it"
}

// clearedAnswer is what brigs that were killed had left, and what became of it.
type clearedAnswer struct {
	orchestrator.Swept
	Error string `json:"error,omitempty"`
}

func clearUp(ctx context.Context, o *orchestrator.Orchestrator) clearedAnswer {
	swept, err := o.Sweep(ctx)
	c := clearedAnswer{Swept: swept}
	if err != nil {
		c.Error = redact(strings.ReplaceAll(err.Error(), "\n", "; "))
	}
	return c
}

// String is empty where nothing was left.
func (c clearedAnswer) String() string {
	var parts []string
	for _, kind := range []sandbox.Kind{sandbox.Docker, sandbox.Host} {
		if n := c.Instances[kind]; n > 0 {
			parts = append(parts, count(n, string(kind)+" instance"))
		}
	}
	switch {
	case c.Sessions == 1:
		parts = append(parts, "1 session directory")
	case c.Sessions > 1:
		parts = append(parts, fmt.Sprintf("%d session directories", c.Sessions))
	}
	var sentences []string
	if len(parts) > 0 {
		sentences = append(sentences, "removed what a killed brig had left: "+strings.Join(parts, ", "))
	}
	if c.Error != "" {
		sentences = append(sentences, "some of it could not be removed: "+c.Error)
	}
	return strings.Join(sentences, "; ")
}
