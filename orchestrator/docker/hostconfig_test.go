package docker

import (
	"strings"
	"testing"

	"github.com/docker/docker/api/types/system"

	"brig/images"
	"brig/orchestrator/sandbox"
)

func exampleSpec() spec {
	return spec{
		name: "brig-x-c1", id: "x-c1", image: images.Ref{ID: "sha256:1", Runner: "r"}, limits: sandbox.DefaultLimits(),
		workspace: place{directory: "/home/somebody/work"}, user: sandboxUser(), seccomp: "{}", cpus: 1,
	}
}

func TestHostConfigLimits(t *testing.T) {
	s := exampleSpec()
	for _, memory := range []int64{minMemory, 256 << 20, 1 << 30} {
		s.limits.Memory = memory
		for _, directory := range []string{"", "/somewhere"} {
			s.workspace.directory = directory
			scratch, tmp, work := s.sizes()
			if sum := scratch + tmp + work + shmSize; sum > memory/2+shmSize {
				t.Errorf("with %d bytes of memory the file systems in it may take %d", memory, sum)
			}
		}
	}
	host := s.hostConfig()
	if host.NanoCPUs != 1e9 {
		t.Errorf("%d nanocpus on an engine with one processor", host.NanoCPUs)
	}
	if host.Memory != host.MemorySwap {
		t.Error("swap comes on top of the memory")
	}
	for path, options := range host.Tmpfs {
		for _, want := range []string{"noexec", "nosuid", "nodev", "size=", "uid=65532"} {
			if !strings.Contains(options, want) {
				t.Errorf("%s lacks %s: %s", path, want, options)
			}
		}
	}
	s.podman = true
	if strings.Contains(s.hostConfig().Tmpfs["/tmp"], "uid=") {
		t.Error("Podman is given a uid for a tmpfs, which it refuses")
	}
}

func TestSpecHash(t *testing.T) {
	one, two := exampleSpec(), exampleSpec()
	two.workspace.directory, two.id, two.name = "/elsewhere", "x-c2", "brig-x-c2"
	if one.hash() != two.hash() {
		t.Error("whose it is changes the hash")
	}
	two.limits.Processes++
	if one.hash() == two.hash() {
		t.Error("another limit does not change the hash")
	}
}

func TestPlacing(t *testing.T) {
	for _, c := range []struct {
		name      string
		transport transport
		security  []string
		uid, gid  int
		bind      bool
		user      string
	}{
		{"ordinary user", transportUnix, nil, 1000, 1000, true, "1000:1000"},
		{"root", transportUnix, nil, 0, 0, true, "65532:65532"},
		{"rootless engine", transportUnix, []string{"name=seccomp,profile=builtin", "name=rootless"}, 1000, 1000, true, "0:0"},
		{"mapped users", transportUnix, []string{"name=userns"}, 1000, 1000, false, "65532:65532"},
		{"named pipe", transportPipe, nil, -1, -1, true, "65532:65532"},
		{"address", transportTCP, nil, 1000, 1000, false, "65532:65532"},
		{"ssh", transportSSH, nil, 0, 0, false, "65532:65532"},
	} {
		p := placeFor(&engine{transport: c.transport, info: system.Info{SecurityOptions: c.security}}, c.uid, c.gid)
		if p.bind != c.bind || p.user.String() != c.user || p.bind == (p.reason != "") {
			t.Errorf("%s: %+v", c.name, p)
		}
	}
}

func TestCompareVersions(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want int
	}{{"1.41", "1.41", 0}, {"1.9", "1.41", -1}, {"1.51", "1.6", 1}, {"2", "1.99", 1}, {"", "1", -1}, {"x", "1", -1}} {
		if got := compareVersions(c.a, c.b); got < 0 != (c.want < 0) || got > 0 != (c.want > 0) {
			t.Errorf("%s, %s: %d", c.a, c.b, got)
		}
	}
}
