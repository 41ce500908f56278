package sandboxtest

import (
	"os"
	"path"
	"sync"

	"brig/orchestrator/wire"
)

// lateBound is how much output between two runs the fake passes on per stream, in bytes.
const lateBound = 64 << 10

// bounded is one output of one run: the head is sent as it comes, the rest is
// held back as a tail, and what fits into neither is counted and dropped.
type bounded struct {
	mu    sync.Mutex
	send  func([]byte) error
	log   *runLog
	half  int64
	total int64
	tail  []byte
	lost  int64
}

func newBounded(kept int64, log *runLog, send func([]byte) error) *bounded {
	return &bounded{half: kept / 2, log: log, send: send}
}

// Write takes everything; only a broken connection is an error.
func (b *bounded) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := len(p)
	b.log.write(p)
	if room := b.half - b.total; room > 0 {
		head := p[:min(int64(len(p)), room)]
		if err := b.send(head); err != nil {
			return 0, err
		}
		p = p[len(head):]
	}
	b.total += int64(n)
	b.tail = append(b.tail, p...)
	if int64(len(b.tail)) > 2*b.half {
		b.trim()
	}
	return n, nil
}

// trim drops what is too old for the tail; it is called at times, so that
// dropping costs no copy per write.
func (b *bounded) trim() {
	if over := int64(len(b.tail)) - b.half; over > 0 {
		b.lost += over
		b.tail = append(b.tail[:0], b.tail[over:]...)
	}
}

// finish sends the gap, if there is one, and the tail.
func (b *bounded) finish(gap func(bytes int64) error) (wire.Count, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.trim()
	count := wire.Count{Total: b.total, Kept: b.total - b.lost, Dropped: b.lost}
	if b.lost > 0 {
		if err := gap(b.lost); err != nil {
			return count, err
		}
	}
	tail := b.tail
	b.tail = nil
	if len(tail) == 0 {
		return count, nil
	}
	return count, b.send(tail)
}

// runLog is the full output of one run up to a bound. It becomes a file only
// when something was dropped.
type runLog struct {
	mu      sync.Mutex
	root    *os.Root
	path    string
	limit   int64
	text    []byte
	dropped int64
}

func (l *runLog) write(p []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	room := max(0, l.limit-int64(len(l.text)))
	part := p[:min(int64(len(p)), room)]
	l.text = append(l.text, part...)
	l.dropped += int64(len(p) - len(part))
}

// finish writes the file. Where that fails nothing was logged, and the account says so.
func (l *runLog) finish() *wire.Log {
	l.mu.Lock()
	defer l.mu.Unlock()
	account := &wire.Log{Path: l.path, Bytes: int64(len(l.text)), Dropped: l.dropped}
	err := l.root.MkdirAll(path.Dir(l.path), 0o700)
	if err == nil {
		err = l.root.WriteFile(l.path, l.text, 0o600)
	}
	if err != nil {
		account.Bytes, account.Dropped = 0, account.Bytes+account.Dropped
	}
	return account
}
