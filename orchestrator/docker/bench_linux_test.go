package docker

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"

	"brig/images"
	"brig/orchestrator/sandbox"
	"brig/orchestrator/sandbox/sandboxtest"
	"brig/orchestrator/wire"
)

// steps collects durations by name and reports their medians in milliseconds.
type steps map[string][]time.Duration

func (s steps) took(name string, began time.Time) time.Time {
	now := time.Now()
	s[name] = append(s[name], now.Sub(began))
	return now
}

func (s steps) median(name string) float64 {
	sorted := slices.Clone(s[name])
	slices.Sort(sorted)
	return float64(sorted[len(sorted)/2]) / float64(time.Millisecond)
}

func (s steps) report(b *testing.B) {
	for name := range s {
		b.ReportMetric(s.median(name), name+"-ms")
	}
	b.ReportMetric(0, "ns/op")
}

// BenchmarkCold is create to first result, step by step, against the whole of
// `docker run --rm` with equal flags, one after the other so that both see the
// same load. It reports medians and their ratio.
func BenchmarkCold(b *testing.B) {
	backend := engineBackend(b, images.Core)
	if _, err := exec.LookPath("docker"); err != nil {
		sandboxtest.Skip(b, "the docker command", err.Error())
	}
	s := steps{}
	for b.Loop() {
		cold(b, backend, s)
		began := time.Now()
		dockerRun(b, backend)
		s.took("docker-run", began)
	}
	b.ReportMetric(s.median("cold")/s.median("docker-run"), "cold/docker-run")
	s.report(b)
}

// cold does by hand what Prepare, Bind and Run do, to name the steps.
func cold(b *testing.B, backend *Backend, s steps) {
	ctx := context.Background()
	workspace := b.TempDir()
	began := time.Now()
	now := began
	e, err := backend.current(ctx)
	must(b, err)
	want, err := backend.spec(ctx, e, coreBase(), workspace)
	must(b, err)
	now = s.took("spec", now)
	created, err := e.cli.ContainerCreate(ctx, want.config(backend.labels(want)), want.hostConfig(), nil, nil, want.name)
	must(b, err)
	now = s.took("create", now)
	x := &box{engine: e, name: want.name, id: created.ID, patience: backend.patience, until: time.Now().Add(startTimeout)}
	x.stream, err = attach(ctx, e.cli, x.id)
	must(b, err)
	x.told = e.feed.follow(e.cli, x.id)
	x.exited = watchExit(ctx, e, x.id)
	now = s.took("attach", now)
	must(b, e.cli.ContainerStart(ctx, x.id, container.StartOptions{}))
	now = s.took("start", now)
	p, err := greet(ctx, e, want, x, workspace)
	must(b, err)
	i, err := p.Bind(ctx, sandbox.Claim{ID: "bench-1", Session: "bench", Workspace: workspace})
	must(b, err)
	now = s.took("python-and-posture", now)
	o := runUntil(ctx, i, "print(42)", nil)
	must(b, o.err)
	s.took("first-run", now)
	s.took("cold", began)
	closing := time.Now()
	must(b, i.Close(ctx))
	s.took("close", closing)
}

func dockerRun(b *testing.B, backend *Backend) {
	e, err := backend.current(context.Background())
	must(b, err)
	s, err := backend.spec(context.Background(), e, coreBase(), b.TempDir())
	must(b, err)
	profile := filepath.Join(b.TempDir(), "seccomp.json")
	must(b, os.WriteFile(profile, []byte(s.seccomp), 0o600))
	host := s.hostConfig()
	args := []string{
		"--host", e.endpoint, "run", "--rm", "--interactive", "--network", "none", "--read-only", "--cap-drop", "ALL",
		"--security-opt", "no-new-privileges", "--security-opt", "seccomp=" + profile,
		"--ipc", "private", "--shm-size", fmt.Sprint(host.ShmSize), "--cgroupns", "private", "--log-driver", "none",
		"--memory", fmt.Sprint(host.Memory), "--memory-swap", fmt.Sprint(host.MemorySwap), "--pids-limit", fmt.Sprint(*host.PidsLimit),
		"--cpus", fmt.Sprint(s.cores()), "--user", s.user.String(), "--hostname", hostname, "--oom-score-adj", fmt.Sprint(host.OomScoreAdj),
		"--mount", "type=bind,source=" + s.workspace.directory + ",target=" + workspacePath, "--workdir", workspacePath,
		"--ulimit", "core=0", "--ulimit", "nofile=1024", "--ulimit", fmt.Sprintf("fsize=%d", s.limits.FileSize),
	}
	for path, options := range host.Tmpfs {
		args = append(args, "--tmpfs", path+":"+options)
	}
	args = append(args, "--entrypoint", "python3", s.image.ID, "-I", "-c", "print(42)")
	out, err := exec.CommandContext(context.Background(), "docker", args...).CombinedOutput()
	if err != nil || strings.TrimSpace(string(out)) != "42" {
		b.Fatalf("docker run: %v: %s", err, out)
	}
}

// BenchmarkHandOut is what a session costs that finds a prepared instance: Bind to
// the first result, against the whole of `docker run --rm` with equal flags.
func BenchmarkHandOut(b *testing.B) {
	backend := engineBackend(b, images.Core)
	if _, err := exec.LookPath("docker"); err != nil {
		sandboxtest.Skip(b, "the docker command", err.Error())
	}
	ctx, s := context.Background(), steps{}
	for b.Loop() {
		workspace := b.TempDir()
		p, err := backend.Prepare(ctx, coreBase(), workspace)
		must(b, err)
		began := time.Now()
		i, err := p.Bind(ctx, sandbox.Claim{ID: "bench-1", Session: "bench", Workspace: workspace})
		must(b, err)
		now := s.took("bind", began)
		o := runUntil(ctx, i, "print(42)", nil)
		must(b, o.err)
		s.took("first-run", now)
		s.took("hand-out", began)
		must(b, i.Close(ctx))
		began = time.Now()
		dockerRun(b, backend)
		s.took("docker-run", began)
	}
	b.ReportMetric(s.median("hand-out")/s.median("docker-run"), "hand-out/docker-run")
	s.report(b)
}

// BenchmarkWarm is a call into a live instance.
func BenchmarkWarm(b *testing.B) {
	i := session(b, engineBackend(b, images.Core), coreBase(), b.TempDir())
	s := steps{}
	n := 0
	for b.Loop() {
		n++
		began := time.Now()
		if _, err := i.Run(context.Background(), wire.Run{ID: wire.RunID(fmt.Sprintf("warm-%d", n)), Source: []byte("1")}, func(wire.Event) error { return nil }); err != nil {
			b.Fatal(err)
		}
		began = s.took("warm-run", began)
		if _, err := i.Call(context.Background(), wire.Control{Op: wire.OpPing}, nil, nil); err != nil {
			b.Fatal(err)
		}
		s.took("ping", began)
	}
	s.report(b)
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
