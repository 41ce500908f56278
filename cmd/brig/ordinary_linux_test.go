package main

import (
	"bytes"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"brig/orchestrator/sandbox/sandboxtest"
)

// someUser is an ordinary user whose id is not the one that images have theirs for.
const someUser = 23456

// userEngine gives that user a home of its own with a socket that leads to the
// engine. Nothing of root's is needed from there on.
func userEngine(t *testing.T) (home string, brig func(stdin string, args ...string) *exec.Cmd) {
	t.Helper()
	socket := engineSocket(t)
	if os.Geteuid() != 0 {
		sandboxtest.Skip(t, "root, to become another user", fmt.Sprintf("user %d", os.Geteuid()))
	}
	executable, home := copyOfTest(t), filepath.Join(ordinaryDir(t), "home")
	if err := os.Mkdir(home, 0o700); err != nil {
		t.Fatal(err)
	}
	engine := filepath.Join(home, "engine.sock")
	l, err := net.Listen("unix", engine)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{home, engine} {
		if err := os.Chown(name, someUser, someUser); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(engine, 0o600); err != nil {
		t.Fatal(err)
	}
	forward(t, l, socket)
	return home, func(stdin string, args ...string) *exec.Cmd {
		// The umask is a process's own, and this process has many things to do.
		cmd := exec.CommandContext(t.Context(), "/bin/sh", append([]string{"-c", `umask 077; exec "$0" "$@"`, executable}, args...)...)
		cmd.Dir, cmd.Stdin = home, strings.NewReader(stdin)
		cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + home, "DOCKER_HOST=unix://" + engine, "LC_ALL=C.UTF-8"}
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: someUser, Gid: someUser}}
		return cmd
	}
}

// TestOrdinaryUser: what code writes in a container belongs to the user, who can
// use and remove it, whatever id and umask that user has; and the session's own
// directory is gone afterwards.
func TestOrdinaryUser(t *testing.T) {
	home, brig := userEngine(t)
	if err := os.Mkdir(filepath.Join(home, "in"), 0o700); err != nil {
		t.Fatal(err)
	}
	secret := filepath.Join(home, "in", "secret.txt")
	if err := os.WriteFile(secret, []byte("41\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{filepath.Dir(secret), secret} {
		if err := os.Chown(name, someUser, someUser); err != nil {
			t.Fatal(err)
		}
	}
	const program = `
import os, subprocess
print(int(open("in/secret.txt").read()) + 1, os.getuid())
open("made.txt", "w").write("made\n")
os.makedirs("deep/er")
open("deep/er/x", "w").write("x")
os.chmod("deep/er/x", 0o600)
subprocess.run(["sh", "-c", "umask 077; echo private > deep/private"], check=True)
os.mkdir("closed"); open("closed/f", "w").close(); os.chmod("closed", 0)
open("in/secret.txt", "a").write("more\n")
`
	cmd := brig(program, "run", "--no-result", "--tier", "core", "--file", "in", "--out", "out", "-")
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	t.Logf("%s", stderr.Bytes())
	// "closed" cannot be looked into by its owner either, and that is said.
	if cmd.ProcessState.ExitCode() != int(exitFailed) || !strings.Contains(stderr.String(), "not brought back: closed/") {
		t.Fatalf("brig: %v\n%s", err, stderr.Bytes())
	}
	if want := fmt.Sprintf("42 %d\n", someUser); stdout.String() != want {
		t.Errorf("stdout %q, want %q", stdout.String(), want)
	}
	if !strings.Contains(stderr.String(), "docker · contained") {
		t.Errorf("it did not run in a container: %s", stderr.Bytes())
	}
	var names []string
	err = filepath.WalkDir(home, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		stat := info.Sys().(*syscall.Stat_t)
		if stat.Uid != someUser || stat.Gid != someUser {
			t.Errorf("%s belongs to %d:%d", path, stat.Uid, stat.Gid)
		}
		if in, ok := strings.CutPrefix(path, filepath.Join(home, "out")+"/"); ok {
			names = append(names, in)
			if need := os.FileMode(0o600); info.Mode().Perm()&need != need {
				t.Errorf("%s has the mode %s", in, info.Mode())
			}
		}
		if strings.Contains(path, "sessions/") {
			t.Errorf("left behind: %s", path)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := strings.Join(names, " "), "deep deep/er deep/er/x deep/private in in/secret.txt made.txt"; got != want {
		t.Errorf("it came back with %q, want %q", got, want)
	}
	// The user needs nobody's help to read and remove all of it.
	own := exec.CommandContext(t.Context(), "/bin/sh", "-c", "cat out/made.txt out/deep/private out/in/secret.txt && rm -r out in && ! test -e out")
	own.Dir, own.SysProcAttr = home, cmd.SysProcAttr
	if out, err := own.CombinedOutput(); err != nil || string(out) != "made\nprivate\n41\nmore\n" {
		t.Errorf("the user's own commands: %v, %q", err, out)
	}
	again := brig("", "doctor", "--json")
	out, err := again.Output()
	if err != nil {
		t.Errorf("doctor: %v\n%s", err, out)
	}
	if !bytes.Contains(out, fmt.Appendf(nil, "bound, as user %d:%d", someUser, someUser)) {
		t.Errorf("doctor does not say as whom code runs: %s", out)
	}
}
