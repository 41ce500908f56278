package sandboxtest

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"time"

	"brig/orchestrator/wire"
)

var (
	errInterrupted = errors.New("interrupted")
	errKilled      = errors.New("killed")
)

// ended is how a program of the fake stops before its last step.
type ended struct {
	outcome   wire.Outcome
	status    int
	signal    int
	state     wire.State
	exception *wire.Exception
	memory    bool
}

func (e *ended) Error() string { return string(e.outcome) }

// killed is the end of an interpreter that was killed.
func killed() *ended { return &ended{outcome: wire.OutcomeSignal, signal: 9, state: wire.StateLost} }

// cell is one thing that the fake's interpreter does: a run, or an op on its variables.
type cell struct {
	run    wire.Run
	source []byte
	op     func(*namespace)
	host   *memoryRunner
	link   *link         // where its events go
	over   chan struct{} // closed when the interpreter is done with it
	told   chan struct{} // closed when its account is closed, too
	soft   chan struct{} // a soft interrupt that was not taken yet
	stdout *bounded
	stderr *bounded
	hard   bool // guarded by host.mu
	swept  int  // guarded by host.mu

	// Set by the interpreter, read when over is closed.
	vars     *namespace
	proc     *process
	atExit   []string
	shown    int
	ended    *ended
	elapsed  time.Duration
	oomKills int
}

// namespace is the variables of the fake's interpreter.
type namespace struct {
	ints       map[string]int64
	generators map[string]bool
}

func newNamespace() *namespace {
	return &namespace{ints: make(map[string]int64), generators: make(map[string]bool)}
}

// execute runs a program as Python would and says how it ended.
func (c *cell) execute(source []byte) *ended {
	p, err := parse(source)
	if err != nil {
		return c.raise("NotImplementedError", err.Error(), "")
	}
	for _, s := range p {
		if s.Act == "broken" {
			return c.broken(s.Name)
		}
	}
	for i, s := range p {
		err := c.pending()
		if err == nil {
			err = c.step(s, i == len(p)-1)
		}
		if end := c.end(err); end != nil {
			return end
		}
	}
	return &ended{outcome: wire.OutcomeOK, state: wire.StateKept}
}

// end turns the error of a step into the end of the program, nil for none.
func (c *cell) end(err error) *ended {
	var e *ended
	switch {
	case err == nil:
		return nil
	case errors.As(err, &e):
		return e
	case errors.Is(err, errInterrupted):
		return &ended{outcome: wire.OutcomeInterrupted, state: wire.StateKept}
	case errors.Is(err, errKilled):
		return killed()
	}
	return c.raise("OSError", err.Error(), "")
}

// pending takes an interrupt or a kill that has come, without waiting.
func (c *cell) pending() error {
	select {
	case <-c.proc.killed:
		return errKilled
	default:
	}
	select {
	case <-c.soft:
		return errInterrupted
	default:
		return nil
	}
}

// wait lasts for d, or for ever if d is negative.
func (c *cell) wait(d time.Duration) error {
	var timer <-chan time.Time
	if d >= 0 {
		t := time.NewTimer(d)
		defer t.Stop()
		timer = t.C
	}
	select {
	case <-timer:
		return nil
	case <-c.soft:
		return errInterrupted
	case <-c.proc.killed:
		return errKilled
	}
}

// raise ends the program with an uncaught exception.
func (c *cell) raise(name, message, line string) *ended {
	file := c.run.Filename
	if file == "" {
		file = "<cell>"
	}
	frame := wire.Frame{File: file, Line: 2, Name: "<module>", Text: line}
	return &ended{outcome: wire.OutcomeException, state: wire.StateKept, exception: &wire.Exception{
		Name: name, Message: message, Frames: []wire.Frame{frame},
		Traceback: fmt.Sprintf("Traceback (most recent call last):\n  File %q, line 2, in <module>\n    %s\n%s: %s\n",
			file, line, name, message),
	}}
}

func (c *cell) broken(kind string) *ended {
	message := map[string]string{
		"syntax": "invalid syntax",
		"nul":    "source code cannot contain null bytes",
		"utf-8":  "(unicode error) 'utf-8' codec can't decode byte 0xff",
	}[kind]
	return c.raise("SyntaxError", message, "")
}

// to picks the stream of a step.
func (c *cell) to(s Step) io.Writer {
	if s.To == Stderr {
		return c.stderr
	}
	return c.stdout
}

// step is the fake's meaning of each act; steps/<act>.py is Python's.
func (c *cell) step(s Step, last bool) error {
	switch s.Act {
	case "print":
		return c.print(c.to(s), s.Text)
	case "write":
		return c.write(s)
	case "split":
		for i := range len(s.Text) {
			if _, err := io.WriteString(c.to(s), s.Text[i:i+1]); err != nil {
				return err
			}
		}
		return nil
	case "empty":
		for range s.N {
			if _, err := c.stdout.Write(nil); err != nil {
				return err
			}
		}
		return nil
	case "set":
		c.vars.ints[s.Name] = s.N
		return nil
	case "unpicklable":
		c.vars.generators[s.Name] = true
		return nil
	case "show":
		v, ok := c.vars.ints[s.Name]
		if !ok {
			return c.raise("NameError", fmt.Sprintf("name '%s' is not defined", s.Name), "")
		}
		return c.print(c.stdout, strconv.FormatInt(v, 10))
	case "value":
		if !last {
			return nil
		}
		return c.display("result", wire.Part{MIME: "text/plain", Data: []byte(strconv.FormatInt(s.N, 10))})
	case "display":
		return c.display("display", wire.Part{MIME: "text/plain", Data: []byte("shown")},
			wire.Part{MIME: s.Name, Data: []byte(strings.Repeat("0123456789abcdef", int(s.N/16)))})
	case "sleep":
		return c.wait(time.Duration(s.N) * time.Millisecond)
	case "spin", "blocked-read":
		return c.wait(-1)
	case "deaf":
		return c.deaf()
	case "hog":
		return c.hog(s.N)
	case "hog-child":
		return c.hogChild(s.N)
	case "raise":
		return c.raise(s.Name, s.Text, "raise "+s.Name)
	case "exit", "exit-text", "hard-exit", "kill-self":
		return c.leave(s)
	case "holder", "holder-exec", "daemon", "orphans", "late", "thread", "at-exit":
		return c.spawn(s)
	case "write-file", "read-file", "wait-file", "plant", "unflushed":
		return c.file(s)
	case "context", "place", "fds", "environ", "attack":
		return c.report(s)
	case "babble":
		return nil // there is no descriptor to babble into
	}
	panic(fmt.Sprintf("BUG: the in-memory backend does not know the act %q", s.Act))
}

