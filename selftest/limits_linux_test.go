package selftest

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"brig/hostfallback"
	"brig/images"
	"brig/orchestrator"
	"brig/orchestrator/config"
	"brig/orchestrator/docker"
	"brig/orchestrator/owner"
	"brig/orchestrator/sandbox"
	"brig/orchestrator/sandbox/sandboxtest"
)

// limitSubject is a real backend below a real orchestrator. With unlimited its
// sessions have the limits of users instead of the small ones.
func limitSubject(t *testing.T, kind sandbox.Kind, unlimited bool) Subject {
	t.Helper()
	dir := t.TempDir()
	paths := config.Paths{Config: dir + "/config", State: dir + "/state", Data: dir + "/data", Cache: dir + "/cache", Runtime: dir + "/run"}
	own, err := owner.Open(paths.State)
	if err != nil {
		t.Fatal(err)
	}
	var backend sandbox.Backend
	if kind == sandbox.Docker {
		trust := images.New(images.Options{Env: os.LookupEnv, Cache: paths.Cache, Retention: images.DefaultRetention()})
		backend, err = docker.New(docker.Options{Env: os.LookupEnv, Owner: own.ID(), Process: own.Token(), Images: trust})
	} else {
		backend, err = hostfallback.New(hostfallback.Options{Env: os.LookupEnv, Cache: paths.Cache, Runtime: paths.Runtime, Owner: own.ID()})
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := backend.Probe(t.Context()); err != nil {
		sandboxtest.Skip(t, "the backend "+string(kind), err.Error())
	}
	c := config.Default()
	o, err := orchestrator.New(orchestrator.Options{Backends: []sandbox.Backend{backend}, Config: c, Paths: paths, Owner: own})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		for _, err := range []error{o.Close(ctx), backend.Close(ctx), own.Close()} {
			if err != nil {
				t.Error(err)
			}
		}
	})
	base := c.BaseFor(kind)
	return Subject{Kind: kind, Base: base, Open: func(ctx context.Context, opening Opening) (*orchestrator.Session, error) {
		b := opening.Base
		if unlimited {
			b.Limits = base.Limits
		}
		return o.Open(ctx, orchestrator.SessionOptions{Backend: kind, Base: &b, Workspace: opening.Workspace, Trial: true})
	}}
}

// tryLimits judges each probe of the stage on a real backend.
func tryLimits(t *testing.T, s Subject) map[string]sandbox.Verdict {
	t.Helper()
	o := yardOptions(t)
	y := mustYard(t, o)
	defer func() {
		if err := y.close(); err != nil {
			t.Error(err)
		}
	}()
	probes := limitProbes()
	began := time.Now()
	got := limitStage(t.Context(), stage{subject: s, options: o, yard: y}, probes)
	t.Logf("the stage took %s", time.Since(began))
	out := map[string]sandbox.Verdict{}
	for _, p := range probes {
		tried := got[p.ID]
		if len(tried.attempts) != 1 {
			t.Errorf("%s: %d attempts, control %+v", p.ID, len(tried.attempts), tried.control)
			continue
		}
		v, reason, by := judge(p, tried.attempts[0].Outcome, tried.control)
		t.Logf("%s %s: %s, by %s: %s", p.ID, v, reason, by, tried.attempts[0].Outcome.Detail)
		out[p.ID] = v
	}
	if left, _ := filepath.Glob(filepath.Join(y.dir, "limits-*", "brig-selftest-[sf]*")); s.Kind == sandbox.Docker && len(left) > 0 {
		t.Logf("files of a session that was ended stay until the yard is closed: %v", left)
	}
	return out
}

// Every limit is reached on both backends, and something stops the code there.
func TestLimits(t *testing.T) {
	for _, kind := range []sandbox.Kind{sandbox.Host, sandbox.Docker} {
		t.Run(string(kind), func(t *testing.T) {
			for id, v := range tryLimits(t, limitSubject(t, kind, false)) {
				// Processors are each machine's own matter: a busy one leaves nothing to
				// compare, and the host divides none.
				if v != sandbox.Blocked && id != cpuProbe {
					t.Errorf("%s: %s", id, v)
				}
			}
		})
	}
}

// A limit that is not there is seen not to be there.
func TestLimitsThatAreMissing(t *testing.T) {
	missing := []string{"limit-memory", "limit-memory-tree", "limit-processes", "limit-open-files", "limit-raise", "limit-file-size", "limit-disk", floodOutput}
	for id, v := range tryLimits(t, limitSubject(t, sandbox.Host, true)) {
		if want := slices.Contains(missing, id); want != (v == sandbox.Allowed) && id != cpuProbe {
			t.Errorf("%s: %s", id, v)
		}
	}
}
