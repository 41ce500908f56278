package docker

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/docker/docker/api/types"

	"brig/images"
	"brig/orchestrator/sandbox"
	"brig/orchestrator/sandbox/sandboxtest"
	"brig/orchestrator/wire"
)

func token() string {
	var b [8]byte
	_, _ = rand.Read(b[:])
	return hex.EncodeToString(b[:])
}

// newBackend is a backend on the engine of this machine, of an owner of its own.
func newBackend(t testing.TB, change ...func(*Options)) *Backend {
	t.Helper()
	o := Options{
		Env: os.LookupEnv, Owner: "test-" + token(), Process: token(),
		Images: images.New(images.Options{Env: os.LookupEnv}),
		Progress: func(p images.Progress) {
			if p.Instruction {
				t.Logf("building %d/%d %s", p.Step, p.Total, p.Text)
			}
		},
	}
	for _, c := range change {
		c(&o)
	}
	b, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return b
}

// engineBackend is newBackend where an engine with the base or the tier answers.
func engineBackend(t testing.TB, tier images.Tier, change ...func(*Options)) *Backend {
	t.Helper()
	b := newBackend(t, change...)
	if _, err := b.Probe(t.Context()); err != nil {
		sandboxtest.Skip(t, "a Docker engine", err.Error())
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	if _, err := b.ensureImage(ctx, tier); err != nil {
		if u := (*sandbox.Unavailable)(nil); errors.As(err, &u) && u.Code == "image-base-missing" {
			sandboxtest.Skip(t, "the base image "+images.DefaultBase, err.Error())
		}
		t.Fatal(err)
	}
	return b
}

// ensureImage is ensure for a tier.
func (b *Backend) ensureImage(ctx context.Context, tier images.Tier) (images.Ref, error) {
	return b.ensure(ctx, images.Choice{Tier: tier})
}

func limited(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func coreBase() sandbox.Base {
	return sandbox.Base{Network: sandbox.NetworkDeny, Image: string(images.Core)}
}

// session is one bound container, closed at the end of the test.
func session(t testing.TB, b *Backend, base sandbox.Base, workspace string) *instance {
	t.Helper()
	p, err := b.Prepare(limited(t), base, workspace)
	if err != nil {
		t.Fatalf("prepare: %v", err)
	}
	i, err := p.Bind(limited(t), sandbox.Claim{
		ID: sandbox.InstanceID(b.options.Process + "-" + token()), Session: "test", Workspace: workspace,
	})
	if err != nil {
		t.Fatalf("bind: %v", err)
	}
	t.Cleanup(func() {
		if err := i.Close(limited(t)); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return i.(*instance)
}

// outcome is everything that was seen of one run.
type outcome struct {
	exit           wire.Exit
	err            error
	stdout, stderr strings.Builder
	displays       []wire.Display
}

func run(t testing.TB, i sandbox.Instance, code string) *outcome {
	t.Helper()
	return runUntil(limited(t), i, code, nil)
}

// runUntil tells seen about standard output as it grows.
func runUntil(ctx context.Context, i sandbox.Instance, code string, seen func(stdout string)) *outcome {
	o := &outcome{}
	o.exit, o.err = i.Run(ctx, wire.Run{ID: wire.RunID("r" + token()), Source: []byte(code)}, func(e wire.Event) error {
		switch e.Kind {
		case wire.EventStdout:
			o.stdout.Write(e.Data)
			if seen != nil {
				seen(o.stdout.String())
			}
		case wire.EventStderr:
			o.stderr.Write(e.Data)
		case wire.EventDisplay:
			d := wire.Display{Role: e.Display.Role}
			for _, p := range e.Display.Data {
				d.Data = append(d.Data, wire.Part{MIME: p.MIME, Data: append([]byte(nil), p.Data...)})
			}
			o.displays = append(o.displays, d)
		case wire.EventGap:
		}
		return nil
	})
	return o
}

// ok is run for code that must succeed.
func ok(t testing.TB, i sandbox.Instance, code string) *outcome {
	t.Helper()
	o := run(t, i, code)
	if o.err != nil || o.exit.Outcome != wire.OutcomeOK {
		t.Fatalf("run: %v, exit %+v, exception %+v\nstdout %s\nstderr %s", o.err, o.exit, o.exit.Exception, o.stdout.String(), o.stderr.String())
	}
	return o
}

// pingOf is an engine's answer that settles the API version without asking.
func pingOf(version string) types.Ping { return types.Ping{APIVersion: version} }

func wantLost(t testing.TB, err error, cause sandbox.Cause) {
	t.Helper()
	var lost *sandbox.Lost
	if !errors.As(err, &lost) {
		t.Fatalf("want a lost instance, got %v", err)
	}
	if lost.Ending.Cause != cause || lost.Ending.Detail == "" {
		t.Errorf("lost because of %q (%s), want %q", lost.Ending.Cause, lost.Ending.Detail, cause)
	}
}
