package docker

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"brig/images"
	"brig/orchestrator/sandbox/sandboxtest"
	"brig/orchestrator/wire"
)

// mappedFrom is the first id on the engine's machine of those that it maps users to.
const mappedFrom = 231072

// mappingEngine is an engine of its own that maps users. Its table of ids is
// its own as well: it stands in a mount namespace over the machine's.
func mappingEngine(t *testing.T) *ownEngine {
	t.Helper()
	real, err := exec.LookPath("dockerd")
	if err != nil {
		sandboxtest.Skip(t, "dockerd on PATH", err.Error())
	}
	for _, name := range []string{"/etc/subuid", "/etc/subgid"} {
		if _, err := os.Stat(name); err != nil {
			sandboxtest.Skip(t, "a file "+name+" to stand over", err.Error())
		}
	}
	dir := t.TempDir()
	ids := filepath.Join(dir, "ids")
	if err := os.WriteFile(ids, fmt.Appendf(nil, "nobody:%d:65536\nnogroup:%[1]d:65536\n", mappedFrom), 0o644); err != nil {
		t.Fatal(err)
	}
	script := fmt.Sprintf("#!/bin/sh\nexec unshare --mount sh -ec 'mount --bind %[1]s /etc/subuid; mount --bind %[1]s /etc/subgid; exec %[2]s \"$@\"' dockerd \"$@\"\n", ids, real)
	if err := os.WriteFile(filepath.Join(dir, "dockerd"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	return startEngine(t, "--userns-remap", "nobody:nogroup")
}

// TestMappedUsers: an engine that maps users could bind a directory, and what code
// wrote there would belong to nobody. So the workspace is the container's own,
// files travel, and the posture tells as whom code runs outside.
func TestMappedUsers(t *testing.T) {
	own := mappingEngine(t)
	b := newBackend(t, func(o *Options) { o.Endpoint = own.endpoint })
	workspace := t.TempDir()
	i := session(t, b, coreBase(), workspace)
	p := i.Posture()
	if !p.Detached {
		t.Error("the workspace is bound")
	}
	want := fmt.Sprintf("user namespace enforced: user 65532 inside is user %d on the engine's machine", mappedFrom+65532)
	if !slices.Contains(p.Notes, want) {
		t.Errorf("the posture does not say %q: %q", want, p.Notes)
	}
	if gaps := p.Warnings(); len(gaps) > 0 {
		t.Errorf("gaps: %q", gaps)
	}
	for _, l := range p.Layers {
		t.Logf("%-18s %-11s %s %s", l.ID, l.State, l.Mechanism, l.Reason)
	}
	text := strings.Repeat("from here\n", 1000)
	if _, err := i.Call(limited(t), wire.Control{Op: wire.OpPut, Args: wire.ControlArgs{Path: "in/f"}}, strings.NewReader(text), nil); err != nil {
		t.Fatalf("put: %v", err)
	}
	o := run(t, i, "import os\nprint(len(open('in/f').read()), os.getuid())\nopen('out', 'w').write('from there')\n")
	if o.err != nil || o.stdout.String() != "10000 65532\n" {
		t.Errorf("%v, stdout %q, stderr %q", o.err, o.stdout.String(), o.stderr.String())
	}
	var back bytes.Buffer
	if _, err := i.Call(limited(t), wire.Control{Op: wire.OpGet, Args: wire.ControlArgs{Path: "out"}}, nil, &back); err != nil || back.String() != "from there" {
		t.Errorf("get: %q, %v", back.String(), err)
	}
	if entries, err := os.ReadDir(workspace); err != nil || len(entries) != 0 {
		t.Errorf("the host directory holds %v, %v", entries, err)
	}
	// An observer outside of it: the processes really are those of mapped users.
	state, err := i.box.engine.cli.ContainerInspect(limited(t), i.box.id)
	if err != nil {
		t.Fatal(err)
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", state.State.Pid))
	if err != nil || !strings.Contains(string(status), fmt.Sprintf("\nUid:\t%d\t", mappedFrom+65532)) {
		t.Errorf("the container's first process: %v\n%s", err, status)
	}
	// The control: on an engine that maps nobody the same is bound, and says so.
	plain := session(t, engineBackend(t, images.Core), coreBase(), t.TempDir())
	if p := plain.Posture(); p.Detached || slices.ContainsFunc(p.Notes, func(n string) bool { return strings.HasPrefix(n, "user namespace enforced") }) {
		t.Errorf("the control: detached %v, notes %q", p.Detached, p.Notes)
	}
}
