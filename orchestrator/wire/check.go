package wire

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"unicode/utf8"
)

// Bounds of control messages beyond the size of the frame itself.
const (
	maxDepth   = 16
	maxName    = 256      // a code, a MIME kind, a version
	maxText    = 16 << 10 // one line of text, a path, mount options
	maxEntries = 256      // of a list or a map in Ready
	maxSignal  = 128
	// MaxParts is the largest number of representations in one display.
	MaxParts = 32
	// MaxDisplays is the largest number of displays of one run.
	MaxDisplays = 10_000
)

// quoted makes hostile text fit for an error message.
func quoted(s string) string {
	const most = 40
	if len(s) > most {
		return fmt.Sprintf("%q…", s[:most])
	}
	return fmt.Sprintf("%q", s)
}

// first returns the first error.
func first(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

func badID(what, id string) error {
	ok := len(id) >= 1 && len(id) <= 64
	for _, c := range []byte(id) {
		ok = ok && (c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '-')
	}
	if !ok {
		return fmt.Errorf("%s %s is not 1 to 64 of [A-Za-z0-9_-]", what, quoted(id))
	}
	return nil
}

func badRun(id RunID) error { return badID("run id", string(id)) }

func tooLong(what, s string, most int) error {
	if len(s) > most {
		return fmt.Errorf("%s has %d bytes, at most %d", what, len(s), most)
	}
	return nil
}

// badWord refuses what is not short printable ASCII without spaces and quotes.
func badWord(what, s string) error {
	ok := s != "" && len(s) <= maxName
	for _, c := range []byte(s) {
		ok = ok && c > ' ' && c < 0x7f && c != '"' && c != '\\'
	}
	if !ok {
		return fmt.Errorf("%s %s is not a word", what, quoted(s))
	}
	return nil
}

func outside(what string, n, low, high int64) error {
	if n < low || n > high {
		return fmt.Errorf("%s is %d, want %d to %d", what, n, low, high)
	}
	return nil
}

func negative(what string, n int64) error {
	if n < 0 {
		return fmt.Errorf("%s is negative: %d", what, n)
	}
	return nil
}

func (m Hello) check() error {
	return first(
		tooLong("workspace", m.Workspace, maxText), tooLong("scratch", m.Scratch, maxText),
		m.checkLease(), negative("silence_ns", int64(m.Silence)),
		negative("bounds.kept", m.Bounds.Kept), negative("bounds.logged", m.Bounds.Logged), negative("bounds.display", m.Bounds.Display),
	)
}

// checkLease wants a secret with a lease and none without.
func (m Hello) checkLease() error {
	if m.Lease <= 0 {
		return first(negative("lease_ns", int64(m.Lease)), tooLong("resume without a lease", m.Resume, 0))
	}
	ok := len(m.Resume) == 64
	for _, c := range []byte(m.Resume) {
		ok = ok && (c >= '0' && c <= '9' || c >= 'a' && c <= 'f')
	}
	if !ok {
		return errors.New("resume is not 64 lower-case hex digits") // and is not repeated: it may be a secret
	}
	return nil
}

func (m RunMessage) check() error {
	for _, a := range m.Argv {
		if strings.ContainsRune(a, 0) {
			return fmt.Errorf("argv holds a NUL")
		}
	}
	return first(
		badRun(m.ID), badStream("code", m.Code), outside("size", m.Size, 0, MaxCode), tooLong("filename", m.Filename, maxText),
		negative("limit_ns", int64(m.Limit)),
	)
}

func (m CallMessage) check() error {
	if m.In != 0 {
		if err := badStream("in", m.In); err != nil {
			return err
		}
	}
	if m.Args.Run != "" {
		if err := badRun(m.Args.Run); err != nil {
			return err
		}
	}
	return first(
		badID("call id", m.ID), badWord("op", string(m.Op)), tooLong("path", m.Args.Path, maxText), tooLong("after", m.Args.After, maxText), negative("limit", int64(m.Args.Limit)),
		tooLong("timezone", m.Args.Timezone, maxName), tooLong("locale", m.Args.Locale, maxName),
	)
}

// badStream checks what both sides have in common; the Mux checks parity and order.
func badStream(what string, id uint32) error {
	if id < firstStream {
		return fmt.Errorf("%s is the fixed stream %d", what, id)
	}
	return nil
}

func (m StartedMessage) check() error { return badRun(m.Run) }

func (m GapMessage) check() error {
	if _, ok := outputStream(m.Name); !ok {
		return fmt.Errorf("name %s is not an output stream", quoted(m.Name))
	}
	return first(badRun(m.Run), outside("bytes", m.Bytes, 1, 1<<62))
}

func outputStream(name string) (uint32, bool) {
	switch name {
	case "stdout":
		return StreamStdout, true
	case "stderr":
		return StreamStderr, true
	}
	return 0, false
}

func (m DisplayMessage) check() error {
	switch m.Role {
	case "result", "display", "figure":
	default:
		return fmt.Errorf("unknown role %s", quoted(m.Role))
	}
	if err := first(badRun(m.Run), outside("number of parts", int64(len(m.Bundle)), 1, MaxParts)); err != nil {
		return err
	}
	var total int64
	for _, p := range m.Bundle {
		if err := p.check(); err != nil {
			return err
		}
		total += p.Size
	}
	return outside("size of the bundle", total, 0, MaxBundle)
}

func (p BundlePart) check() error {
	if err := first(badWord("mime", p.MIME), outside("size", p.Size, 0, MaxBundle)); err != nil {
		return err
	}
	if !strings.Contains(p.MIME, "/") {
		return fmt.Errorf("mime %s has no slash", quoted(p.MIME))
	}
	if p.Text == nil {
		return badStream("stream", p.Stream)
	}
	if p.Stream != 0 {
		return fmt.Errorf("part %s has both text and a stream", p.MIME)
	}
	if int64(len(*p.Text)) != p.Size || p.Size > MaxInline || !utf8.ValidString(*p.Text) {
		return fmt.Errorf("part %s has %d bytes of text, says %d, at most %d inline", p.MIME, len(*p.Text), p.Size, MaxInline)
	}
	return nil
}

func (m ReplyMessage) check() error {
	if err := badID("call id", m.ID); err != nil {
		return err
	}
	if m.Error != nil {
		if m.Out != 0 {
			return fmt.Errorf("an error with an output stream")
		}
		return first(badWord("error code", m.Error.Code), tooLong("error message", m.Error.Message, maxText))
	}
	if m.Out != 0 {
		return badStream("out", m.Out)
	}
	return nil
}

func (c Count) check(name string) error {
	if c.Incomplete || c.Total < 0 || c.Kept < 0 || c.Dropped < 0 || c.Kept > c.Total || c.Total-c.Kept != c.Dropped {
		return fmt.Errorf("%s: total %d is not kept %d plus dropped %d", name, c.Total, c.Kept, c.Dropped)
	}
	return nil
}

func (m Exit) check() error {
	if err := first(m.checkOutcome(), badRun(m.Run), outside("status", int64(m.Status), 0, 255), outside("signal", int64(m.Signal), 0, maxSignal),
		m.Stdout.check("stdout"), m.Stderr.check("stderr"), outside("displays", int64(m.Displays), 0, MaxDisplays), negative("elapsed_ns", int64(m.Elapsed)),
		negative("oom_kills", int64(m.OOMKills)), negative("swept", int64(m.Swept)),
	); err != nil {
		return err
	}
	switch m.Exceeded {
	case "", ExceededDisplays, ExceededTime:
	default:
		return fmt.Errorf("unknown bound %s", quoted(string(m.Exceeded)))
	}
	switch m.State {
	case StateKept, StateLost, StateEnded:
	default:
		return fmt.Errorf("unknown state %s", quoted(string(m.State)))
	}
	if m.Log != nil {
		if !fs.ValidPath(m.Log.Path) || m.Log.Path == "." || strings.ContainsRune(m.Log.Path, 0) {
			return fmt.Errorf("log path %s is not inside the workspace", quoted(m.Log.Path))
		}
		return first(tooLong("log path", m.Log.Path, maxText), tooLong("log error", m.Log.Error, maxText), negative("log.bytes", m.Log.Bytes), negative("log.dropped", m.Log.Dropped))
	}
	return nil
}

// checkOutcome makes sure that each outcome comes with what it needs and that
// nothing contradicts a success.
func (m Exit) checkOutcome() error {
	if m.Exception != nil {
		if err := m.Exception.check(); err != nil {
			return err
		}
	}
	ok := true
	switch m.Outcome {
	case OutcomeOK:
		ok = m.Status == 0 && m.Signal == 0 && m.Exception == nil
	case OutcomeException:
		ok = m.Exception != nil
	case OutcomeSignal:
		ok = m.Signal > 0
	case OutcomeExit, OutcomeInterrupted:
	default:
		return fmt.Errorf("unknown outcome %s", quoted(string(m.Outcome)))
	}
	if !ok {
		return fmt.Errorf("outcome %s with status %d, signal %d, exception %t", m.Outcome, m.Status, m.Signal, m.Exception != nil)
	}
	return nil
}

func (e *Exception) check() error {
	if err := first(tooLong("exception name", e.Name, maxText), outside("number of frames", int64(len(e.Frames)), 0, maxEntries)); err != nil {
		return err
	}
	for _, f := range e.Frames {
		if err := first(tooLong("file", f.File, maxText), tooLong("name", f.Name, maxText), tooLong("text", f.Text, maxText), negative("line", int64(f.Line))); err != nil {
			return err
		}
	}
	return nil
}

func (m Ready) check() error {
	o := m.Observed
	if err := first(
		badWord("runner", m.Runner), tooLong("python", m.Python, maxName), tooLong("implementation", m.Implementation, maxName),
		tooLong("executable", m.Executable, maxText), outside("number of packages", int64(len(m.Packages)), 0, maxEntries),
		negative("pid", int64(o.PID)), outside("uid", int64(o.UID), -1, 1<<32), outside("gid", int64(o.GID), -1, 1<<32),
		outside("dumpable", int64(o.Dumpable), -1, 2),
		negative("bounds", min(o.Bounds.Kept, o.Bounds.Logged, o.Bounds.Display)),
		outside("number of entries", int64(max(len(o.Status), len(o.Mounts), len(o.Interfaces), len(o.Rlimits), len(o.Cgroup), len(o.Attempts), len(o.Environ), len(o.Devices))), 0, maxEntries),
		tooLong("uid_map", o.UIDMap, maxText), tooLong("kernel", o.Kernel, maxText), tooLong("apparmor", o.AppArmor, maxText),
	); err != nil {
		return err
	}
	for what, names := range map[string][]string{"package": m.Packages, "variable": o.Environ, "device": o.Devices} {
		for _, name := range names {
			if err := tooLong(what, name, maxName); err != nil {
				return err
			}
		}
	}
	for _, l := range o.Rlimits {
		if l.Soft < -1 || l.Hard < -1 {
			return fmt.Errorf("rlimit below -1")
		}
	}
	for _, texts := range []map[string]string{o.Status, o.Cgroup, o.Attempts} {
		for k, v := range texts {
			if err := first(tooLong("name", k, maxName), tooLong(k, v, maxText)); err != nil {
				return err
			}
		}
	}
	return nil
}
