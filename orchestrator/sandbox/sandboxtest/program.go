package sandboxtest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"brig/orchestrator/wire"
)

// Program is what a case asks an instance to do, as a value: Source renders it
// to Python, and the in-memory backend reads the same steps back from the
// source's first line. So one suite serves a real interpreter and a fake.
type Program []Step

// Step is one thing a program does. The functions of this package make them;
// what each one means in Python stands in steps/<act>.py.
type Step struct {
	Act  Act    `json:"act"`
	Text string `json:"text,omitempty"`
	Name string `json:"name,omitempty"`
	N    int64  `json:"n,omitempty"`
	Fill Fill   `json:"fill,omitempty"`
	To   string `json:"to,omitempty"`
}

// Act names what a step does; steps/<act>.py is its Python.
type Act string

// Stream names for steps that write.
const (
	Stdout = "stdout"
	Stderr = "stderr"
)

// header opens the first line of every source.
const header = "# brigtest: "

// errNotAProgram is what parse answers to a source that Source did not make.
var errNotAProgram = errors.New("the source was not made from a sandboxtest.Program")

// Source renders the program to Python source text. Its first line is a
// comment with the steps as JSON, which Python ignores and the fake executes.
func (p Program) Source() []byte {
	line, err := json.Marshal(p)
	if err != nil {
		panic("BUG: a program does not marshal: " + err.Error())
	}
	var out bytes.Buffer
	fmt.Fprintf(&out, "%s%s\n", header, line)
	for _, s := range p {
		out.WriteString(s.python())
	}
	return out.Bytes()
}

// Run is the request that executes the program once.
func (p Program) Run(id wire.RunID) wire.Run {
	return wire.Run{ID: id, Source: p.Source()}
}

// parse reads the steps back from a source that Source made.
func parse(source []byte) (Program, error) {
	line, _, _ := bytes.Cut(source, []byte("\n"))
	text, ok := bytes.CutPrefix(line, []byte(header))
	if !ok {
		return nil, errNotAProgram
	}
	var p Program
	if err := json.Unmarshal(text, &p); err != nil {
		return nil, fmt.Errorf("read the steps of a program: %w", err)
	}
	return p, nil
}

// Print writes text and a line end to standard output.
func Print(text string) Step { return Step{Act: "print", Text: text, To: Stdout} }

// PrintErr writes text and a line end to standard error.
func PrintErr(text string) Step { return Step{Act: "print", Text: text, To: Stderr} }

// Write sends n bytes of a known pattern to a stream, below Python's own buffers.
func Write(to string, fill Fill, n int64) Step { return Step{Act: "write", To: to, Fill: fill, N: n} }

// Split writes text as UTF-8, each byte in a write of its own.
func Split(to, text string) Step { return Step{Act: "split", To: to, Text: text} }

// EmptyWrites makes n writes of nothing.
func EmptyWrites(n int) Step { return Step{Act: "empty", N: int64(n)} }

// Set gives a variable an integer value.
func Set(name string, n int64) Step { return Step{Act: "set", Name: name, N: n} }

// SetUnpicklable gives a variable a value that no checkpoint can hold.
func SetUnpicklable(name string) Step { return Step{Act: "unpicklable", Name: name} }

// Show prints a variable; a missing one is a NameError.
func Show(name string) Step { return Step{Act: "show", Name: name} }

// Value is an expression; as the last step it is the result of the program.
func Value(n int64) Step { return Step{Act: "value", N: n} }

// Display shows an object with a text form and n bytes (a multiple of 16) of type mime.
func Display(mime string, n int64) Step { return Step{Act: "display", Name: mime, N: n} }

// Sleep waits.
func Sleep(d time.Duration) Step { return Step{Act: "sleep", N: d.Milliseconds()} }

// Spin computes for ever.
func Spin() Step { return Step{Act: "spin"} }

// BlockedRead reads for ever from a pipe that nobody writes to.
func BlockedRead() Step { return Step{Act: "blocked-read"} }

// Deaf prints "deaf" and then lasts for ever, through every soft interrupt.
func Deaf() Step { return Step{Act: "deaf"} }

// Raise raises a builtin exception.
func Raise(name, message string) Step { return Step{Act: "raise", Name: name, Text: message} }

// Exit is sys.exit with a number.
func Exit(status int) Step { return Step{Act: "exit", N: int64(status)} }

