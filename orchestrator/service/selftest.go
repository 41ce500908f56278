package service

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"sync"
	"time"

	"brig/orchestrator"
	"brig/orchestrator/api"
	"brig/orchestrator/audit"
	"brig/orchestrator/sandbox"
	"brig/orchestrator/store"
)

const (
	// selftestBound is how long a self-test may take.
	selftestBound = 15 * time.Minute
	// selftestStream is how much its stream holds, in bytes.
	selftestStream = 1 << 20
)

// selftestRun is a self-test of this process.
type selftestRun struct {
	events *ring
	done   chan struct{} // closed when it has ended and is recorded

	mu   sync.Mutex
	view api.Selftest // guarded by mu
}

func (t *selftestRun) now() api.Selftest {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.view
}

func (v *view) Selftest(ctx context.Context, q api.SelftestRequest) (api.Selftest, error) {
	if err := v.operator(); err != nil {
		return api.Selftest{}, err
	}
	s := v.s
	if s.options.Selftest == nil {
		return api.Selftest{}, api.NewProblem(api.CodeConflict, "this brig makes no self-test", "brig selftest")
	}
	if q.Backend != "" && q.Backend != string(sandbox.Docker) && q.Backend != string(sandbox.Host) {
		return api.Selftest{}, invalid("body.backend", "it is docker or host")
	}
	for i, id := range q.Only {
		if i >= 200 || !regexp.MustCompile(`^[a-z0-9-]{1,64}$`).MatchString(id) {
			return api.Selftest{}, invalid(fmt.Sprintf("body.only[%d]", i), "it is the id of no probe or layer, or there are more than 200")
		}
	}
	if q.Backend == "" {
		r, err := s.options.Orchestrator.Resolve(ctx, "")
		if err != nil {
			return api.Selftest{}, s.problem(err)
		}
		if q.Backend = string(r.Resolved); r.Err != nil {
			if r.Err.Code != orchestrator.CodeUnverified {
				return api.Selftest{}, s.problem(r.Err)
			}
			q.Backend = string(sandbox.Host) // to be tested is what it lacks
		}
	}
	t := &selftestRun{events: newRing(selftestStream, 0), done: make(chan struct{})}
	t.view = api.Selftest{
		ID: "test-" + string(orchestrator.NewRunID())[len("run-"):], Backend: q.Backend, State: string(store.SelftestRunning), Started: time.Now().UTC(),
	}
	s.mu.Lock()
	if s.closing {
		s.mu.Unlock()
		return api.Selftest{}, shutting()
	}
	before := s.selftest
	if before != nil && before.now().State == string(store.SelftestRunning) {
		s.mu.Unlock()
		return api.Selftest{}, retry(api.NewProblem(api.CodeConflict, "a self-test is under way", "brig selftest --last"), 10)
	}
	s.selftest = t
	s.work.Add(1)
	s.mu.Unlock()

	err := s.append(ctx, audit.KindSelftest, v.actor(), audit.EventData{Event: "begun", Values: map[string]string{"selftest": t.view.ID, "backend": q.Backend}})
	if err == nil {
		err = s.storage(ctx, s.recordSelftest(t.view))
	}
	if err != nil {
		s.mu.Lock()
		s.selftest = before // what is not on record has not been
		s.mu.Unlock()
		t.events.end()
		close(t.done)
		s.work.Done()
		return api.Selftest{}, err
	}
	began := t.now()
	s.tellSelftest(began)
	go s.test(t, q)
	return began, nil
}

// test makes the self-test, records what it saw, and tells of it.
func (s *Service) test(t *selftestRun, q api.SelftestRequest) {
	defer s.work.Done()
	ctx, cancel := context.WithTimeout(s.life, selftestBound)
	defer cancel()
	result, err := s.options.Selftest(ctx, q, func(p api.SelftestProgress) {
		t.mu.Lock()
		t.view.Progress = p
		t.mu.Unlock()
		t.events.publish(held{event: api.Event{Kind: api.EventProgress, Data: mustJSON(p)}})
	})
	final := t.now()
	final.State, final.Ended = string(store.SelftestEnded), moment(time.Now())
	final.Holds, final.Sentence, final.Report, final.Stale = result.Holds, result.Sentence, result.Report, result.Stale
	if result.Backend != "" {
		final.Backend = result.Backend
	}
	if err != nil {
		final.State, final.Problem = string(store.SelftestFailed), err.Error()
	}
	if err := s.recordSelftest(final); err != nil {
		s.tally.storeFailed()
		s.trouble("a self-test could not be recorded: " + err.Error())
	}
	s.note(audit.KindSelftest, "brig", audit.EventData{
		Event: "ended", Detail: final.Problem, Values: map[string]string{"selftest": final.ID, "backend": final.Backend, "holds": final.Holds},
	})
	t.mu.Lock()
	t.view = final
	t.mu.Unlock()
	t.events.publish(held{event: api.Event{Kind: api.EventVerdict, Data: mustJSON(final)}})
	t.events.end()
	s.tellSelftest(final)
	close(t.done)
}

