package service

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"brig/orchestrator"
	"brig/orchestrator/api"
	"brig/orchestrator/audit"
)

const (
	// usageBound is how long asking an instance for its use may take.
	usageBound = 3 * time.Second
	// pageMost bounds the entries of one page; pageUsual is meant by 0.
	pageMost, pageUsual = 1000, 100
)

// listBound is how long a list waits for sessions that are being taken over.
const listBound = 3 * time.Second

// Sessions are sorted by the time when they were opened, the oldest first.
func (v *view) Sessions(ctx context.Context, p api.Page) (api.SessionList, error) {
	out := api.SessionList{Sessions: []api.Session{}}
	after, err := base64.RawURLEncoding.DecodeString(p.Cursor)
	if place, _, _ := strings.Cut(string(after), " "); err == nil && len(after) > 0 {
		_, err = time.Parse("20060102150405.000000000", place)
	}
	if err != nil {
		return out, invalid("query.cursor", "it is of no page of this list")
	}
	patience := time.NewTimer(listBound)
	defer patience.Stop()
	select {
	case <-v.s.settled:
	case <-patience.C: // an engine that hangs keeps nobody from seeing the others
	case <-ctx.Done():
		return out, v.s.problem(context.Cause(ctx))
	}
	var all []api.Session
	for _, x := range v.visible() {
		all = append(all, v.s.describe(x))
	}
	place := func(s api.Session) string { return s.Created.UTC().Format("20060102150405.000000000") + " " + s.ID }
	slices.SortFunc(all, func(a, b api.Session) int { return strings.Compare(place(a), place(b)) })
	limit := min(cmp.Or(max(p.Limit, 0), pageUsual), pageMost)
	for _, s := range all {
		if place(s) <= string(after) {
			continue
		}
		if len(out.Sessions) == limit {
			out.Next = base64.RawURLEncoding.EncodeToString([]byte(place(out.Sessions[limit-1])))
			break
		}
		out.Sessions = append(out.Sessions, s)
	}
	return out, nil
}

// visible are the sessions that the caller may know of.
func (v *view) visible() []*session {
	v.s.mu.Lock()
	defer v.s.mu.Unlock()
	var out []*session
	for _, x := range v.s.sessions {
		if v.c.sees(x.id, x.creator) {
			out = append(out, x)
		}
	}
	return out
}

func (v *view) Session(ctx context.Context, session string) (api.Session, error) {
	x, err := v.find(ctx, session)
	if err != nil {
		return api.Session{}, err
	}
	return v.measured(ctx, x), nil
}

// measured is a session with what it takes now, as far as that can be told.
func (v *view) measured(ctx context.Context, x *session) api.Session {
	out := v.s.inFull(x)
	ctx, cancel := context.WithTimeout(ctx, usageBound)
	defer cancel()
	u := api.Usage{}
	body, err := x.live.Usage(ctx)
	if err == nil {
		u.MemoryBytes, u.Processes, u.CPUMs = body.RSS, body.Processes, time.Duration(body.CPU).Milliseconds()
	}
	bytes, files, sizeErr := x.live.Stored()
	u.WorkspaceBytes, u.WorkspaceFiles = bytes, files
	if err == nil || sizeErr == nil {
		out.Usage = &u
	}
	return out
}

func (v *view) RenewSession(ctx context.Context, session string, r api.Renewal) (api.Session, error) {
	if err := checkLifetime(r.LifetimeSeconds); err != nil {
		return api.Session{}, err
	}
	x, err := v.find(ctx, session)
	if err != nil {
		return api.Session{}, err
	}
	if err := x.live.Renew(ctx, time.Duration(r.LifetimeSeconds)*time.Second); err != nil {
		if errors.Is(err, orchestrator.ErrClosed) {
			return api.Session{}, v.s.problem(err)
		}
		return api.Session{}, v.s.storage(ctx, err)
	}
	if r.LifetimeSeconds > 0 {
		v.s.note(audit.KindSession, v.actor(), audit.SessionData{
			Event: "renewed", Session: x.id, Name: x.name, Creator: x.creator, Detail: fmt.Sprintf("it ends in %d seconds", r.LifetimeSeconds),
		})
	}
	return v.s.inFull(x), nil
}

func (v *view) CloseSession(ctx context.Context, session string) error {
	x, err := v.find(ctx, session)
	if err != nil {
		return err
	}
	v.s.note(audit.KindSession, v.actor(), audit.SessionData{Event: "close asked", Session: x.id, Name: x.name, Creator: x.creator})
	if err := x.live.Close(ctx); err != nil {
		if ctx.Err() != nil {
			return v.s.problem(context.Cause(ctx))
		}
		// It is closed. What it left behind is the operator's to know.
		v.s.options.Log.Warn().Err(err).Str("session", x.id).Msg("a session left something behind")
		v.s.trouble("session " + x.name + " left something behind: " + err.Error())
	}
	v.s.forget(x)
	return nil
}

func (v *view) Reset(ctx context.Context, session string, o api.ResetOptions) (api.Session, error) {
	x, err := v.find(ctx, session)
	if err != nil {
		return api.Session{}, err
	}
	if run := string(x.live.Info().Run); o.Now && run != "" {
		v.s.note(audit.KindRun, v.actor(), audit.RunData{Event: "interrupted", Run: run, Session: x.id, Name: x.name})
	}
	if err := x.live.Reset(ctx, o.Now); err != nil {
		return api.Session{}, v.s.problem(err)
	}
	v.s.note(audit.KindSession, v.actor(), audit.SessionData{Event: "reset", Session: x.id, Name: x.name, Creator: x.creator})
	return v.s.inFull(x), nil
}

func (v *view) Interrupt(ctx context.Context, session string) error {
	x, err := v.find(ctx, session)
	if err != nil {
		return err
	}
	run := string(x.live.Info().Run)
	if err := x.live.Interrupt(ctx); err != nil {
		return v.s.problem(err)
	}
	v.s.note(audit.KindRun, v.actor(), audit.RunData{Event: "interrupted", Run: run, Session: x.id, Name: x.name})
	return nil
}

func (v *view) Variables(ctx context.Context, session string) (api.VariableList, error) {
	out := api.VariableList{Variables: []api.Variable{}}
	x, err := v.find(ctx, session)
	if err != nil {
		return out, err
	}
	body, err := x.live.Variables(ctx)
	if err != nil {
		return out, v.s.problem(err)
	}
	for _, n := range body.Variables {
		out.Variables = append(out.Variables, api.Variable{Name: n.Name, Type: n.Type, Shape: n.Shape, Bytes: n.Bytes, Repr: n.Repr})
	}
	out.Omitted = body.Omitted
	return out, nil
}
