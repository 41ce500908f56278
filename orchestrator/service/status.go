package service

import (
	"context"
	"encoding/json"
	"slices"
	"sync"
	"time"

	"brig/orchestrator"
	"brig/orchestrator/api"
	"brig/orchestrator/audit"
	"brig/orchestrator/config"
	"brig/orchestrator/sandbox"
)

func (v *view) Status(ctx context.Context) (api.Status, error) {
	c := v.s.options.Config().Config
	r, err := v.s.options.Orchestrator.Resolve(ctx, "")
	if err != nil {
		return api.Status{}, v.s.problem(err)
	}
	out := api.Status{
		Version: v.s.options.Version, Started: v.s.started.UTC(), Layers: []api.Layer{}, Profile: string(c.Permissions.Profile), CodeExec: c.Workspace.CodeExec,
		Limit: c.Limits.Sessions, Problems: []string{},
	}
	p := sandbox.Posture{}
	for _, x := range v.visible() {
		i := x.live.Info()
		out.Sessions++
		if i.Run != "" {
			out.Running++
		}
		if i.Posture.Backend == r.Resolved && r.Resolved != "" && (i.State == orchestrator.StateIdle || i.State == orchestrator.StateRunning) && len(i.Posture.Layers) > 0 {
			p, out.Observed = i.Posture, true
		}
	}
	if !out.Observed && r.Resolved != "" {
		if p, err = v.s.options.Orchestrator.Forecast(ctx, r.Resolved); err != nil {
			out.Problems = append(out.Problems, "what would be enforced could not be found out: "+err.Error())
		}
	}
	out.ToolsBacked = orchestrator.ToolsBacked(p, r)
	var seen sandbox.Posture // of a forecast the resolution itself speaks
	if out.Observed {
		seen = p
	}
	out.Isolation = isolationOf(r, seen)
	out.Layers = layersOf(p.Layers, p.Promised, v.s.verdicts(r.Resolved))
	if v.c.Role == Operator {
		out.Resolution = mustJSON(r)
		out.Pool = mustJSON(v.s.options.Orchestrator.PoolStatus())
		v.s.mu.Lock()
		out.Problems = append(out.Problems, v.s.problems...)
		v.s.mu.Unlock()
		if err := v.s.Writable(); err != nil {
			out.Problems = append(out.Problems, err.Error())
		}
	}
	if tests, err := v.Selftests(ctx, api.Page{Limit: 1}); err == nil && len(tests.Selftests) > 0 {
		out.Selftest = &tests.Selftests[0]
	}
	return out, nil
}

func (s *Service) verdicts(kind sandbox.Kind) map[sandbox.LayerID]sandbox.Verdict {
	if s.options.Verdicts == nil || kind == "" {
		return nil
	}
	return s.options.Verdicts(kind)
}

// lookBound is how long asking all backends may take, whatever hangs.
const lookBound = 8 * time.Second

func (v *view) Backends(ctx context.Context) (api.BackendList, error) {
	out := api.BackendList{Backends: make([]api.Backend, len(v.s.options.Backends))}
	ctx, cancel := context.WithTimeout(ctx, lookBound)
	defer cancel()
	var wg sync.WaitGroup
	for i, b := range v.s.options.Backends {
		wg.Go(func() { out.Backends[i] = v.backend(ctx, b) })
	}
	wg.Wait()
	return out, nil
}

func (v *view) backend(ctx context.Context, b sandbox.Backend) api.Backend {
	out := api.Backend{Kind: string(b.Kind()), Layers: []api.Layer{}, Warnings: []string{}}
	r, err := v.s.options.Orchestrator.Resolve(ctx, b.Kind())
	switch {
	case err != nil:
		out.Code, out.Reason = orchestrator.CodeCouldNotTell, err.Error()
	case r.Err != nil:
		out.Code, out.Reason, out.Remedy = r.Err.Code, r.Err.Reason, r.Err.Remedy
	default:
		out.Usable = true
	}
	if p, err := v.s.options.Orchestrator.Forecast(ctx, b.Kind()); err == nil || len(p.Layers) > 0 {
		out.Layers = layersOf(p.Layers, p.Promised, v.s.verdicts(b.Kind()))
		out.Warnings = notNil(orchestrator.Warnings(r, sandbox.Posture{}))
	}
	facts, err := b.Probe(ctx)
	if err != nil {
		return out
	}
	out.Source, out.Version = facts.Source, facts.Version
	out.Warnings = append(out.Warnings, facts.Warnings...)
	if v.c.Role == Operator {
		out.Endpoint = facts.Endpoint
	}
	return out
}