func (s *Service) tellSelftest(t api.Selftest) {
	t.Report = nil
	s.feed.publish(held{event: api.Event{Kind: api.EventSelftest, Data: mustJSON(t)}})
}

func (s *Service) recordSelftest(t api.Selftest) error {
	ctx, cancel := bounded(context.Background(), recordBound)
	defer cancel()
	row := store.Selftest{ID: t.ID, Backend: t.Backend, State: store.SelftestState(t.State), Started: t.Started, Report: t.Report}
	if t.Ended != nil {
		row.Ended = *t.Ended
	}
	t.Report = nil
	row.Summary = mustJSON(t)
	return s.options.Store.PutSelftest(ctx, row)
}

func (v *view) FindSelftest(ctx context.Context, id string, o api.FindOptions) (api.Selftest, error) {
	if t := v.s.testOf(id); t != nil {
		if o.Wait > 0 {
			patience := time.NewTimer(min(o.Wait, waitMost))
			defer patience.Stop()
			select {
			case <-t.done:
			case <-patience.C:
			case <-ctx.Done():
				return api.Selftest{}, v.s.problem(context.Cause(ctx))
			}
		}
		return v.s.judged(t.now()), nil
	}
	row, err := v.s.options.Store.FindSelftest(ctx, id)
	if errors.Is(err, store.ErrNotFound) {
		p := api.NewProblem(api.CodeNotFound, "there is no such self-test", "brig selftest")
		return api.Selftest{}, p
	}
	if err != nil {
		return api.Selftest{}, v.s.unread(ctx, err)
	}
	return v.s.judged(v.s.selftestOf(row)), nil
}

// testOf is the self-test of this process with that id, or the latest; nil: it is
// to be looked for in the store.
func (s *Service) testOf(id string) *selftestRun {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t := s.selftest; t != nil && (id == "" || t.now().ID == id) {
		return t
	}
	return nil
}

// judged says whether it still says anything about now.
func (s *Service) judged(t api.Selftest) api.Selftest {
	if s.options.Stale != nil && t.State == string(store.SelftestEnded) {
		t.Stale = s.options.Stale(t)
	}
	return t
}

// selftestOf is a self-test as it is recorded. One that a dead process was making
// has failed, whatever its record says.
func (s *Service) selftestOf(row store.Selftest) api.Selftest {
	var t api.Selftest
	if err := json.Unmarshal(row.Summary, &t); err != nil || t.ID == "" {
		t = api.Selftest{ID: row.ID, Backend: row.Backend, State: string(row.State), Started: row.Started.UTC(), Ended: moment(row.Ended)}
	}
	if len(row.Report) > 0 {
		t.Report = row.Report
	}
	if row.State == store.SelftestRunning {
		t.State, t.Problem = string(store.SelftestFailed), "brig ended while it was under way"
	}
	return t
}

func (v *view) Selftests(ctx context.Context, p api.Page) (api.SelftestList, error) {
	out := api.SelftestList{Selftests: []api.Selftest{}}
	rows, next, err := v.s.options.Store.Selftests(ctx, p.Limit, p.Cursor)
	if err != nil {
		return out, v.s.unread(ctx, err)
	}
	out.Next = next
	for _, row := range rows {
		t := v.s.selftestOf(row)
		if here := v.s.testOf(row.ID); here != nil {
			t = here.now()
		}
		t.Report = nil
		out.Selftests = append(out.Selftests, v.s.judged(t))
	}
	return out, nil
}

func (v *view) FollowSelftest(ctx context.Context, id string, after uint64, emit func(api.Event) error) error {
	done, err := v.s.following()
	if err != nil {
		return err
	}
	defer done()
	if t := v.s.testOf(id); t != nil {
		return v.followed(ctx, t.events.follow(ctx, v, after, emit))
	}
	t, err := v.FindSelftest(ctx, id, api.FindOptions{})
	if err != nil {
		return err
	}
	end := api.Event{ID: after + 2, Kind: api.EventVerdict, Time: t.Started, Data: mustJSON(t)}
	if err := emit(reset(after, end.ID)); err != nil {
		return err
	}
	return emit(end)
}
