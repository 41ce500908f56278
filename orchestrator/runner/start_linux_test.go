package runner

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"brig/orchestrator/wire"
)

// TestReady compares what the runner says about itself with what is known here.
func TestReady(t *testing.T) {
	each(t, func(t *testing.T, p interpreter) {
		r := start(t, p)
		if r.ready.Runner != Hash() {
			t.Errorf("the runner's hash is %s, want %s", r.ready.Runner, Hash())
		}
		if r.ready.Python != p.version || r.ready.Implementation != "cpython" || r.ready.Executable == "" {
			t.Errorf("ready: %+v", r.ready)
		}
		o := r.ready.Observed
		if o.PID != r.cmd.Process.Pid || o.UID < 1 && syscall.Getuid() != 0 || o.Dumpable != 0 {
			t.Errorf("pid %d, uid %d, dumpable %d", o.PID, o.UID, o.Dumpable)
		}
		if syscall.Getuid() == 0 && o.UID != nobody {
			t.Errorf("user code would run as %d", o.UID)
		}
		for _, kind := range []string{"ipc", "mnt", "net", "pid", "user"} {
			if outside, err := os.Readlink("/proc/self/ns/" + kind); err != nil || o.Namespaces[kind] != outside {
				t.Errorf("it is in %q, which is not the %s namespace of this test, %q (%v)", o.Namespaces[kind], kind, outside, err)
			}
		}
		for _, field := range []string{"CapEff", "CapBnd", "NoNewPrivs", "Seccomp", "NSpid"} {
			if o.Status[field] == "" {
				t.Errorf("no %s in %v", field, o.Status)
			}
		}
		if len(o.Mounts) < 3 || o.Mounts[0].Path != "/" || !slices.Contains(o.Interfaces, "lo") || o.Rlimits["nofile"].Soft <= 0 || !slices.Contains(o.Devices, "null") || len(o.Environ) == 0 || o.Kernel == "" {
			t.Errorf("observed: %+v", o)
		}
		want := []string{
			"write_root", "write_workspace", "write_scratch", "exec_workspace", "unshare_user", "socket_inet", "socket_unix", "socket_netlink",
			"socket_vsock", "io_uring_setup", "ptrace_traceme", "keyctl", "mount", "kill_parent", "chmod_root", "list_outside", "stat_outside", "bind_loopback", "read_masked", "read_cgroup_path",
		}
		for _, name := range want {
			if o.Attempts[name] == "" {
				t.Errorf("no attempt %s in %v", name, o.Attempts)
			}
		}
		for name, outcome := range map[string]string{"write_workspace": "ok", "write_scratch": "ok", "socket_unix": "ok", "bind_loopback": "ok", "mount": "EPERM"} {
			if o.Attempts[name] != outcome {
				t.Errorf("attempt %s: %s, want %s", name, o.Attempts[name], outcome)
			}
		}
		if left := r.ok("import os; print(os.listdir())").out; left != "[]\n" {
			t.Errorf("the attempts left %s in the workspace", left)
		}
	})
}

// TestNothingWritten: the program leaves no byte code beside itself.
func TestNothingWritten(t *testing.T) {
	each(t, func(t *testing.T, p interpreter) {
		dir := t.TempDir()
		script, err := Install(dir)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		cmd := exec.CommandContext(ctx, p.path, "-I", "-u", script)
		cmd.Env = p.env
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("a runner whose input is empty: %v\n%s", err, out)
		}
		if found, err := filepath.Glob(filepath.Join(filepath.Dir(script), "*", "__pycache__")); err != nil || len(found) > 0 {
			t.Errorf("found %v, %v", found, err)
		}
	})
}

// TestNoHello: a runner that nobody greets does not wait for ever.
func TestNoHello(t *testing.T) {
	each(t, func(t *testing.T, p interpreter) {
		if p.minor != shared.interpreters[0].minor && p.minor != shared.interpreters[len(shared.interpreters)-1].minor {
			return // ten seconds each
		}
		r := launch(t, p)
		if status := r.waited(); status != 64 {
			t.Errorf("exit status %d", status)
		}
	})
}

