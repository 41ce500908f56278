package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"brig/orchestrator"
	"brig/orchestrator/sandbox"
	"brig/orchestrator/sandbox/sandboxtest"
)

// BenchmarkWarm is what a prepared instance saves: from Open to the first result
// of a warm session, and of a cold one, beside the whole of what one would type
// instead (docker run --rm with the container's own flags, or a bare interpreter),
// in turns so that all see the same machine. It reports medians and ratios.
func BenchmarkWarm(b *testing.B) {
	for _, kind := range []sandbox.Kind{sandbox.Docker, sandbox.Host} {
		b.Run(string(kind), func(b *testing.B) {
			warm := liveBrig(b, kind, func(o *orchestrator.Options) { o.Warm = true })
			cold := liveBrig(b, kind)
			typed := bareCommand(b, kind, cold)
			took := map[string][]time.Duration{}
			first := func(name string, l *living) {
				began := time.Now()
				s, err := l.Open(b.Context(), orchestrator.SessionOptions{})
				must(b, err)
				opened := time.Now()
				r, err := s.Run(b.Context(), orchestrator.RunRequest{Source: []byte("print(42)")}, nil)
				took[name] = append(took[name], time.Since(began))
				took[name+"-open"] = append(took[name+"-open"], opened.Sub(began))
				if err != nil || r.Cause != sandbox.OK {
					b.Fatalf("cause %s (%s), %v", r.Cause, r.Detail, err)
				}
				must(b, s.Close(context.Background()))
			}
			for b.Loop() {
				fill(b, warm)
				first("warm", warm)
				first("cold", cold)
				began := time.Now()
				out, err := exec.CommandContext(b.Context(), typed[0], typed[1:]...).CombinedOutput()
				if err != nil || strings.TrimSpace(string(out)) != "42" {
					b.Fatalf("%v: %s", err, out)
				}
				took["typed"] = append(took["typed"], time.Since(began))
			}
			if status := warm.PoolStatus(); status.Cold > 0 {
				b.Errorf("some were not warm: %+v", status)
			}
			for name := range took {
				b.ReportMetric(float64(median(took[name]))/1e6, name+"-ms")
			}
			b.ReportMetric(float64(slices.Min(took["warm"]))/1e6, "warm-best-ms")
			b.ReportMetric(float64(median(took["warm"]))/float64(median(took["typed"])), "warm/typed")
			b.ReportMetric(float64(median(took["cold"]))/float64(median(took["typed"])), "cold/typed")
			b.ReportMetric(0, "ns/op")
		})
	}
}

func median(d []time.Duration) time.Duration {
	sorted := slices.Sorted(slices.Values(d))
	return sorted[len(sorted)/2]
}

// fill waits until a prepared instance is ready and nothing else is under way.
func fill(t testing.TB, l *living) {
	t.Helper()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if s := l.PoolStatus().Shelves; len(s) == 1 && s[0].Ready == s[0].Wanted && s[0].Preparing == 0 {
			return
		}
	}
	t.Fatalf("the pool does not fill: %+v", l.PoolStatus())
}

// bareCommand is what one would type without brig, under the same limits.
func bareCommand(t testing.TB, kind sandbox.Kind, l *living) []string {
	t.Helper()
	if kind == sandbox.Host {
		return []string{"python3", "-I", "-c", "print(42)"}
	}
	s, err := l.Open(t.Context(), orchestrator.SessionOptions{})
	must(t, err)
	defer func() { must(t, s.Close(context.Background())) }()
	id, err := exec.CommandContext(t.Context(), "docker", "ps", "--quiet", "--no-trunc", "--filter", "label=dev.brig.owner="+l.owner.ID()).Output()
	must(t, err)
	text, err := exec.CommandContext(t.Context(), "docker", "inspect", strings.TrimSpace(string(id))).Output()
	must(t, err)
	var made []struct {
		Image  string
		Config struct{ Hostname, User, WorkingDir string }
		// HostConfig is what the container was given; each field below is one flag.
		HostConfig struct {
			NetworkMode, IpcMode, CgroupnsMode    string
			Memory, MemorySwap, NanoCPUs, ShmSize int64
			CPUQuota, CPUPeriod                   int64 `json:",omitempty"`
			PidsLimit, OomScoreAdj                int64
			ReadonlyRootfs                        bool
			CapDrop, SecurityOpt                  []string
			Tmpfs                                 map[string]string
			Ulimits                               []struct {
				Name       string
				Soft, Hard int64
			}
		}
	}
	must(t, json.Unmarshal(text, &made))
	if len(made) != 1 {
		sandboxtest.Skip(t, "one container to read the flags from", fmt.Sprint(len(made)))
	}
	h := made[0].HostConfig
	args := []string{
		"docker", "run", "--rm", "--interactive", "--network", h.NetworkMode, "--ipc", h.IpcMode, "--log-driver", "none",
		"--memory", fmt.Sprint(h.Memory), "--memory-swap", fmt.Sprint(h.MemorySwap), "--pids-limit", fmt.Sprint(h.PidsLimit),
		"--oom-score-adj", fmt.Sprint(h.OomScoreAdj), "--shm-size", fmt.Sprint(h.ShmSize),
		"--user", made[0].Config.User, "--hostname", made[0].Config.Hostname,
		"--mount", "type=bind,source=" + t.TempDir() + ",target=/workspace", "--workdir", "/workspace",
	}
	if h.CgroupnsMode != "" {
		args = append(args, "--cgroupns", h.CgroupnsMode)
	}
	if h.ReadonlyRootfs {
		args = append(args, "--read-only")
	}
	if h.NanoCPUs > 0 {
		args = append(args, "--cpus", fmt.Sprint(float64(h.NanoCPUs)/1e9))
	} else if h.CPUQuota > 0 {
		args = append(args, "--cpu-quota", fmt.Sprint(h.CPUQuota), "--cpu-period", fmt.Sprint(h.CPUPeriod))
	}
	for _, c := range h.CapDrop {
		args = append(args, "--cap-drop", c)
	}
	for _, o := range h.SecurityOpt {
		if profile, is := strings.CutPrefix(o, "seccomp="); is {
			name := filepath.Join(t.TempDir(), "seccomp.json")
			must(t, os.WriteFile(name, []byte(profile), 0o600))
			o = "seccomp=" + name
		}
		args = append(args, "--security-opt", o)
	}
	for path, options := range h.Tmpfs {
		args = append(args, "--tmpfs", path+":"+options)
	}
	for _, u := range h.Ulimits {
		args = append(args, "--ulimit", fmt.Sprintf("%s=%d:%d", u.Name, u.Soft, u.Hard))
	}
	return append(args, "--entrypoint", "python3", made[0].Image, "-I", "-c", "print(42)")
}