// ExitText is sys.exit with a text: it goes to standard error and the status is 1.
func ExitText(text string) Step { return Step{Act: "exit-text", Text: text} }

// HardExit is os._exit.
func HardExit(status int) Step { return Step{Act: "hard-exit", N: int64(status)} }

// KillSelf sends the interpreter a signal from itself.
func KillSelf(signal int) Step { return Step{Act: "kill-self", N: int64(signal)} }

// Holder forks a child that keeps every descriptor of the interpreter for so long.
func Holder(d time.Duration) Step { return Step{Act: "holder", N: d.Milliseconds()} }

// HolderExec starts another program that keeps the output pipes for so long.
func HolderExec(d time.Duration) Step { return Step{Act: "holder-exec", N: d.Milliseconds()} }

// Daemon leaves a double-forked child in a session of its own, with nothing open.
func Daemon(d time.Duration) Step { return Step{Act: "daemon", N: d.Milliseconds()} }

// Orphans leaves n short-lived children whose parents are gone.
func Orphans(n int) Step { return Step{Act: "orphans", N: int64(n)} }

// Late forks a child that waits for a workspace file, writes text to a stream
// and then creates the file's name with ".done" behind it.
func Late(to, text, file string) Step { return Step{Act: "late", To: to, Text: text, Name: file} }

// WriteFile creates a file of the workspace.
func WriteFile(name, text string) Step { return Step{Act: "write-file", Name: name, Text: text} }

// ReadFile prints a file of the workspace.
func ReadFile(name string) Step { return Step{Act: "read-file", Name: name} }

// WaitFile waits until a file of the workspace exists.
func WaitFile(name string) Step { return Step{Act: "wait-file", Name: name} }

// Plant makes a special file in the workspace: a "symlink" or "hardlink" to target, or a "fifo".
func Plant(kind, name, target string) Step {
	return Step{Act: "plant", To: kind, Name: name, Text: target}
}

// Hog allocates n bytes, touches all of them and says so if it lives.
func Hog(n int64) Step { return Step{Act: "hog", N: n} }

// HogChild forks a child that allocates n bytes, and prints how that ended.
func HogChild(n int64) Step { return Step{Act: "hog-child", N: n} }

// ShowPlace prints the program's time zone and locale, and whether the named
// locale is installed, as JSON.
func ShowPlace(locale string) Step { return Step{Act: "place", Name: locale} }

// ShowContext prints what the program sees of its surroundings, as JSON.
func ShowContext() Step { return Step{Act: "context"} }

// ShowFDs prints as JSON which descriptors are open, and what they are, in the
// interpreter, in a child that it forks and in a program that it executes.
func ShowFDs() Step { return Step{Act: "fds"} }

// Babble writes a forged frame to every descriptor of the interpreter beyond
// the standard three.
func Babble() Step { return Step{Act: "babble"} }

// ShowEnviron prints the environment's names, and where text occurs in the
// environment of this or any other visible process, as JSON.
func ShowEnviron(text string) Step { return Step{Act: "environ", Text: text} }

// Attack tries to forge, steal and read the control stream through /proc,
// tracing and descriptor passing, and prints every attempt as JSON.
func Attack() Step { return Step{Act: "attack"} }

// AttackParent is Attack of the parent process alone: for a parent that is ours to attack.
func AttackParent() Step { return Step{Act: "attack", To: "parent"} }

// AtExit registers a print for the end of the interpreter.
func AtExit(text string) Step { return Step{Act: "at-exit", Text: text} }

// Thread starts a thread that prints text a little later and is not a daemon.
func Thread(text string) Step { return Step{Act: "thread", Text: text} }

// Unflushed writes text to a workspace file that it neither flushes nor closes.
func Unflushed(name, text string) Step { return Step{Act: "unflushed", Name: name, Text: text} }

// Broken makes the whole source invalid: "syntax" (a SyntaxError), "nul" (a NUL
// byte) or "utf-8" (bytes that are no UTF-8). Nothing of the program may run.
func Broken(kind string) Step { return Step{Act: "broken", Name: kind} }

// text is a Python literal of s.
func text(s string) string {
	var out strings.Builder
	out.WriteByte('"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			out.WriteByte('\\')
			out.WriteRune(r)
		case r >= ' ' && r < 0x7f:
			out.WriteRune(r)
		default:
			fmt.Fprintf(&out, `\U%08x`, r)
		}
	}
	out.WriteByte('"')
	return out.String()
}
