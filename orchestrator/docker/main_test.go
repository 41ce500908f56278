package docker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"testing"
	"time"

	"brig/images"
	"brig/orchestrator/sandbox"
)

// verb makes the test program a helper process: something that can be killed, or
// that stands where another program would.
const verb = "BRIG_DOCKER_TEST_VERB"

func TestMain(m *testing.M) {
	var err error
	switch os.Getenv(verb) {
	case "":
		os.Exit(m.Run())
	case "probe": // say why the engine is not reachable
		b, failed := New(Options{Env: os.LookupEnv, Owner: "probe", Process: "probe"})
		if failed == nil {
			_, failed = b.Probe(context.Background())
		}
		var u *sandbox.Unavailable
		if errors.As(failed, &u) {
			fmt.Println(u.Code)
		}
	case "dial-stdio": // stand where ssh would
		err = dialStdio(os.Getenv("BRIG_DOCKER_TEST_SOCKET"))
	case "hold": // start a session, say where it is, and wait to be killed
		err = hold(os.Getenv("BRIG_DOCKER_TEST_STAGE"))
	case "keep": // leave an instance with a lease, and wait to be killed
		err = keep()
	default:
		err = errors.New("unknown verb")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func dialStdio(socket string) error {
	conn, err := net.Dial("unix", socket)
	if err != nil {
		return err
	}
	go func() {
		_, _ = io.Copy(conn, os.Stdin)
		_ = conn.(*net.UnixConn).CloseWrite()
	}()
	_, err = io.Copy(os.Stdout, conn)
	return err
}

// hold prints one line when the stage is reached and never ends by itself.
func hold(stage string) error {
	b, err := New(Options{
		Env: os.LookupEnv, Endpoint: os.Getenv("BRIG_DOCKER_TEST_ENDPOINT"),
		Owner: os.Getenv("BRIG_DOCKER_TEST_OWNER"), Process: os.Getenv("BRIG_DOCKER_TEST_PROCESS"),
		Images: images.New(images.Options{Env: os.LookupEnv}),
	})
	if err != nil {
		return err
	}
	ctx := context.Background()
	workspace := os.Getenv("BRIG_DOCKER_TEST_WORKSPACE")
	if stage == "starting" { // over and over, so that a kill lands anywhere in it
		fmt.Println("starting")
		for {
			p, err := b.Prepare(ctx, coreBase(), workspace)
			if err != nil {
				return err
			}
			if err := p.Close(ctx); err != nil {
				return err
			}
		}
	}
	p, err := b.Prepare(ctx, coreBase(), workspace)
	if err != nil {
		return err
	}
	if stage == "prepared" {
		fmt.Println("prepared")
		time.Sleep(time.Hour)
	}
	i, err := p.Bind(ctx, sandbox.Claim{ID: "held-1", Session: "held", Workspace: workspace})
	if err != nil {
		return err
	}
	if stage == "idle" {
		fmt.Println("idle")
		time.Sleep(time.Hour)
	}
	o := runUntil(ctx, i, "import os\nif os.fork() == 0:\n    os.setsid()\nprint('running', flush=True)\nwhile True: pass", func(string) { fmt.Println("running") })
	return fmt.Errorf("the run ended: %v", o.err)
}

func leased(lease time.Duration) sandbox.Base {
	base := coreBase()
	base.Lease = lease
	return base
}

// keep is the helper that is killed: it leaves an instance with a variable and a
// run under way, and says how to find it.
func keep() error {
	b, err := New(Options{
		Env: os.LookupEnv, Owner: os.Getenv("BRIG_DOCKER_TEST_OWNER"), Process: os.Getenv("BRIG_DOCKER_TEST_PROCESS"),
		Images: images.New(images.Options{Env: os.LookupEnv}),
	})
	if err != nil {
		return err
	}
	ctx, workspace := context.Background(), os.Getenv("BRIG_DOCKER_TEST_WORKSPACE")
	p, err := b.Prepare(ctx, leased(time.Minute), workspace)
	if err != nil {
		return err
	}
	i, err := p.Bind(ctx, sandbox.Claim{ID: "kept-1", Session: "kept", Workspace: workspace})
	if err != nil {
		return err
	}
	if o := runUntil(ctx, i, "x = 41", nil); o.err != nil {
		return o.err
	}
	o := runUntil(ctx, i, "print('on', flush=True)\nwhile True: print('x' * 10_000)", func(text string) {
		if text[:3] == "on\n" && len(text) < 100_000 {
			_ = json.NewEncoder(os.Stdout).Encode(i.(sandbox.Keepable).Handle())
		}
	})
	return fmt.Errorf("the run ended: %v", o.err)
}
