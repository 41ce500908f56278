package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"brig/orchestrator/api"
	"brig/orchestrator/sandbox/sandboxtest"
)

// TestScriptsThroughBrig runs scripts that know nothing of it with a brig beside them
// that stays: what they see has to be the same, to the last line.
func TestScriptsThroughBrig(t *testing.T) {
	throughBrig(t, "testdata/script", true, nil, "run", "out", "files", "figures", "json", "limits", "flags")
}

// TestScriptsBesideBrig runs scripts with settings that the brig that stays does not
// have: what they ask for is what they get.
func TestScriptsBesideBrig(t *testing.T) {
	throughBrig(t, "testdata/script", false, nil, "refused", "loopback", "unsandboxed", "source")
}

// TestConsentThroughBrig: the brig that stays finds as little that contains code.
func TestConsentThroughBrig(t *testing.T) {
	throughBrig(t, "testdata/script", true, []string{bareVar + "=1"}, "uncontained")
}

// TestDaemonScripts runs what is about the brig that stays.
func TestDaemonScripts(t *testing.T) {
	throughBrig(t, "testdata/script/daemon", true, nil)
}

// throughBrig runs scripts of a directory, all or those named, each with a brig that
// stays in its own directories, started with more variables. through: some of their code
// has to run in that one.
func throughBrig(t *testing.T, dir string, through bool, vars []string, only ...string) {
	python, err := exec.LookPath("python3")
	if err != nil {
		sandboxtest.Skip(t, "python3 on PATH", "none")
	}
	copied := copyOfTest(t)
	params := testscript.Params{
		Dir:                 dir,
		RequireUniqueNames:  true,
		RequireExplicitExec: true,
		Cmds:                commands(),
		Condition:           conditions,
		Setup: func(env *testscript.Env) error {
			isolate(env, "unix:///nonexistent/docker.sock")
			env.Setenv("PYTHON", python)
			env.Setenv(copyVar, copied)
			env.Setenv("BRIG_SERVER_LISTEN", "127.0.0.1:0")
			if err := openParent(env.WorkDir); err != nil {
				return err
			}
			if err := giveToOrdinary(env.WorkDir); err != nil {
				return err
			}
			env.Vars = append(env.Vars, vars...)
			stop, err := startBrig(env, copied, through)
			if err == nil {
				env.Defer(stop)
			}
			return err
		},
	}
	if only != nil {
		params.Dir = ""
		for _, name := range only {
			params.Files = append(params.Files, filepath.Join(dir, name+".txtar"))
		}
	}
	testscript.Run(t, params)
}

// startBrig starts a brig that stays, with the script's environment, and waits until
// it answers.
func startBrig(env *testscript.Env, executable string, through bool) (stop func(), err error) {
	link := filepath.Join(env.WorkDir, ".home", "brig") // under that name it is brig
	if err := os.Symlink(executable, link); err != nil {
		return nil, err
	}
	var said bytes.Buffer
	cmd := exec.Command(link, "up", "--headless")
	cmd.Env, cmd.Dir, cmd.Stdout, cmd.Stderr = env.Vars, env.WorkDir, &said, &said
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	stop = func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		select {
		case <-done:
		case <-time.After(time.Minute):
			_ = cmd.Process.Kill()
			<-done
			env.T().Log("brig did not end when told to: ", said.String())
			env.T().FailNow()
		}
		// A script that passes because nothing was handed over shows nothing.
		log, err := os.ReadFile(filepath.Join(env.WorkDir, ".home", "state", "brig", "log", "brig.log"))
		if n := bytes.Count(log, []byte(`"run ended"`)); through && (err != nil || n == 0) {
			env.T().Log("no code ran in the brig that stays: ", err, said.String())
			env.T().FailNow()
		}
	}
	runtime := filepath.Join(env.WorkDir, ".home", "run", "brig")
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for {
		if _, err = api.Find(ctx, runtime, api.Operator); err == nil {
			return stop, nil
		}
		select {
		case ended := <-done:
			done <- ended
			return nil, fmt.Errorf("brig up ended: %w\n%s", errors.Join(ended, err), said.String())
		case <-ctx.Done():
			stop()
			return nil, fmt.Errorf("brig up does not answer: %w\n%s", err, said.String())
		case <-time.After(10 * time.Millisecond):
		}
	}
}
