package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"regexp"
	"syscall"
	"unicode/utf8"

	"golang.org/x/term"

	"brig/orchestrator/wire"
)

// source is the program to run.
type source struct {
	code     []byte
	filename string // what tracebacks show; empty for -c and standard input
	argv     []string
}

// readSource finds the code: the argument of -c, a file, or standard input. args
// are the arguments of the verb, dash is the position of "--" among them or -1.
func (p *program) readSource(inline *string, args []string, dash int) (source, error) {
	var s source
	if dash < 0 {
		dash = len(args)
	}
	s.argv = args[dash:]
	for i, a := range s.argv {
		if !utf8.ValidString(a) { // on its way they would become other characters
			return s, usage("put it into a file and hand that in: brig run --file DATA PROGRAM",
				"argument %d of the program, %q, is not UTF-8", i+1, a)
		}
	}
	named := args[:dash]
	if inline != nil {
		if len(named) > 0 {
			return s, usage("arguments of the program go behind --: brig run -c CODE -- "+named[0], "both -c and %q are given", named[0])
		}
		s.code = []byte(*inline)
		return s, checkSource("the argument of -c", false, s.code)
	}
	switch {
	case len(named) > 1:
		return s, usage(fmt.Sprintf("arguments of the program go behind --: brig run %s -- %s", named[0], named[1]), "unexpected argument %q", named[1])
	case len(named) == 1 && named[0] == "":
		return s, usage("brig run FILE", "the file name is empty")
	case len(named) == 1 && named[0] != "-":
		s.filename = named[0]
		var err error
		s.code, err = readSourceFile(named[0])
		return s, err
	}
	var err error
	s.code, err = p.readStdin(len(named) == 1)
	return s, err
}

// readStdin reads the code from standard input. Nobody is kept waiting on a
// terminal unless "-" was typed.
func (p *program) readStdin(asked bool) ([]byte, error) {
	const ways = "brig run -c 'print(6*7)'\nbrig run FILE\nto type code and end it with Ctrl-D: brig run -"
	if term.IsTerminal(int(p.stdin.Fd())) {
		if !asked {
			return nil, usage(ways, "no code was given")
		}
		p.tui.dim("reading code from the terminal, end it with Ctrl-D on a line of its own")
	}
	code, err := io.ReadAll(io.LimitReader(p.stdin, wire.MaxCode+1))
	if err != nil {
		return nil, input(ways, "could not read code from standard input: %s", because(err))
	}
	if len(code) == 0 {
		return nil, input(ways, "standard input is empty: there is no code to run")
	}
	return code, checkSource("standard input", false, code)
}

func readSourceFile(name string) ([]byte, error) {
	f, info, err := openRegular(name)
	if err != nil {
		return nil, explainFile(name, err, "pipe it in: brig run - < "+quote(name))
	}
	defer f.Close()
	if info.Size() > wire.MaxCode {
		return nil, tooLong(name)
	}
	code, err := io.ReadAll(io.LimitReader(f, wire.MaxCode+1))
	if err != nil {
		return nil, explainFile(name, err, "ls -l "+quote(name))
	}
	return code, checkSource(name, true, code)
}

func tooLong(name string) error {
	return input("put data into a file of its own and hand it in: brig run --file DATA PROGRAM",
		"%s is too long: source text may have at most %s", name, size(wire.MaxCode))
}

// coding is the declaration of Python's own rule (PEP 263) in one of the first two lines.
var coding = regexp.MustCompile(`\A(?:[^\n]*\n)?[ \t\f]*#[^\n]*?coding[:=][ \t]*[-_.a-zA-Z0-9]+`)

// checkSource refuses what no Python would take, in words that say where it is;
// named says that name is a file's.
func checkSource(name string, named bool, code []byte) error {
	if len(code) > wire.MaxCode {
		return tooLong(name)
	}
	if bytes.HasPrefix(code, []byte{0xff, 0xfe}) || bytes.HasPrefix(code, []byte{0xfe, 0xff}) {
		hint := "convert it to UTF-8: iconv -f UTF-16 -t UTF-8"
		if named {
			hint += " " + quote(name) + " > " + quote(name+".utf-8")
		}
		return input(hint, "%s is UTF-16 text, Python source is UTF-8", name)
	}
	if at := bytes.IndexByte(code, 0); at >= 0 {
		hint := "put data into a file of its own and hand it in: brig run --file DATA PROGRAM"
		if named {
			hint = "look at it: file " + quote(name)
		}
		return input(hint, "%s has a NUL byte in line %d: it is not source text", name, lineOf(code, at))
	}
	if utf8.Valid(code) || coding.Match(code) {
		return nil
	}
	at := 0
	for at < len(code) {
		r, n := utf8.DecodeRune(code[at:])
		if r == utf8.RuneError && n == 1 {
			break
		}
		at += n
	}
	hint := "name its encoding in the first line: # coding: latin-1"
	if named {
		hint = "save it as UTF-8, or " + hint
	}
	return input(hint,
		"%s is not UTF-8: byte 0x%02x in line %d", name, code[at], lineOf(code, at))
}

func lineOf(code []byte, at int) int { return 1 + bytes.Count(code[:at], []byte("\n")) }

// errSpecial is a file that is neither regular nor a directory.
var errSpecial = errors.New("it is a device, a socket or a pipe")

// errDirectory is a directory where a file was wanted.
var errDirectory = errors.New("it is a directory")

// openRegular opens a regular file for reading and never waits for a pipe's other end.
func openRegular(name string) (*os.File, fs.FileInfo, error) {
	info, err := os.Stat(name)
	if err != nil {
		return nil, nil, err
	}
	if err := regular(info); err != nil {
		return nil, nil, err
	}
	f, err := os.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil, err
	}
	// What was opened counts, not what was looked at before.
	if info, err = f.Stat(); err == nil {
		err = regular(info)
	}
	if err != nil {
		f.Close()
		return nil, nil, err
	}
	return f, info, nil
}

func regular(info fs.FileInfo) error {
	switch {
	case info.Mode().IsRegular():
		return nil
	case info.IsDir():
		return errDirectory
	default:
		return errSpecial
	}
}

// explainFile says in one sentence why a file cannot be taken.
func explainFile(name string, err error, special string) error {
	hint := "ls -l " + quote(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return input("ls "+quote(dirOf(name)), "%s does not exist", name)
	case errors.Is(err, fs.ErrPermission):
		return input(hint, "%s may not be read: %s", name, because(err))
	case errors.Is(err, errDirectory):
		return input("ls "+quote(name), "%s cannot be run: it is a directory", name)
	case errors.Is(err, errSpecial):
		return input(special, "%s is not a regular file: %s", name, err)
	default:
		return input(hint, "%s could not be read: %s", name, because(err))
	}
}
