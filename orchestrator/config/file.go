package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"unicode/utf8"
)

// mostBytes bounds the settings file. The example with every key has a tenth of it.
const mostBytes = 64 << 10

// readFile reads the settings file, if it is one that only its owner or root can
// change: whoever else could write it could switch the sandbox off.
func readFile(path, home string, named bool) (data []byte, ok bool, _ *Problem) {
	bad := func(err error, suggestion, format string, args ...any) ([]byte, bool, *Problem) {
		return nil, true, &Problem{Source: path, Text: fmt.Sprintf(format, args...), Suggestion: suggestion, Err: err}
	}
	if problem := guardWay(filepath.Dir(path), home); problem != nil {
		return nil, true, problem
	}
	f, err := os.OpenFile(path, os.O_RDONLY|openFlags, 0)
	switch {
	case errors.Is(err, fs.ErrNotExist) && !named:
		return nil, false, nil
	case errors.Is(err, fs.ErrNotExist):
		return bad(err, "name another one or none", "there is no such file")
	case errors.Is(err, fs.ErrPermission):
		return bad(err, "", "it cannot be read: permission denied")
	case err != nil:
		return bad(err, "", "it cannot be opened")
	}
	defer f.Close() // opened for reading: nothing can be lost
	info, err := f.Stat()
	if err != nil {
		return bad(err, "", "it cannot be examined")
	}
	if !info.Mode().IsRegular() {
		return bad(nil, "", "it is not a regular file")
	}
	if problem := guardEntry(path, info); problem != nil {
		return nil, true, problem
	}
	if problem := guardTarget(path, home); problem != nil {
		return nil, true, problem
	}
	data, err = io.ReadAll(io.LimitReader(f, mostBytes+1))
	switch {
	case err != nil:
		return bad(err, "", "it cannot be read")
	case len(data) > mostBytes:
		return bad(nil, "", "it is larger than 64KiB, which no settings file is")
	case bytes.HasPrefix(data, []byte{0xff, 0xfe}), bytes.HasPrefix(data, []byte{0xfe, 0xff}):
		return bad(nil, "save it as UTF-8", "it is UTF-16")
	case bytes.HasPrefix(data, []byte{0xef, 0xbb, 0xbf}):
		return bad(nil, "save it as UTF-8 without one", "it begins with a byte order mark")
	case bytes.IndexByte(data, 0) >= 0:
		return bad(nil, "save it as UTF-8 text", "line %d contains a NUL byte", line(data, bytes.IndexByte(data, 0)))
	case !utf8.Valid(data):
		return bad(nil, "save it as UTF-8", "line %d is not UTF-8", line(data, invalid(data)))
	}
	return data, true, nil
}

// guardWay refuses directories in which others could put another one in the
// place of dir, and with it other settings or none: dir and what is above it, up
// to the home directory, or to the top where that is not on the way. Whoever owns
// the home directory's own parent is the administrator. One that does not exist is
// no problem here.
func guardWay(dir, home string) *Problem {
	ways := []string{dir}
	if real, err := filepath.EvalSymlinks(dir); err == nil && real != dir {
		ways = append(ways, real)
	}
	stops := []string{home}
	if real, err := filepath.EvalSymlinks(home); err == nil {
		stops = append(stops, real)
	}
	for _, way := range ways {
		for at := way; ; at = filepath.Dir(at) {
			if info, err := os.Stat(at); err == nil { // else opening the file says it better
				if problem := guardEntry(at, info); problem != nil {
					return problem
				}
			}
			if slices.Contains(stops, at) || at == filepath.Dir(at) {
				break
			}
		}
	}
	return nil
}

// guardTarget looks at the way to the file itself, where path is a link.
func guardTarget(path, home string) *Problem {
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return &Problem{Source: path, Text: "the link cannot be followed", Err: err}
	}
	return guardWay(filepath.Dir(real), home)
}

func guardEntry(path string, info fs.FileInfo) *Problem {
	text, remedy := exposed(path, info)
	if text == "" {
		return nil
	}
	return &Problem{Source: path, Text: text + ", so somebody else could weaken the sandbox", Suggestion: remedy, Err: fs.ErrPermission}
}

func line(data []byte, at int) int { return 1 + bytes.Count(data[:at], []byte("\n")) }

// invalid is where the first bytes stand that are no UTF-8.
func invalid(data []byte) int {
	at := 0
	for at < len(data) {
		r, n := utf8.DecodeRune(data[at:])
		if r == utf8.RuneError && n == 1 {
			break
		}
		at += n
	}
	return at
}
