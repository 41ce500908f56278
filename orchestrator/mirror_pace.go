package orchestrator

import "time"

// What a link and both ends manage at the least; slower than that is a failure.
const (
	fileTime   = 5 * time.Millisecond // for a file by itself
	bytesTime  = 2 << 20              // bytes in a second
	pacePeriod = 100 * time.Millisecond
)

// time is how long what is planned may take: longer for more, but never for ever,
// because one of the sides says itself how much it has.
func (p plan) time(host, inside side) time.Duration {
	count, bytes := len(p.removeHost)+len(p.removeThem), int64(0)
	add := func(names []string, of side) {
		for _, name := range names {
			count++
			bytes += min(max(of.files[name].size, 0), 1<<40)
		}
	}
	add(p.push, host)
	add(p.pull, inside)
	add(p.both, host)
	add(p.both, inside)
	seconds := min(bytes/bytesTime, int64(carryMost/time.Second))
	return min(carryBound+time.Duration(count)*fileTime+time.Duration(seconds)*time.Second, carryMost)
}

// pace counts what has arrived.
type pace struct {
	total, done int
	told        time.Time
}

// follow begins to count the files of one transfer. The caller calls stop at its end.
func (m *mirror) follow(total int) (stop func()) {
	m.tell(func() { m.pace = pace{total: total} })
	return func() { m.tell(func() { m.pace = pace{} }) }
}

// arrived counts one file, whether it was carried or not.
func (m *mirror) arrived() { m.tell(func() { m.pace.done++ }) }

// tell changes the count and says it, though not each time.
func (m *mirror) tell(change func()) {
	m.pacing.Lock()
	defer m.pacing.Unlock()
	change()
	if now := time.Now(); m.progress != nil && (m.pace.total == 0 || now.Sub(m.pace.told) >= pacePeriod) {
		m.pace.told = now
		m.progress(m.pace.done, m.pace.total)
	}
}
