//go:build darwin || brig_keeper

package confine

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

const (
	probeTimeout = 5 * time.Second
	probeFile    = ".brig-probe"
)

// confinement finds out whether the profile of this very plan works here, and
// returns the command that starts the runner. Where it does not, the runner is
// started without, and the report says so: the parent judges that.
func (k *keeper) confinement() ([]string, error) {
	if k.plan.Mode == ModeOff {
		k.seatbelt.Layer = Layer{Code: CodeOff}
		return k.plan.Command, nil
	}
	if k.plan.without("seatbelt") {
		k.seatbelt.Layer = Layer{Code: CodeNotAsked}
		return k.plan.Command, nil
	}
	profile, params := k.plan.Seatbelt()
	k.profile, k.params = profile, params
	k.seatbelt.Version, k.seatbelt.Hash, k.seatbelt.Parameters = SeatbeltVersion, SeatbeltHash(profile), len(params)
	// Something that the profile lets a program read, and something that it does not.
	may, mayNot := rand.Text(), rand.Text()
	inside, outside := filepath.Join(k.plan.Scratch, probeFile), filepath.Join(k.plan.Home, probeFile)
	for path, content := range map[string]string{inside: may, outside: mayNot} {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			return nil, err
		}
	}
	if err := readable(outside, mayNot); err != nil {
		return nil, err
	}
	p := k.attempt(k.through(profile, params, []string{"/bin/cat", inside, outside}))
	k.seatbelt.Layer = p.judge(may, mayNot)
	if err := os.Remove(inside); err != nil { // the other one is asked about later, see know
		return nil, err
	}
	if !k.seatbelt.Applied {
		k.seatbelt.Said = lastWords(p.errors)
		return k.plan.Command, nil
	}
	return k.through(profile, params, k.plan.Command), nil
}

// through puts a command into the profile.
func (k *keeper) through(profile string, params []Param, command []string) []string {
	out := seatbeltCommand(profile, params, command)
	out[0] = k.machine.sandboxExec()
	return out
}

// readable is the control: without the profile the file can be read.
func readable(path, content string) error {
	got, err := os.ReadFile(path)
	if err == nil && string(got) != content {
		err = errors.New("the file of the probe does not hold what was written")
	}
	return err
}

func (k *keeper) attempt(command []string) probed {
	ctx, cancel := context.WithTimeout(context.Background(), probeTimeout)
	defer cancel()
	var out, errs bytes.Buffer
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Dir, cmd.Env = "/", []string{"LANG=C", Marker + "=" + k.plan.Token}
	cmd.Stdout, cmd.Stderr = &out, &errs // of a program of the system
	cmd.WaitDelay = time.Second
	err := cmd.Run()
	p := probed{out: out.String(), errors: errs.String(), late: ctx.Err() != nil, missing: errors.Is(err, fs.ErrNotExist)}
	if cmd.ProcessState != nil {
		p.status = cmd.ProcessState.ExitCode()
	}
	return p
}

// know makes the runner the first of the family, and asks the system about its
// profile. The runner starts while that goes on, so there may be no answer at first.
func (k *keeper) know(pid int) {
	k.tell, k.attend = k.machine.forks()
	for _, r := range k.machine.table() {
		if r.pid == pid {
			k.family = newFamily(r.identity())
		}
	}
	if k.family == nil {
		k.family = newFamily(identity{pid: pid}) // it has ended already
	}
	k.look(false)
	if !k.seatbelt.Applied {
		return
	}
	k.seatbelt.Members = k.told(pid)
}

// told waits for the system to say that a process is in the profile, which it is
// a moment after it was started.
func (k *keeper) told(pid int) bool {
	for range 50 {
		is, known := k.inside(pid)
		if is || !known {
			return is && known
		}
		time.Sleep(2 * time.Millisecond)
	}
	return false
}

// foretell asks about a program that waits in the profile, where no runner will be.
func (k *keeper) foretell() {
	if !k.seatbelt.Applied {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), probeTimeout)
	defer cancel()
	command := k.through(k.profile, k.params, []string{"/bin/cat"})
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Dir, cmd.Env = "/", []string{"LANG=C", Marker + "=" + k.plan.Token}
	input, err := cmd.StdinPipe()
	if err != nil {
		return // the layer is partial then
	}
	if cmd.Start() != nil {
		return
	}
	k.seatbelt.Members = k.told(cmd.Process.Pid)
	_ = input.Close() // which ends it
	_ = cmd.Wait()
}

// inside tells whether a process is in the profile of this instance. No other
// profile lets a program into the scratch directory and not beside it.
func (k *keeper) inside(pid int) (is, known bool) {
	return k.machine.inside(pid, k.plan.Scratch, filepath.Join(k.plan.Home, probeFile))
}

// lastWords is the last line of what a program of the system said.
func lastWords(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	last := lines[len(lines)-1]
	return last[:min(len(last), 300)]
}