// TestGoodbye: the end of its input ends a runner and all below it at once,
// whatever user code is doing; so does SIGTERM.
func TestGoodbye(t *testing.T) {
	each(t, func(t *testing.T, p interpreter) {
		for name, goodbye := range map[string]func(*rig){
			"EOF":     func(r *rig) { _ = r.stdin.Close() },
			"SIGTERM": func(r *rig) { _ = r.cmd.Process.Signal(syscall.SIGTERM) },
		} {
			t.Run(name, func(t *testing.T) {
				r := start(t, p)
				run := r.background(`
import os, signal, sys
signal.signal(signal.SIGTERM, signal.SIG_IGN); signal.signal(signal.SIGINT, signal.SIG_IGN)
if os.fork() == 0:
    os.setsid()
    if os.fork(): os._exit(0)
    print("daemon", os.getpid(), flush=True)
    while True: pass
print("worker", os.getpid(), flush=True)
while True: pass
`)
				run.until(t, "worker")
				run.until(t, "daemon")
				pids := numbers(run.text())
				begin := time.Now()
				goodbye(r)
				r.waited()
				t.Logf("after %v", time.Since(begin))
				if len(pids) != 2 {
					t.Fatalf("processes %v in %q", pids, run.text())
				}
				for _, pid := range pids {
					if !gone(pid) {
						t.Errorf("process %d is still there", pid)
					}
				}
				if got := <-run.done; got.err == nil {
					t.Errorf("a run that was cut off ended: %s", got)
				}
			})
		}
	})
}

// TestVersion: a hello of another version is refused, not guessed at.
func TestVersion(t *testing.T) {
	each(t, func(t *testing.T, p interpreter) {
		r := launch(t, p)
		h := hello()
		h.Version, h.Workspace, h.Scratch = wire.Version+1, r.workspace, r.scratch
		if _, err := r.Hello(limited(t), h); err == nil {
			t.Error("a runner accepted another version")
		}
	})
}

// TestCompiles: every file is good for every Python, without as much as a warning.
func TestCompiles(t *testing.T) {
	each(t, func(t *testing.T, p interpreter) {
		for _, name := range names() {
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			defer cancel()
			const program = "import sys; compile(sys.stdin.buffer.read(), sys.argv[1], 'exec')"
			cmd := exec.CommandContext(ctx, p.path, "-I", "-W", "error", "-c", program, name)
			cmd.Env, cmd.Stdin = p.env, bytes.NewReader(content(name))
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%s: %v\n%s", name, err, out)
			}
			if lines := bytes.Count(content(name), []byte("\n")); lines > 500 {
				t.Errorf("%s has %d lines", name, lines)
			}
		}
	})
}

// TestPrecompile: byte code is made once for each interpreter, and the program stays what it is.
func TestPrecompile(t *testing.T) {
	if found, err := filepath.Glob(filepath.Join(filepath.Dir(shared.script), "brigrunner", "__pycache__", "supervisor.*.pyc")); err != nil || len(found) != len(shared.interpreters) {
		t.Errorf("byte code for %d interpreters: %v, %v", len(shared.interpreters), found, err)
	}
	if !intact(filepath.Dir(shared.script)) {
		t.Error("the program has changed")
	}
	if err := Precompile(t.Context(), filepath.Join(t.TempDir(), "python"), shared.script); err == nil {
		t.Error("compiled with an interpreter that is not there")
	}
	broken := filepath.Join(t.TempDir(), "python")
	if err := os.WriteFile(broken, []byte("#!/bin/sh\necho no >&2; exit 3\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := Precompile(t.Context(), broken, shared.script); err == nil {
		t.Error("compiled with an interpreter that fails")
	}
	working := filepath.Join(t.TempDir(), "python")
	if err := os.WriteFile(working, []byte("#!/bin/sh\necho >> \"$0.calls\"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := Precompile(t.Context(), working, shared.script); err != nil {
			t.Fatal(err)
		}
	}
	if calls, err := os.ReadFile(working + ".calls"); err != nil || len(calls) != 1 {
		t.Errorf("called %d times, %v", len(calls), err)
	}
}
