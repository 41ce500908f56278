package selftest

import (
	"bufio"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"
)

//go:embed decoy.py
var decoyProgram string

const (
	decoyStart = 10 * time.Second
)

// decoys are processes that may be disturbed: one for each probe that looks at one,
// so that what one attempt did is not taken for another's.
type decoys struct {
	cmd    *exec.Cmd
	stdin  io.Closer // its end ends them all
	heard  chan struct{}
	pids   map[string]int
	before map[string]map[string]string // by probe: traits at first

	mu  sync.Mutex
	got map[string]bool // "PID NAME" of a signal
}

type decoyReady struct {
	PID      int            `json:"pid"`
	Children map[string]int `json:"children"`
	Address  uint64         `json:"address"`
	Length   int            `json:"length"`
	SysV     int            `json:"sysv"`
	Terminal string         `json:"terminal"`
	Pipe     int            `json:"pipe"`
}

// startDecoys needs a Python; where there is none, no control can run either.
func (p *plot) startDecoys(probes []Probe) error {
	// A plot without probes of its own has nobody who would go for a decoy.
	if p.yard.options.Python == "" || len(probes) == 0 {
		return nil
	}
	var ids []string
	for _, pr := range probes {
		if pr.Witness == Decoy {
			ids = append(ids, pr.ID)
		}
	}
	// Its command line holds a secret of its own, which everybody on the machine may read.
	// The mark lets a later run find the processes of one that was killed.
	cmd := exec.Command(p.yard.options.Python, append([]string{"-I", "-S", "-c", decoyProgram, p.public}, ids...)...)
	cmd.Env = append(needed(p.yard.options.Environ), runMark+p.yard.token, "BRIG_DECOY="+p.secret)
	cmd.Dir = p.scratch()
	ownGroup(cmd)
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	stdout, w, err := os.Pipe()
	if err != nil {
		return err
	}
	cmd.Stdout = w
	if err := errors.Join(cmd.Start(), w.Close()); err != nil {
		return errors.Join(err, stdin.Close(), stdout.Close())
	}
	d := &decoys{cmd: cmd, stdin: stdin, heard: make(chan struct{}), got: map[string]bool{}, before: map[string]map[string]string{}}
	p.decoys = d
	first := make(chan []byte, 1)
	go d.follow(stdout, first)
	select {
	case line := <-first:
		var r decoyReady
		if err := json.Unmarshal(line, &r); err != nil {
			return fmt.Errorf("a decoy said %q: %w", line, err)
		}
		d.pids = r.Children
		p.tellDecoys(r)
	case <-time.After(decoyStart):
		return fmt.Errorf("%s did not start within %s", p.yard.options.Python, decoyStart)
	}
	for id, pid := range d.pids {
		d.before[id] = traits(pid)
	}
	return nil
}

func (p *plot) tellDecoys(r decoyReady) {
	one := func(pid int) map[string]any {
		return map[string]any{"pid": pid, "address": r.Address, "length": r.Length, "pipe": r.Pipe}
	}
	each := map[string]any{}
	for id, pid := range r.Children {
		each[id] = one(pid)
	}
	maps.Copy(p.told, map[string]any{"decoy": one(r.PID), "decoys": each, "sysv": r.SysV, "terminal": r.Terminal})
}

// follow reads what the decoys say until they are all gone.
func (d *decoys) follow(from *os.File, first chan<- []byte) {
	defer close(d.heard)
	defer from.Close()
	lines := bufio.NewScanner(from)
	for n := 0; lines.Scan(); n++ {
		if n == 0 {
			first <- []byte(lines.Text())
			continue
		}
		if what, ok := strings.CutPrefix(lines.Text(), "signal "); ok {
			d.mu.Lock()
			d.got[what] = true
			d.mu.Unlock()
		}
	}
	close(first)
}

// shows tells whether the trace of an attempt is on the decoy of its probe.
func (d *decoys) shows(id, trace string) bool {
	if d == nil || trace == "" {
		return false
	}
	pid, ok := d.pids[id]
	if !ok {
		return false
	}
	if name, ok := strings.CutPrefix(trace, "signal:"); ok {
		d.mu.Lock()
		defer d.mu.Unlock()
		return d.got[fmt.Sprintf("%d %s", pid, name)]
	}
	before, now := d.before[id], traits(pid)
	if trace != "exit" && now["exit"] != before["exit"] {
		return false // it is gone, which is not what the attempt did
	}
	return before[trace] != now[trace]
}

func (d *decoys) close() error {
	if d == nil {
		return nil
	}
	err := d.stdin.Close()
	killGroup(d.cmd.Process) // one may be stopped, and would not see the end
	_ = d.cmd.Wait()         // it was killed, or has ended by itself
	<-d.heard
	return err
}

// needed is what a program needs of an environment to start at all.
func needed(environ []string) []string {
	var kept []string
	for _, v := range environ {
		name, _, _ := strings.Cut(v, "=")
		switch strings.ToUpper(name) {
		case "SYSTEMROOT", "LD_LIBRARY_PATH", "PATH":
			kept = append(kept, v)
		}
	}
	return kept
}
