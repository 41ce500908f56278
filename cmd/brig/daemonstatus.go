package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"brig/orchestrator"
	"brig/orchestrator/sandbox"
)

// This file is what status and doctor say about the brig that stays. Where one runs with
// the same settings, where code would run is for it to say; what is on the machine is
// looked at as always.

// brigAnswer is the brig that stays, in --json.
type brigAnswer struct {
	Version  string                   `json:"version"`
	Started  time.Time                `json:"started"`
	Address  string                   `json:"address,omitempty"` // on loopback
	PID      int                      `json:"pid,omitempty"`
	Sessions int                      `json:"sessions"`
	Limit    int                      `json:"sessions_limit"`
	Running  int                      `json:"running"`
	Profile  string                   `json:"profile"`
	CodeExec bool                     `json:"code_exec"`
	Tools    bool                     `json:"tools_backed"`
	Pool     *orchestrator.PoolStatus `json:"pool,omitempty"`
	Problems []string                 `json:"problems"`
	Differs  string                   `json:"settings_differ,omitempty"` // the first setting that is another one here

	resolution orchestrator.Resolution
	layers     []sandbox.Layer
}

// lookAtBrig asks the brig that stays; nil: none runs.
func (p *program) lookAtBrig(ctx context.Context, s settings) (*brigAnswer, error) {
	c, err := p.daemon(ctx, s.Paths)
	if err != nil || c == nil {
		return nil, err
	}
	defer c.Close()
	now, err := c.Status(ctx)
	if err != nil {
		return nil, err
	}
	bound := boundOf(s.Paths)
	b := &brigAnswer{
		Version: now.Version, Started: now.Started, Address: bound.Address, PID: bound.PID,
		Sessions: now.Sessions, Limit: now.Limit, Running: now.Running, Profile: now.Profile, CodeExec: now.CodeExec,
		Tools: now.ToolsBacked, Problems: append([]string{}, now.Problems...),
	}
	if err := json.Unmarshal(now.Resolution, &b.resolution); err != nil {
		return nil, fmt.Errorf("read where code would run: %w", err)
	}
	for _, l := range now.Layers {
		b.layers = append(b.layers, sandbox.Layer{
			ID: sandbox.LayerID(l.ID), State: sandbox.LayerState(l.State), Mechanism: l.Mechanism, Code: l.Code,
			Reason: l.Reason, Remedy: l.Remedy, Evidence: l.Evidence,
		})
	}
	if len(now.Pool) > 0 {
		b.Pool = &orchestrator.PoolStatus{}
		if err := json.Unmarshal(now.Pool, b.Pool); err != nil {
			return nil, fmt.Errorf("read how the pool stands: %w", err)
		}
	}
	other, err := differs(ctx, c, s.Loaded, false)
	if other != nil {
		b.Differs = other.key
	}
	return b, err
}

// String is the brig that stays in one line.
func (b *brigAnswer) String() string {
	where := ""
	if b.Address != "" {
		where = " at " + b.Address
	}
	text := fmt.Sprintf("stays%s since %s: %d of %s, %d running", where, b.Started.Local().Format("2006-01-02 15:04"),
		b.Sessions, count(b.Limit, "session"), b.Running)
	if b.Differs != "" {
		text += "; code of agents runs there in: " + cmp.Or(string(b.resolution.Resolved), "nothing")
	}
	return text
}

// decides tells that code of a command here runs as the brig that stays says: its
// settings are the same.
func (b *brigAnswer) decides() bool { return b != nil && b.Differs == "" }

// warm is how the pool stands.
func (b *brigAnswer) warm() string {
	if b.Pool == nil || !b.Pool.On {
		return "nothing"
	}
	var parts []string
	for _, s := range b.Pool.Shelves {
		part := fmt.Sprintf("%s %d of %d", s.Kind, s.Ready, s.Wanted)
		if s.Reason != "" {
			part += " (" + s.Reason + ")"
		}
		parts = append(parts, part)
	}
	if b.Pool.Refused != "" {
		parts = append(parts, b.Pool.Refused)
	}
	if len(parts) == 0 {
		return "nothing"
	}
	return strings.Join(parts, ", ")
}

// examineBrig tells of the brig that stays; nil: none runs, or it does not answer.
func (p *program) examineBrig(ctx context.Context, r *report, s settings) *brigAnswer {
	b, err := p.lookAtBrig(ctx, s)
	switch {
	case err != nil:
		r.blame("brig", "stays", stateProblem, err)
		return nil
	case b == nil:
		r.add("brig", "stays", stateNote, "brig up", "no: agents cannot reach it, and every command makes its own")
		return nil
	}
	r.add("brig", "stays", stateOK, "", "%s", b)
	r.add("brig", "warm", stateOK, "", "%s", b.warm())
	for _, problem := range b.Problems {
		r.add("brig", "problem", stateProblem, "brig audit verify", "%s", problem)
	}
	if b.Differs != "" {
		r.add("brig", "settings", stateNote, downAndUp, "its %s is another one than here", b.Differs)
	}
	return b
}
