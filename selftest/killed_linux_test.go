package selftest

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestKilledHelper is no test: it is the brig that TestKilled kills.
func TestKilledHelper(t *testing.T) {
	var o Options
	if err := json.NewDecoder(os.Stdin).Decode(&o); err != nil {
		return // run as an ordinary test
	}
	y := mustYard(t, o)
	p, err := y.plot("control", yardProbes())
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		// One process that brig's own end does not reach.
		source := "import os, time\nif os.fork() == 0:\n os.setsid()\n if os.fork(): os._exit(0)\n open('left', 'w').close()\ntime.sleep(600)\n"
		_, _ = y.control(context.Background(), []byte(source), p)
	}()
	for {
		if _, err := os.Stat(filepath.Join(p.scratch(), "left")); err == nil {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	fmt.Printf("\nyard %s\n", y.token)
	_, _ = io.Copy(io.Discard, os.Stdin)
	time.Sleep(time.Minute)
}

// killedRun kills a brig in the middle of a self-test, and returns the token of its yard.
func killedRun(t *testing.T, o Options) string {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^TestKilledHelper$")
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if err := json.NewEncoder(stdin).Encode(struct {
		Options
		Progress any
	}{Options: o}); err != nil {
		t.Fatal(err)
	}
	token := ""
	for lines := bufio.NewScanner(stdout); token == "" && lines.Scan(); {
		token, _ = strings.CutPrefix(lines.Text(), "yard ")
		if token == lines.Text() {
			token = ""
		}
	}
	if token == "" {
		t.Fatal("the helper did not get as far")
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	return token
}

// TestKilled kills a brig in the middle of a self-test and looks at what the next one leaves.
func TestKilled(t *testing.T) {
	for _, long := range []string{"", "/" + strings.Repeat("long", 25)} {
		o := yardOptions(t)
		o.Root += long
		token := killedRun(t, o)
		// The decoys and the control end by themselves; what has left its group waits for the next run.
		for deadline := time.Now().Add(2 * time.Second); len(withMark(t, runMark+token)) > 1 && time.Now().Before(deadline); {
			time.Sleep(10 * time.Millisecond)
		}
		if pids := withMark(t, runMark+token); len(pids) != 1 {
			t.Errorf("after the kill %v are left, want the one that has left the group", pids)
		}
		if _, err := os.Stat(o.Root + "/" + token); err != nil {
			t.Error("the kill left nothing, so this test shows nothing:", err)
		}
		if err := mustYard(t, o).close(); err != nil {
			t.Error(err)
		}
		for deadline := time.Now().Add(2 * time.Second); len(withMark(t, runMark+token)) != 0 && time.Now().Before(deadline); {
			time.Sleep(10 * time.Millisecond)
		}
		nothingLeft(t, o, &yard{token: token})
	}
}
