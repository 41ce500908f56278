package main

import (
	"encoding/json"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"brig/orchestrator/sandbox"
	"brig/selftest"
)

// TestSelftestInUnprivilegedContainer: where brig itself is in a container that gives
// nobody a user namespace, the report says what is not enforced there, layer by
// layer, and nothing that got through is news to the posture.
func TestSelftestInUnprivilegedContainer(t *testing.T) {
	executable, image := brigAndImage(t)
	cmd := exec.CommandContext(t.Context(), "docker", "run", "--rm", "--network", "none", "--user", "1000:1000",
		"--env", "HOME=/tmp/home", "--env", "XDG_RUNTIME_DIR=/tmp/run", "--volume", filepath.Dir(executable)+":/opt/brig:ro",
		"--entrypoint", "/bin/sh", image, "-c",
		"mkdir -m 700 /tmp/home /tmp/run && /opt/brig/"+filepath.Base(executable)+" selftest --backend host --json; echo status $?; ls -A /dev/shm /tmp/run/brig 2>&1")
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("docker run: %v\n%s", err, out)
	}
	text, after, found := strings.Cut(string(out), "\nstatus ")
	if !found || !strings.HasPrefix(after, "3\n") {
		t.Errorf("its status is not the one of weaker: %s", after)
	}
	if strings.Contains(after, "brig-st-") {
		t.Errorf("left behind: %s", after)
	}
	var answer struct{ Reports []selftest.Report }
	if err := json.Unmarshal([]byte(text), &answer); err != nil || len(answer.Reports) != 1 {
		t.Fatalf("no report: %v\n%s", err, text)
	}
	r := answer.Reports[0]
	if r.Holds != selftest.Weaker || !strings.Contains(r.Line, "user namespace") {
		t.Errorf("%s: %s", r.Holds, r.Line)
	}
	for _, l := range r.Layers {
		if l.Lied {
			t.Errorf("%s: the posture says %s, and %s", l.Layer.ID, l.Layer.State, l.Reason)
		}
		if l.Layer.State != sandbox.Enforced && l.Layer.Reason == "" {
			t.Errorf("%s is %s, and nobody says why", l.Layer.ID, l.Layer.State)
		}
	}
	write := slices.IndexFunc(r.Layers, func(l selftest.LayerResult) bool { return l.Layer.ID == sandbox.FSWrite })
	if l := r.Layers[write]; l.Layer.State != sandbox.Partial || l.Verdict != sandbox.Allowed {
		t.Errorf("files outside could not be changed at all: %+v", l)
	}
}

// brigAndImage are this program where a container can be given it, and an image with
// Python to give it to.
func brigAndImage(t *testing.T) (executable, image string) {
	t.Helper()
	engineSocket(t)
	executable = copyOfTest(t)
	run := exec.CommandContext(t.Context(), executable, "run", "--backend", "docker", "--tier", "core", "-c", "pass")
	if out, err := run.CombinedOutput(); err != nil {
		t.Fatalf("make sure that there is an image: %v\n%s", err, out)
	}
	list, err := exec.CommandContext(t.Context(), "docker", "image", "ls", "--quiet", "--filter", "label=dev.brig.runner", "--filter", "reference=brig-runner:core-*").Output()
	if err != nil {
		t.Fatal(err)
	}
	image, _, _ = strings.Cut(string(list), "\n")
	return executable, image
}