func (c *cell) print(w io.Writer, text string) error {
	_, err := io.WriteString(w, text+"\n")
	return err
}

func (c *cell) write(s Step) error {
	r := s.Fill.Reader(s.N)
	buf := make([]byte, block)
	for {
		n, err := io.ReadFull(r, buf)
		if n > 0 {
			if _, err := c.to(s).Write(buf[:n]); err != nil {
				return err
			}
		}
		if err != nil {
			return nil // the end of the pattern
		}
		if err := c.pending(); err != nil {
			return err
		}
	}
}

func (c *cell) display(role string, parts ...wire.Part) error {
	c.shown++
	return c.host.spoken(c.host.sendDisplay(c.link, c.run.ID, role, parts))
}

func (c *cell) deaf() error {
	if err := c.print(c.stdout, "deaf"); err != nil {
		return err
	}
	for {
		if err := c.wait(-1); errors.Is(err, errKilled) {
			return err
		}
	}
}

func (c *cell) hog(n int64) error {
	if n > c.host.memory {
		e := c.raise("MemoryError", "", "")
		e.memory = true
		return e
	}
	return c.print(c.stdout, fmt.Sprintf("held %d", n))
}

func (c *cell) hogChild(n int64) error {
	if n > c.host.memory {
		c.oomKills++
		c.host.oomKills.Add(1)
		return c.print(c.stdout, "the child was killed by signal 9")
	}
	return c.print(c.stdout, "the child ended with status 0")
}

func (c *cell) leave(s Step) error {
	e := &ended{outcome: wire.OutcomeExit, status: int(s.N), state: wire.StateKept}
	switch s.Act {
	case "exit-text":
		e.status = 1
		if err := c.print(c.stderr, s.Text); err != nil {
			return err
		}
	case "hard-exit":
		e.state = wire.StateLost
	case "kill-self":
		return &ended{outcome: wire.OutcomeSignal, signal: int(s.N), state: wire.StateLost}
	}
	return e
}

func (c *cell) spawn(s Step) error {
	switch s.Act {
	case "holder", "holder-exec", "daemon":
		c.host.sleeper(string(s.Act), c.run.ID, time.Duration(s.N)*time.Millisecond)
	case "orphans":
		for i := range s.N {
			c.host.sleeper("orphan", c.run.ID, time.Duration(i%5)*10*time.Millisecond)
		}
	case "late":
		c.host.lateWriter(c.run.ID, s)
	case "thread":
		c.atExit = append([]string{s.Text}, c.atExit...)
	case "at-exit":
		c.atExit = append(c.atExit, s.Text)
	}
	return nil
}

func (c *cell) file(s Step) error {
	root := c.host.root
	switch s.Act {
	case "write-file", "unflushed":
		return root.WriteFile(s.Name, []byte(s.Text), 0o600)
	case "read-file":
		text, err := root.ReadFile(s.Name)
		if err != nil {
			return err
		}
		return c.print(c.stdout, string(text))
	case "wait-file":
		for {
			if _, err := root.Stat(s.Name); !errors.Is(err, fs.ErrNotExist) {
				return err
			}
			if err := c.wait(5 * time.Millisecond); err != nil {
				return err
			}
		}
	}
	return c.host.plant(s)
}

// report prints what a program would see; nothing here is evidence of anything.
func (c *cell) report(s Step) error {
	var v any
	switch s.Act {
	case "context":
		cwd := c.link.hello.Workspace
		v = contextReport{Name: "__main__", Argv: append([]string{}, c.run.Argv...), CWD: cwd, Encoding: "utf8"}
	case "place":
		v = c.host.place()
	case "fds":
		three := map[string]string{"0": os.DevNull, "1": "pipe:[1]", "2": "pipe:[2]"}
		v = descriptorReport{Own: three, Forked: three, Executed: three}
	case "environ":
		v = environReport{Own: []string{"HOME", "PATH"}, Values: []string{}, Processes: []string{}}
	case "attack":
		v = []attempt{
			{"self", "forge", "pipe", "ok"},
			{"self", "steal", "pipe", "ok"},
			{"self", "read", "mem", "ok"},
			{"1", "forge", "fd/1", "EACCES"},
			{"1", "steal", "fd/0", "EACCES"},
			{"1", "read", "mem", "EACCES"},
			{"1", "trace", "ptrace", "EPERM"},
			{"1", "peek", "process_vm_readv", "EPERM"},
			{"1", "take", "pidfd_getfd 0", "EPERM"},
		}
	}
	line, err := json.Marshal(v)
	if err != nil {
		panic("BUG: a report does not marshal: " + err.Error())
	}
	return c.print(c.stdout, string(line))
}
