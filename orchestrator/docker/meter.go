package docker

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"brig/orchestrator/sandbox"
)

// meter reads the counters of a container's control groups from outside, where
// nothing inside can forge them. It keeps the files open: a read costs
// microseconds, and needs no name that may mean another group later.
type meter struct {
	memory, forks *os.File // forks is nil where refusals are not counted
	source        string

	mu   sync.Mutex
	last sandbox.Counters // what was read last; a group that is gone has no other
	mark int64            // OOMKills when the runner last showed that it lives
}

var errNoOOMCount = errors.New("the kernel does not count kills at the memory limit there")

// read reads now, and what was read last where the group is gone.
func (m *meter) read() (sandbox.Counters, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	kills, err := counter(m.memory, "oom_kill")
	if err != nil {
		return m.last, err
	}
	now := sandbox.Counters{OOMKills: max(kills, m.last.OOMKills), ForkFailures: -1, Source: m.source}
	if m.forks != nil {
		if refused, err := counter(m.forks, "max"); err == nil {
			now.ForkFailures = max(refused, m.last.ForkFailures)
		}
	}
	m.last = now
	return now, nil
}

// lives notes that the runner has just shown that it lives.
func (m *meter) lives() {
	if m == nil {
		return
	}
	if now, err := m.read(); err == nil {
		m.mu.Lock()
		m.mark = now.OOMKills
		m.mu.Unlock()
	}
}

// killedSince tells whether the kernel has killed for memory since the runner last
// showed that it lives. It is worth asking only right after the end: the engine
// removes the group.
func (m *meter) killedSince() bool {
	if m == nil {
		return false
	}
	now, _ := m.read()
	m.mu.Lock()
	defer m.mu.Unlock()
	return now.OOMKills > m.mark
}

func (m *meter) close() {
	if m == nil {
		return
	}
	if m.memory != nil {
		_ = m.memory.Close()
	}
	if m.forks != nil {
		_ = m.forks.Close()
	}
}

// counter reads one line of a file of names and numbers.
func counter(f *os.File, name string) (int64, error) {
	var text [1024]byte
	n, err := f.ReadAt(text[:], 0)
	if n == 0 && err != nil {
		return 0, fmt.Errorf("read %s: %w", filepath.Base(f.Name()), err)
	}
	for line := range strings.Lines(string(text[:n])) {
		if fields := strings.Fields(line); len(fields) == 2 && fields[0] == name {
			return strconv.ParseInt(fields[1], 10, 64)
		}
	}
	return 0, errNoOOMCount
}
