package selftest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"time"
)

const (
	controlMark   = "BRIG_ST_CONTROL="     // in the environment of every process of one control run
	controlOutput = 4 << 20                // bytes kept
	controlGrace  = 300 * time.Millisecond // for the end of the output
)

// control runs source as a program with nothing around it and returns what it
// printed, also where it failed. It is ended with all its processes when ctx is over.
func (y *yard) control(ctx context.Context, source []byte, p *plot) ([]byte, error) {
	if y.options.Python == "" {
		return nil, errors.New(y.options.NoPython)
	}
	cmd := exec.CommandContext(ctx, y.options.Python, "-I", "-")
	mark := controlMark + random(8)
	// The descriptor canary is inherited as it is: nothing closes it on the way.
	cmd.Env = append(slices.Clone(y.options.Environ), runMark+y.token, mark)
	if name, _ := p.told["env"].(string); name != "" {
		cmd.Env = append(cmd.Env, name+"="+p.secret)
	}
	cmd.Dir = p.scratch()
	cmd.Stdin = bytes.NewReader(source)
	stdout, stderr := kept{most: controlOutput}, kept{most: 4096}
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	ownGroup(cmd)
	cmd.Cancel = func() error {
		killGroup(cmd.Process)
		killMarked(mark)
		return cmd.Process.Kill()
	}
	cmd.WaitDelay = controlGrace
	defer endsWithBrig(cmd)()
	err := cmd.Run()
	if errors.Is(err, exec.ErrWaitDelay) {
		err = nil // something was left that held the output; it is ended now
	}
	killMarked(mark) // what has left the group
	if ctx.Err() != nil {
		err = ctx.Err()
	}
	if err != nil {
		return stdout.Bytes(), fmt.Errorf("the control run failed: %w: %s", err, strings.TrimSpace(stderr.String()))
	}
	return stdout.Bytes(), nil
}

// kept is the first bytes of a stream.
type kept struct {
	bytes.Buffer
	most int
}

func (k *kept) Write(b []byte) (int, error) {
	room := max(0, k.most-k.Len())
	_, err := k.Buffer.Write(b[:min(room, len(b))])
	return len(b), err
}
