package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"

	"github.com/rs/zerolog"
)

const (
	logBytes = 10 << 20 // after which a new file is begun
	logFiles = 5        // that are kept, the present one included
	logName  = "brig.log"
)

// journal is the log of a brig that stays: JSON in files that rotate, and on a
// terminal in short. Messages are constant; what agents, engines and clients said is
// in fields, which both forms escape.
type journal struct {
	zerolog.Logger
	file *rotating
}

func openJournal(dir string, s *stream, verbose bool) (*journal, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make the directory of the log: %w", err)
	}
	file := &rotating{path: filepath.Join(dir, logName), most: logBytes, keep: logFiles}
	if err := file.open(); err != nil {
		return nil, err
	}
	var w io.Writer = file
	if s.terminal {
		w = zerolog.MultiLevelWriter(file, consoleOf(s.w, s.colour))
	}
	level := zerolog.InfoLevel
	if verbose {
		level = zerolog.DebugLevel
	}
	return &journal{zerolog.New(w).Level(level).With().Timestamp().Logger(), file}, nil
}

// consoleOf is the form for terminals. What is in a line could do more there than
// print, so every part of it is escaped, whoever it is from.
func consoleOf(w io.Writer, colour bool) zerolog.ConsoleWriter {
	plain := func(v any) string {
		if v == nil {
			return ""
		}
		return escapeLine(fmt.Sprint(v))
	}
	value := func(v any) string {
		if text, ok := v.([]byte); ok { // of objects and lists, as JSON
			return escapeLine(string(text))
		}
		return plain(v)
	}
	return zerolog.ConsoleWriter{
		Out: w, NoColor: !colour, FormatMessage: plain, FormatFieldValue: value, FormatErrFieldValue: value,
		FormatFieldName:    func(v any) string { return plain(v) + "=" },
		FormatErrFieldName: func(v any) string { return plain(v) + "=" },
	}
}

func (j *journal) close() error { return j.file.close() }

// rotating is a file that gives way to a new one when it is full. A line that cannot
// be written is lost: a full disk must not stop brig.
type rotating struct {
	path string
	most int64
	keep int

	mu   sync.Mutex
	file *os.File // guarded by mu, as size; nil after close
	size int64
}

// open begins or goes on with the file; the caller holds mu, or is alone.
func (r *rotating) open() error {
	f, err := os.OpenFile(r.path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("open the log: %w", err)
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("open the log: %s is no ordinary file", r.path)
	}
	if err == nil && info.Mode().Perm()&0o077 != 0 {
		err = f.Chmod(0o600)
	}
	if err != nil {
		return errors.Join(err, f.Close())
	}
	r.file, r.size = f, info.Size()
	return nil
}

// Write never fails.
func (r *rotating) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.file == nil {
		return len(p), nil
	}
	if r.size > 0 && r.size+int64(len(p)) > r.most {
		r.rotate()
	}
	n, _ := r.file.Write(tameJSON(p)) // people look at it with a terminal too
	r.size += int64(n)
	return len(p), nil
}

// rotate gives every file the next number. Where that fails the present one goes on.
func (r *rotating) rotate() {
	for i := r.keep - 1; i > 0; i-- {
		from := r.path
		if i > 1 {
			from = fmt.Sprintf("%s.%d", r.path, i-1)
		}
		_ = os.Rename(from, fmt.Sprintf("%s.%d", r.path, i)) // the first times it is not there
	}
	old := r.file
	if err := r.open(); err != nil {
		r.file, r.size = old, 0
		return
	}
	_ = old.Close()
}

func (r *rotating) close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.file == nil {
		return nil
	}
	f := r.file
	r.file = nil
	return f.Close()
}
