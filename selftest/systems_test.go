package selftest

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"brig/orchestrator/sandbox"
)

// TestSystems: every pattern names a probe, the layers that a Mac or Windows confines
// have probes there, and each is worded as what holds it there.
func TestSystems(t *testing.T) {
	all := everyProbe()
	for _, pattern := range append(onLinux(), onUnix()...) {
		if !slices.ContainsFunc(all, func(p Probe) bool { ok, _ := path.Match(pattern, p.ID); return ok }) {
			t.Errorf("%s is no probe", pattern)
		}
	}
	for system, layers := range map[string][]sandbox.LayerID{
		"linux": sandbox.Layers(),
		"darwin": {
			sandbox.FSWrite, sandbox.FSRead, sandbox.NetOutbound, sandbox.NetLoopback, sandbox.UnixSockets, sandbox.ProcessLimit, sandbox.MemoryLimit,
			sandbox.DiskLimit, sandbox.OutputLimit, sandbox.WallClock, sandbox.Signals, sandbox.InheritedFDs, sandbox.Environment, sandbox.Devices, sandbox.TreeKill,
		},
		"windows": {
			sandbox.FSWrite, sandbox.FSRead, sandbox.NetOutbound, sandbox.NetLoopback, sandbox.ProcessLimit, sandbox.MemoryLimit, sandbox.DiskLimit,
			sandbox.OutputLimit, sandbox.WallClock, sandbox.Signals, sandbox.Environment, sandbox.TreeKill,
		},
	} {
		for _, l := range layers {
			if !slices.ContainsFunc(all, func(p Probe) bool { return p.Layer == l && p.elsewhere(platform{system, "amd64"}) == "" }) {
				t.Errorf("nothing tries %s on %s", l, system)
			}
		}
		for _, p := range inWordsOf(system, everyProbe()) {
			if p.elsewhere(platform{system, "amd64"}) != "" {
				w := weigh(p, tried{}, nil, platform{system, "amd64"})
				if w.result.Verdict != sandbox.NotSupported || w.undecided {
					t.Errorf("%s on %s: %+v", p.ID, system, w.result)
				}
				continue
			}
			for _, e := range p.Blocked {
				if system != "linux" && strings.Contains(e.By, "Landlock") && (system == "darwin" || e.Sign == "EACCES" && (p.Layer == sandbox.FSRead || p.Layer == sandbox.FSWrite)) {
					t.Errorf("%s on %s is held by %s", p.ID, system, e.By)
				}
			}
		}
	}
	for _, p := range inWordsOf("darwin", everyProbe()) {
		if _, ok := p.evidence(Outcome{Ran: true, Step: "open", Sign: "EPERM"}); p.ID == "files-read" && !ok {
			t.Error("Seatbelt's answer to a read is not predicted")
		}
	}
	for id, step := range map[string]string{"net-tcp": "connect", "net-udp": "connect-loopback", "loopback-tcp": "connect", "unix-path": "connect", "processes-kill": "kill"} {
		for _, p := range inWordsOf("darwin", everyProbe()) {
			if e, ok := p.evidence(Outcome{Ran: true, Step: step, Sign: "EPERM"}); p.ID == id && (!ok || !strings.HasPrefix(e.By, bySeatbelt)) {
				t.Errorf("Seatbelt's answer to %s is held by %q", id, e.By)
			}
		}
	}
	for _, p := range inWordsOf("darwin", everyProbe()) {
		if gap := gapsOnDarwin()[p.Layer]; gap != "" && !slices.Contains(p.Gaps, gap) {
			t.Errorf("%s does not know the gap %s", p.ID, gap)
		}
	}
	if l := limitsProbe(t, "windows", "limit-memory"); l != byJob {
		t.Errorf("no memory on Windows is by %q", l)
	}
}

func limitsProbe(t *testing.T, system, id string) string {
	t.Helper()
	for _, p := range inWordsOf(system, everyProbe()) {
		if e, ok := p.evidence(Outcome{Ran: true, Step: "allocate", Sign: "ENOMEM"}); p.ID == id && ok {
			return e.By
		}
	}
	return ""
}

// TestRows: the page says of each of the sixty attacks what tries it, and names no
// probe that is not there.
func TestRows(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "docs", "selftest.md"))
	if err != nil {
		t.Fatal(err)
	}
	all, named, next := everyProbe(), regexp.MustCompile("`([a-z0-9]+(?:-[a-z0-9]+)+)`"), 1
	for line := range strings.Lines(string(page)) {
		if !strings.HasPrefix(line, fmt.Sprintf("| %d | ", next)) {
			continue
		}
		next++
		ids := named.FindAllStringSubmatch(line, -1)
		if len(ids) == 0 && next-1 != 58 {
			t.Errorf("nothing is named in: %s", line)
		}
		for _, id := range ids {
			if !slices.ContainsFunc(all, func(p Probe) bool { return p.ID == id[1] }) {
				t.Errorf("%s is no probe: %s", id[1], line)
			}
		}
	}
	if next != 61 {
		t.Errorf("row %d is missing", next)
	}
}
