package workspace

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"sync"
)

// remeasure is after how many bytes of one put the workspace is measured again,
// because code may have filled it meanwhile.
const remeasure = 64 << 20

// ledger is the account of all puts of a workspace. What the workspace holds is
// at any moment the sum of three numbers, none of which overlaps another: what
// was measured, without what puts had finished by then and without unfinished
// files; what puts have finished; and what unfinished puts have reserved, each
// before it writes.
type ledger struct {
	// settling keeps a file from becoming final while the directory is measured,
	// so that a measurement meets each file of a put either as an unfinished one
	// or as a finished one. Puts write, and measure, at the same time; only the
	// rename at the end of one waits.
	settling sync.RWMutex

	mu         sync.Mutex
	base, done int64 // bytes: of the last measurement less done then; of finished puts
	held       int64 // bytes that unfinished puts have reserved
	baseFiles  int
	doneFiles  int
	unfinished map[string]fs.FileInfo // by the name of the temporary file
	puts       int                    // that are unfinished
	batches    int                    // that are open
	measured   bool                   // since the first of them was opened
}

// meter is the account of one put.
type meter struct {
	w    *Workspace
	name string
	own  int64  // bytes reserved
	due  int64  // measure again when own gets here
	temp string // name of the unfinished file, empty before it exists
	over bool
}

// meter opens the account of a new put. Whoever gets one ends it with refund, at the latest.
func (w *Workspace) meter(name string) (*meter, error) {
	m := &meter{w: w, name: name}
	l := &w.ledger
	l.mu.Lock()
	l.puts++
	l.mu.Unlock()
	if m.measured() {
		return m, nil
	}
	if err := m.measure(); err != nil {
		m.refund()
		return nil, err
	}
	return m, nil
}

// Room says whether a file of n bytes could be put at this moment, so that what
// cannot is refused before it travels. The errors are those of Put.
func (w *Workspace) Room(n int64) error {
	if n > w.limits.File {
		return &Error{Op: "put", Kind: ErrTooLarge, Why: "one file may have " + size(w.limits.File)}
	}
	m, err := w.meter("")
	if err != nil {
		return err
	}
	defer m.refund()
	return m.would(n)
}

// Free is how many bytes could be put at this moment, in files of any size.
func (w *Workspace) Free() (int64, error) {
	m, err := w.meter("")
	if err != nil {
		return 0, err
	}
	defer m.refund()
	l := &w.ledger
	l.mu.Lock()
	defer l.mu.Unlock()
	return max(0, w.limits.Bytes-l.base-l.done-l.held), nil
}

func (m *meter) would(n int64) error {
	m.w.ledger.mu.Lock()
	defer m.w.ledger.mu.Unlock()
	return m.fits(n)
}

// measure looks at the whole workspace anew.
func (m *meter) measure() error {
	l := &m.w.ledger
	l.settling.RLock()
	defer l.settling.RUnlock()
	used, files, err := m.w.usage(l.isUnfinished)
	l.mu.Lock()
	defer l.mu.Unlock()
	if err == nil {
		l.base, l.baseFiles = used-l.done, files-l.doneFiles
		m.due = m.own + remeasure
		l.measured = l.batches > 0
	}
	if errors.Is(err, ErrTooMany) || (err == nil && l.baseFiles+l.doneFiles+l.puts > m.w.limits.Files) {
		return &Error{Op: "put", Name: m.name, Kind: ErrQuota, Why: "the workspace holds too many files"}
	}
	if errors.Is(err, ErrTooDeep) {
		return &Error{Op: "put", Name: m.name, Kind: ErrQuota, Why: "its room cannot be told: " + nestedTooDeep()}
	}
	if err != nil {
		return err
	}
	return m.fits(0)
}

// isUnfinished says whether what a walk met is the unfinished file of a put. It
// asks for the very file: code may have put another one under the name.
func (l *ledger) isUnfinished(base string, info fs.FileInfo) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	temp, ok := l.unfinished[base]
	return ok && os.SameFile(temp, info)
}

// fits says whether n more bytes do. The caller holds the ledger.
func (m *meter) fits(n int64) error {
	l := &m.w.ledger
	if l.base+l.done+l.held+n > m.w.limits.Bytes {
		return &Error{
			Op: "put", Name: m.name, Kind: ErrQuota,
			Why: "the workspace would exceed its quota of " + size(m.w.limits.Bytes),
		}
	}
	return nil
}

// reserve takes n bytes before they are written.
func (m *meter) reserve(n int64) error {
	if m.own+n > m.w.limits.File {
		return &Error{Op: "put", Name: m.name, Kind: ErrTooLarge, Why: "one file may have " + size(m.w.limits.File)}
	}
	if m.own >= m.due {
		if err := m.measure(); err != nil {
			return err
		}
	}
	err := m.hold(n)
	if err != nil && m.anew() {
		err = m.hold(n)
	}
	return err
}

// hold notes n more bytes as taken if there is room for them.
func (m *meter) hold(n int64) error {
	m.w.ledger.mu.Lock()
	defer m.w.ledger.mu.Unlock()
	if err := m.fits(n); err != nil {
		return err
	}
	m.own += n
	m.w.ledger.held += n
	return nil
}

func (m *meter) copy(dst io.Writer, src io.Reader) error {
	buf := make([]byte, 64<<10)
	for {
		n, err := src.Read(buf)
		if n > 0 {
			if err := m.reserve(int64(n)); err != nil {
				return err
			}
			if _, err := dst.Write(buf[:n]); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return &Error{Op: "put", Name: m.name, Why: "reading the new content failed", Err: err}
		}
	}
}

// begin tells the ledger which file the put writes into.
func (m *meter) begin(temp string, f *os.File) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	l := &m.w.ledger
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.unfinished == nil {
		l.unfinished = make(map[string]fs.FileInfo)
	}
	l.unfinished[temp], m.temp = info, temp
	return nil
}

// settle makes the file final by calling rename, and turns what was reserved
// into the room that the file takes on the disk.
func (m *meter) settle(info fs.FileInfo, rename func() error) error {
	l := &m.w.ledger
	l.settling.Lock()
	defer l.settling.Unlock()
	if err := rename(); err != nil {
		return err
	}
	m.end(max(allocated(info), m.own), 1)
	return nil
}

// strand ends a put that failed and whose unfinished file could not be found or
// removed: it still takes the room.
func (m *meter) strand() {
	l := &m.w.ledger
	l.settling.Lock()
	defer l.settling.Unlock()
	m.end(m.own, 1)
}

// refund ends a put that left nothing; after another end it does nothing.
func (m *meter) refund() { m.end(0, 0) }

// end closes the account: in one step, so that nobody sees the room as free meanwhile.
func (m *meter) end(room int64, files int) {
	if m.over {
		return
	}
	m.over = true
	l := &m.w.ledger
	l.mu.Lock()
	defer l.mu.Unlock()
	l.held -= m.own
	l.puts--
	delete(l.unfinished, m.temp)
	l.done += room
	l.doneFiles += files
}
