//go:build unix

package docker

import (
	"bytes"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"brig/orchestrator/sandbox/sandboxtest"
)

// socketDir is short, because the path of a socket is bounded, and open to others.
func socketDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "brig")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestReachUnixSockets(t *testing.T) {
	dir := socketDir(t)
	absent := filepath.Join(dir, "absent.sock")
	stale := filepath.Join(dir, "stale.sock")
	l, err := net.Listen("unix", stale)
	if err != nil {
		t.Fatal(err)
	}
	l.(*net.UnixListener).SetUnlinkOnClose(false)
	_ = l.Close()
	plain := filepath.Join(dir, "plain")
	if err := os.WriteFile(plain, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ name, path, code, remedy string }{
		{"absent", absent, "engine-absent", "unset DOCKER_HOST"},
		{"stale", stale, "engine-stale-socket", "unset DOCKER_HOST"},
		{"plain file", plain, "engine-not-socket", "ls -l " + plain},
	} {
		t.Run(c.name, func(t *testing.T) {
			u := unreachable(t, env("DOCKER_HOST", "unix://"+c.path))
			if u.Code != c.code || u.Remedy != c.remedy {
				t.Errorf("%s (%s): %s", u.Code, u.Remedy, u.Reason)
			}
			if !strings.HasPrefix(u.Reason, "docker engine not reachable at unix://"+c.path+": ") {
				t.Errorf("reason %q", u.Reason)
			}
		})
	}
}

// TestReachNoPermission dials as an ordinary user, because root may open everything.
func TestReachNoPermission(t *testing.T) {
	dir := socketDir(t)
	path := filepath.Join(dir, "private.sock")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go serveHung(l)
	if err := os.Chmod(path, 0o600); err != nil {
		t.Fatal(err)
	}
	if os.Getuid() != 0 {
		sandboxtest.Skip(t, "root, to make a socket that another user may not open", "an ordinary user")
	}
	for _, c := range []struct {
		mode os.FileMode
		code string
	}{{0o600, "engine-permission"}, {0o666, "engine-hung"}} {
		if err := os.Chmod(path, c.mode); err != nil {
			t.Fatal(err)
		}
		cmd := exec.CommandContext(t.Context(), copySelf(t, dir))
		cmd.Env = []string{verb + "=probe", "DOCKER_HOST=unix://" + path}
		cmd.Dir = dir
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
		var out, errs bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &errs
		if err := cmd.Run(); err != nil {
			t.Fatalf("%v: %s", err, errs.String())
		}
		if got := strings.TrimSpace(out.String()); got != c.code {
			t.Errorf("with mode %o: %q, want %q", c.mode, got, c.code)
		}
	}
}

// copySelf puts the test program where another user may run it.
func copySelf(t *testing.T, dir string) string {
	t.Helper()
	text, err := os.ReadFile(os.Args[0])
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(dir, "helper")
	if err := os.WriteFile(name, text, 0o755); err != nil {
		t.Fatal(err)
	}
	return name
}

// fakeSSH puts a command named ssh first on PATH.
func fakeSSH(t *testing.T, script string) {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "ssh"), []byte("#!/bin/sh\n"+script+"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
}

func TestReachSSH(t *testing.T) {
	t.Run("missing", func(t *testing.T) {
		t.Setenv("PATH", t.TempDir())
		if u := unreachable(t, env("DOCKER_HOST", "ssh://somebody@somewhere")); u.Code != "engine-ssh-missing" {
			t.Errorf("%s: %s", u.Code, u.Reason)
		}
	})
	t.Run("failing", func(t *testing.T) {
		fakeSSH(t, "echo 'somebody@somewhere: Permission denied (publickey).' >&2; exit 255")
		u := unreachable(t, env("DOCKER_HOST", "ssh://somebody@somewhere"))
		if u.Code != "engine-ssh" || !strings.Contains(u.Reason, "Permission denied (publickey)") || u.Remedy != "docker -H ssh://somebody@somewhere version" {
			t.Errorf("%s (%s): %s", u.Code, u.Remedy, u.Reason)
		}
	})
	t.Run("ended before the first write", func(t *testing.T) {
		fakeSSH(t, "exec <&-; echo 'somebody@somewhere: Permission denied (publickey).' >&2; exit 255")
		_, _, dial, err := target{endpoint: "ssh://somebody@somewhere"}.dial()
		if err != nil {
			t.Fatal(err)
		}
		conn, err := dial(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		// The pipe takes what fits as long as ssh has not closed its end.
		for err == nil {
			_, err = conn.Write(make([]byte, 4096))
		}
		if !strings.Contains(err.Error(), "Permission denied (publickey)") {
			t.Errorf("write: %v", err)
		}
	})
	t.Run("hung", func(t *testing.T) {
		fakeSSH(t, "exec sleep 600")
		if u := unreachable(t, env("DOCKER_HOST", "ssh://somebody@somewhere")); u.Code != "engine-hung" {
			t.Errorf("%s: %s", u.Code, u.Reason)
		}
	})
}
