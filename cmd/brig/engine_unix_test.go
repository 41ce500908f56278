//go:build unix

package main

import (
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"brig/orchestrator/sandbox/sandboxtest"
)

// engineSocket is the socket of the real engine, as the docker command would find it.
func engineSocket(t *testing.T) string {
	t.Helper()
	if out, err := exec.CommandContext(t.Context(), "docker", "version", "--format", "{{.Server.Version}}").CombinedOutput(); err != nil {
		sandboxtest.Skip(t, "a container engine", strings.TrimSpace(string(out)))
	}
	host := os.Getenv("DOCKER_HOST")
	if host == "" {
		return "/var/run/docker.sock"
	}
	socket, ok := strings.CutPrefix(host, "unix://")
	if !ok {
		sandboxtest.Skip(t, "an engine on a socket of this machine", host)
	}
	return socket
}

// forward passes every connection of l on to the engine until the test ends. An
// end in one direction is passed on as one, which attached streams need.
func forward(t *testing.T, l net.Listener, socket string) {
	t.Helper()
	var mu sync.Mutex
	var open []net.Conn
	var work sync.WaitGroup
	work.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			engine, err := net.Dial("unix", socket)
			if err != nil {
				t.Errorf("reach the engine: %v", err)
				client.Close()
				continue
			}
			mu.Lock()
			open = append(open, client, engine)
			mu.Unlock()
			work.Go(func() { pump(engine, client) })
			work.Go(func() { pump(client, engine) })
		}
	})
	t.Cleanup(func() {
		l.Close()
		mu.Lock()
		for _, c := range open {
			c.Close()
		}
		mu.Unlock()
		work.Wait()
	})
}

// pump copies until the end of from, which becomes that of to. How a copy ended is
// seen by whoever waited for what it carried.
func pump(to, from net.Conn) {
	_, _ = io.Copy(to, from)
	if half, ok := to.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite()
	}
}

// TestRemoteScripts runs what an engine elsewhere does differently: it is reached
// over TCP, so nothing of this machine can be bound into its containers.
func TestRemoteScripts(t *testing.T) {
	socket := engineSocket(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	forward(t, l, socket)
	// The scripts run after this function has returned, the forwarder as long as t.
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script/remote",
		RequireUniqueNames:  true,
		RequireExplicitExec: true,
		Cmds:                commands(),
		Condition:           conditions,
		UpdateScripts:       *update,
		Setup: func(env *testscript.Env) error {
			isolate(env, "tcp://"+l.Addr().String())
			return nil
		},
	})
}
