package workspace

// Batch lets the puts that begin until done is called share one measurement of
// the workspace, which otherwise each of them makes: for many small files that is
// most of the work. What code writes meanwhile is seen only where the account says
// that there is no room, and after every remeasure bytes of one put; so it is for a
// caller who knows that no code writes here now. done is idempotent.
func (w *Workspace) Batch() (done func()) {
	l := &w.ledger
	l.mu.Lock()
	defer l.mu.Unlock()
	l.batches++
	over := false
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if over {
			return
		}
		over = true
		if l.batches--; l.batches == 0 {
			l.measured = false
		}
	}
}

// measured says that a put may rely on an earlier measurement, and opens its account by it.
func (m *meter) measured() bool {
	l := &m.w.ledger
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.batches == 0 || !l.measured || l.baseFiles+l.doneFiles+l.puts > m.w.limits.Files || m.fits(0) != nil {
		return false
	}
	m.due = remeasure
	return true
}

// anew measures again where an earlier measurement, which a batch relied on, says
// that there is no room; false: this put has just measured, or is in no batch.
func (m *meter) anew() bool {
	l := &m.w.ledger
	l.mu.Lock()
	batch := l.batches > 0
	l.mu.Unlock()
	return batch && m.measure() == nil
}
