package workspace

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
)

// What a caller may branch on. Besides these, fs.ErrNotExist, fs.ErrPermission
// and os.ErrClosed keep their meaning.
var (
	ErrName       = errors.New("unusable name")
	ErrEscapes    = errors.New("leads out of the workspace")
	ErrNotRegular = errors.New("not a regular file")
	ErrLinked     = errors.New("more than one link")
	ErrTooLarge   = errors.New("too large")
	ErrQuota      = errors.New("workspace quota exceeded")
	ErrNoSpace    = errors.New("no space left on the disk")
	ErrTooMany    = errors.New("too many files")
	ErrTooDeep    = errors.New("directories are nested too deeply")
	ErrBusy       = errors.New("in use")
	ErrRange      = errors.New("not a part of the file")
)

// Error is what every method of this package returns when it fails. Its text is
// one clear sentence without any host path; the name in it is quoted, so that
// control characters in a hostile name do no harm on a terminal.
type Error struct {
	Op   string // put, get, list, remove, copy, measure, open
	Name string // in the workspace; empty for the whole of it
	Kind error  // one of the sentinels above, or nil
	Why  string // the sentence's end; empty means the text of Kind or Err
	Err  error  // the operating system's error, or nil
}

// Full says that an error of the operating system means that a disk is full.
func Full(err error) bool {
	_, kind := classify(err)
	return kind == ErrNoSpace || errors.Is(err, ErrNoSpace)
}

func (e *Error) Error() string {
	if e.Name == "" {
		return fmt.Sprintf("%s the workspace: %s", e.Op, e.text())
	}
	return fmt.Sprintf("%s %q: %s", e.Op, e.Name, e.text())
}

// text is the end of the sentence.
func (e *Error) text() string {
	switch {
	case e.Why != "":
		return e.Why
	case e.Kind != nil:
		return e.Kind.Error()
	case e.Err != nil:
		return e.Err.Error()
	}
	return "failed"
}

// Unwrap gives both the kind and the cause to errors.Is.
func (e *Error) Unwrap() []error {
	var out []error
	for _, err := range []error{e.Kind, e.Err} {
		if err != nil {
			out = append(out, err)
		}
	}
	return out
}

// fail turns an error of the operating system into an *Error; one that already
// is an *Error passes unchanged.
func (w *Workspace) fail(op, name string, err error) error {
	var done *Error
	if err == nil || errors.As(err, &done) {
		return err
	}
	inner := bare(err)
	e := &Error{Op: op, Name: name, Err: inner}
	switch {
	case w.escape != nil && errors.Is(inner, w.escape):
		e.Kind, e.Why = ErrEscapes, ErrEscapes.Error()
	case errors.Is(inner, fs.ErrNotExist):
		e.Why = "no such file or directory"
	case errors.Is(inner, fs.ErrPermission):
		e.Why = "permission denied"
	case errors.Is(inner, os.ErrClosed):
		e.Why = "the workspace is closed"
	default:
		e.Why, e.Kind = classify(inner)
	}
	return e
}

// bare strips the wrappers that repeat paths.
func bare(err error) error {
	for {
		var path *fs.PathError
		var link *os.LinkError
		var call *os.SyscallError
		switch {
		case errors.As(err, &path):
			err = path.Err
		case errors.As(err, &link):
			err = link.Err
		case errors.As(err, &call):
			err = call.Err
		default:
			return err
		}
	}
}

// escapeOf learns the error by which os.Root refuses a name that leads out: the
// standard library has no exported name for it, and text is no basis to branch on.
func escapeOf(root *os.Root) (error, error) {
	_, err := root.Lstat("..")
	var path *fs.PathError
	if !errors.As(err, &path) {
		return nil, fmt.Errorf("os.Root resolved a parent directory: %w", errors.ErrUnsupported)
	}
	return path.Err, nil
}

// kindOf names what a mode stands for, for sentences.
func kindOf(mode fs.FileMode) string {
	switch mode.Type() {
	case 0:
		return "a regular file"
	case fs.ModeDir:
		return "a directory"
	case fs.ModeSymlink:
		return "a symbolic link"
	case fs.ModeNamedPipe:
		return "a named pipe"
	case fs.ModeSocket:
		return "a socket"
	}
	if mode&fs.ModeDevice != 0 {
		return "a device"
	}
	return "a special file"
}

func notRegular(op, name string, mode fs.FileMode) error {
	return &Error{Op: op, Name: name, Kind: ErrNotRegular, Why: "it is " + kindOf(mode) + ", not a regular file"}
}

// size writes a byte count for people.
func size(n int64) string {
	for _, u := range []struct {
		bytes int64
		name  string
	}{{1 << 40, "TiB"}, {1 << 30, "GiB"}, {1 << 20, "MiB"}, {1 << 10, "KiB"}} {
		if n >= u.bytes {
			return strings.TrimSuffix(fmt.Sprintf("%.1f", float64(n)/float64(u.bytes)), ".0") + " " + u.name
		}
	}
	return fmt.Sprintf("%d bytes", n)
}
