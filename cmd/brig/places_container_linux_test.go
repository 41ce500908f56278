package main

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestHostInContainers: brig in containers that give it less than a machine does runs
// code confined by what is there and says what is missing, or does not run it and says why.
func TestHostInContainers(t *testing.T) {
	executable, image := brigAndImage(t)
	brig := "/opt/brig/" + filepath.Base(executable)
	const code = `-c 'import os; print(sum(range(5)), os.getuid())'`
	for name, c := range map[string]struct {
		options []string
		env     string   // of the shell
		args    string   // of brig
		status  string   // how it ends
		says    []string // anywhere in what it says
	}{
		"user":          {[]string{"--user", "1000:1000"}, "", "run --backend host " + code, "0", []string{"10 1000", "user namespace"}},
		"root":          {[]string{"--user", "0:0"}, "", "run --backend host " + code, "0", []string{"10 0", "user namespace"}},
		"require":       {[]string{"--user", "1000:1000"}, "BRIG_HOST_SANDBOX=require", "run --backend host " + code, "0", []string{"10 1000", "contained as promised"}},
		"off":           {[]string{"--user", "1000:1000"}, "BRIG_HOST_SANDBOX=off", "run --backend host " + code, "0", []string{"10 1000", "not sandboxed"}},
		"read-only":     {[]string{"--user", "1000:1000", "--read-only", "--tmpfs", "/tmp:exec"}, "", "run --backend host " + code, "0", []string{"10 1000", "user namespace"}},
		"nowhere":       {[]string{"--user", "1000:1000", "--read-only"}, "", "run --backend host " + code, "", []string{"read-only file system"}},
		"no filesystem": {[]string{"--user", "1000:1000", "--tmpfs", "/tmp:exec,size=64k"}, "", "run --backend host " + code, "", []string{"no space left on device"}},
		"no filters":    {[]string{"--user", "1000:1000", "--security-opt", "seccomp=unconfined", "--security-opt", "systempaths=unconfined"}, "", "run --backend host " + code, "0", []string{"10 1000"}},
		"doctor":        {[]string{"--user", "1000:1000"}, "", "doctor", "", []string{"because a user namespace was refused, as in most containers", "fs-write           partial"}},
	} {
		t.Run(name, func(t *testing.T) {
			args := append([]string{"run", "--rm", "--network", "none"}, c.options...)
			args = append(args, "--env", "HOME=/tmp/home", "--env", "XDG_RUNTIME_DIR=/tmp/run", "--volume", filepath.Dir(executable)+":/opt/brig:ro",
				"--entrypoint", "/bin/sh", image, "-c", "mkdir -m 700 /tmp/home /tmp/run 2>/dev/null; "+c.env+" "+brig+" "+c.args+" 2>&1; echo status $?")
			out, err := exec.CommandContext(t.Context(), "docker", args...).CombinedOutput()
			if err != nil {
				t.Fatalf("docker run: %v\n%s", err, out)
			}
			text, status, _ := strings.Cut(string(out), "status ")
			if strings.Contains(text, "but the self-test found") {
				// A machine without a second to spare leaves a probe undecided; then nothing runs.
				if name != "require" || strings.TrimSpace(status) != "125" || strings.Contains(text, "10 1000") {
					t.Errorf("status %s\n%s", status, text)
				}
				return
			}
			if status = strings.TrimSpace(status); c.status != "" && status != c.status || c.status == "" && name != "doctor" && status == "0" {
				t.Errorf("status %s, want %s\n%s", status, c.status, text)
			}
			for _, word := range c.says {
				if !strings.Contains(strings.ToLower(text), strings.ToLower(word)) {
					t.Errorf("it does not say %q:\n%s", word, text)
				}
			}
		})
	}
}
