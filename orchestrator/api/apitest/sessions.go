package apitest

import (
	"slices"
	"sync"
	"testing"
	"time"

	"brig/orchestrator/api"
	"brig/orchestrator/sandbox/sandboxtest"
)

func sessionsByName(t *testing.T, s Subject) {
	ctx := within(t)
	first := open(t, s.Agent, api.SessionRequest{Name: "work"})
	if first.Name != "work" || first.ID == "" || first.State != "idle" || first.Stamp.Backend == "" || first.Stamp.Session != "work" ||
		first.Creator == "" || first.Warnings == nil || first.Created.IsZero() || first.Limits.MemoryBytes == 0 || first.IdleEnds == nil {
		t.Errorf("%+v", first)
	}
	again, created, err := s.Agent.OpenSession(ctx, api.SessionRequest{Name: "work"})
	must(t, err)
	if created || again.ID != first.ID {
		t.Errorf("created %v, %s instead of %s", created, again.ID, first.ID)
	}
	for _, name := range []string{"work", first.ID} {
		got, err := s.Agent.Session(ctx, name)
		must(t, err)
		if got.ID != first.ID || got.Usage == nil {
			t.Errorf("%s: %+v", name, got)
		}
	}
	must(t, s.Agent.CloseSession(ctx, "work"))
	_, err = s.Agent.Session(ctx, "work")
	wantCode(t, "a closed session", err, api.CodeNotFound)
	wantCode(t, "close it again", s.Agent.CloseSession(ctx, first.ID), api.CodeNotFound)
	second := open(t, s.Agent, api.SessionRequest{Name: "work"})
	if second.ID == first.ID {
		t.Error("the name brought a closed session back")
	}

	// Of many who ask for one name at once, one opens it and all get it.
	var wg sync.WaitGroup
	var mu sync.Mutex
	ids, made := map[string]bool{}, 0
	for range 12 {
		wg.Go(func() {
			x, created, err := s.Agent.OpenSession(ctx, api.SessionRequest{Name: "shared"})
			if err != nil {
				t.Error(err)
				return
			}
			mu.Lock()
			defer mu.Unlock()
			ids[x.ID] = true
			if created {
				made++
			}
		})
	}
	wg.Wait()
	if len(ids) != 1 || made != 1 {
		t.Errorf("%d sessions, opened by %d", len(ids), made)
	}
}

func sessionsUnnamed(t *testing.T, s Subject) {
	a, b := open(t, s.Agent, api.SessionRequest{}), open(t, s.Agent, api.SessionRequest{})
	if a.ID == b.ID || a.Name != a.ID {
		t.Errorf("%s named %s, %s", a.ID, a.Name, b.ID)
	}
}

func pagesOfSessions(t *testing.T, s Subject) {
	ctx := within(t)
	empty, err := s.Agent.Sessions(ctx, api.Page{})
	must(t, err)
	if empty.Sessions == nil || len(empty.Sessions) != 0 || empty.Next != "" {
		t.Errorf("%+v", empty)
	}
	want := map[string]bool{}
	for range 5 {
		want[open(t, s.Agent, api.SessionRequest{}).ID] = true
	}
	page, pages := api.Page{Limit: 2}, 0
	for {
		l, err := s.Agent.Sessions(ctx, page)
		must(t, err)
		pages++
		for _, x := range l.Sessions {
			if !want[x.ID] {
				t.Errorf("%s is there twice or not of these", x.ID)
			}
			delete(want, x.ID)
		}
		if page.Cursor = l.Next; l.Next == "" {
			break
		}
	}
	_, err = s.Agent.Sessions(ctx, api.Page{Cursor: "no cursor"})
	wantCode(t, "a wrong cursor", err, api.CodeInvalid)
	if len(want) != 0 || pages != 3 {
		t.Errorf("%d pages, missing %v", pages, want)
	}
}

func badSessions(t *testing.T, s Subject) {
	for what, q := range map[string]api.SessionRequest{
		"a name with a slash":         {Name: "../x"},
		"a long name":                 {Name: string(make([]byte, 65))},
		"an unknown backend":          {Backend: "vm"},
		"a time zone that leads out":  {Timezone: "../../etc/passwd"},
		"a locale with a line break":  {Locale: "C\nX"},
		"a negative lifetime":         {LifetimeSeconds: -1},
		"more memory than configured": {Limits: &api.LimitsRequest{MemoryBytes: 1 << 50}},
		"negative processes":          {Limits: &api.LimitsRequest{Processes: -1}},
	} {
		_, _, err := s.Agent.OpenSession(within(t), q)
		wantCode(t, what, err, api.CodeInvalid)
	}
	low := open(t, s.Agent, api.SessionRequest{Limits: &api.LimitsRequest{MemoryBytes: 256 << 20, Processes: 64}})
	if low.Limits.MemoryBytes != 256<<20 || low.Limits.Processes != 64 || low.Limits.MilliCPU == 0 {
		t.Errorf("%+v", low.Limits)
	}
	_, err := s.Agent.Session(within(t), "nobody")
	wantCode(t, "a session that is not there", err, api.CodeNotFound)
}

func lifetime(t *testing.T, s Subject) {
	ctx := within(t)
	x := open(t, s.Agent, api.SessionRequest{Name: "a", LifetimeSeconds: 3600})
	if x.Expires == nil || x.Expires.Sub(x.Created).Round(time.Minute) != time.Hour {
		t.Fatalf("%+v", x)
	}
	got, err := s.Agent.RenewSession(ctx, "a", api.Renewal{LifetimeSeconds: 7200})
	must(t, err)
	if got.Expires == nil || got.Expires.Sub(*x.Expires).Round(time.Minute) != time.Hour {
		t.Errorf("expires %v, before %v", got.Expires, x.Expires)
	}
	same, err := s.Agent.RenewSession(ctx, "a", api.Renewal{})
	must(t, err)
	if same.Expires == nil || same.Expires.Sub(*got.Expires).Abs() > time.Second {
		t.Errorf("expires %v, before %v", same.Expires, got.Expires)
	}
	_, err = s.Agent.RenewSession(ctx, "a", api.Renewal{LifetimeSeconds: -1})
	wantCode(t, "below zero", err, api.CodeInvalid)
	// One that ends by itself is gone as one that was closed.
	short := open(t, s.Agent, api.SessionRequest{Name: "b", LifetimeSeconds: 1})
	for {
		if _, err := s.Agent.Session(ctx, short.ID); err != nil {
			wantCode(t, "after its lifetime", err, api.CodeNotFound)
			break
		}
		select {
		case <-ctx.Done():
			t.Fatal("it outlives its lifetime")
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func variables(t *testing.T, s Subject) {
	ctx := within(t)
	x := open(t, s.Agent, api.SessionRequest{})
	run(t, s.Agent, x.ID, sandboxtest.Set("answer", 42))
	list, err := s.Agent.Variables(ctx, x.ID)
	must(t, err)
	// What a program of the suite needs for itself is beside it in a real interpreter.
	if !slices.ContainsFunc(list.Variables, func(v api.Variable) bool { return v.Name == "answer" && v.Type == "int" }) {
		t.Errorf("%+v", list)
	}
	_, err = s.Agent.Reset(ctx, x.ID, api.ResetOptions{})
	must(t, err)
	list, err = s.Agent.Variables(ctx, x.ID)
	must(t, err)
	if list.Variables == nil || len(list.Variables) != 0 {
		t.Errorf("%+v", list)
	}
}