// seen is what matters of a resolution: a change of it is told and written down.
type seen struct {
	known              bool
	resolved, text     string
	degraded, weakened bool
}

const (
	// watchRhythm is how often it is looked where code would run.
	watchRhythm = 3 * time.Second
	// watchBound is how long one look may take.
	watchBound = 20 * time.Second
)

// watchResolution tells and writes down every change of where code would run.
func (s *Service) watchResolution() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
		case <-s.life.Done():
			return
		}
		s.lookWhere()
		timer.Reset(watchRhythm)
	}
}

func (s *Service) lookWhere() {
	s.looking.Lock() // an older answer must not come after a newer one
	defer s.looking.Unlock()
	ctx, cancel := context.WithTimeout(s.life, watchBound)
	defer cancel()
	r, err := s.options.Orchestrator.Resolve(ctx, "")
	if err != nil {
		return // brig is ending, or it could not be told: the next look tries again
	}
	now := seen{known: true, resolved: string(r.Resolved), degraded: r.Degraded, weakened: r.Weakened}
	now.text = essence(r, now.resolved)
	s.mu.Lock()
	before := s.latest
	s.latest = now
	s.mu.Unlock()
	if before == now {
		return
	}
	act := "changed"
	if !before.known {
		act = "found"
	}
	if err := s.append(ctx, audit.KindResolution, "brig", resolutionData(act, before.resolved, now.resolved, r)); err != nil {
		s.options.Log.Error().Err(err).Msg("a change of where code runs could not be written down")
	}
	s.options.Log.Info().Str("resolved", now.resolved).Bool("degraded", now.degraded).Bool("weakened", now.weakened).
		Strs("warnings", isolationOf(r, sandbox.Posture{}).Warnings).Msg("where code runs: " + act)
	if before.known {
		s.feed.publish(held{event: api.Event{Kind: api.EventResolution}, data: func(v *view) json.RawMessage {
			ctx, cancel := context.WithTimeout(v.s.life, watchBound)
			defer cancel()
			status, err := v.Status(ctx)
			if err != nil {
				return nil
			}
			return mustJSON(status)
		}})
	}
}

// essence is what of a resolution is a change when it is another one: not its words.
func essence(r orchestrator.Resolution, resolved string) string {
	codes := []string{}
	for _, refusal := range r.Refusals {
		codes = append(codes, string(refusal.Kind)+" "+refusal.Code)
	}
	for _, l := range r.Gaps {
		codes = append(codes, string(l.ID)+" "+l.Code)
	}
	for _, l := range r.Opened {
		codes = append(codes, "open "+string(l.ID))
	}
	return string(mustJSON([]any{resolved, r.Configured, r.Mode, r.Degraded, codes}))
}

// resolutionData is a line of the audit log about where code runs.
func resolutionData(event, from, to string, r orchestrator.Resolution) audit.ResolutionData {
	data := audit.ResolutionData{Event: event, From: from, To: to, Where: &audit.Where{
		Backend: to, Configured: string(r.Configured), Mode: string(r.Mode), Degraded: r.Degraded, Weakened: []string{}, Opened: []string{},
	}}
	for _, refusal := range r.Refusals {
		data.Refusals = append(data.Refusals, audit.Refusal{Backend: string(refusal.Kind), Code: refusal.Code, Reason: refusal.Reason})
		data.Where.Reasons = append(data.Where.Reasons, refusal.Reason)
	}
	for _, l := range r.Gaps {
		data.Where.Weakened = append(data.Where.Weakened, string(l.ID)+" is "+string(l.State)+": "+l.Reason)
	}
	for _, l := range r.Opened {
		data.Where.Opened = append(data.Where.Opened, string(l.ID))
	}
	return data
}

// settingsOf is the configuration as it is shown.
func settingsOf(l config.Loaded) []api.Setting {
	out := []api.Setting{}
	allowed := map[string]string{}
	for _, k := range config.Keys() {
		allowed[k.Name] = k.Allowed
	}
	for _, row := range config.Render(l) {
		source := string(row.Source.From)
		if row.Source.Where != "" {
			source = row.Source.Where
		}
		out = append(out, api.Setting{
			Key: row.Key, Value: row.Value, Default: row.Default, Source: source, About: row.Doc, Allowed: allowed[row.Key],
		})
	}
	return slices.Clip(out)
}
