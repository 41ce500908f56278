package service

import (
	"sync"
	"time"
)

// writableFor is how long an answer of Writable is believed.
const writableFor = 2 * time.Second

// writable is the latest answer of Writable.
type writable struct {
	mu    sync.Mutex // held while the disk is asked: whoever comes meanwhile wants the same answer
	asked time.Time  // guarded by mu, as err
	err   error
}

// Writable says why nothing can be written down now, such as a full disk: nothing
// new is begun then. It asks the disk, at most once in two seconds.
func (s *Service) Writable() error {
	w := &s.writable
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.asked.IsZero() || time.Since(w.asked) >= writableFor {
		w.err, w.asked = s.options.Store.Writable(), time.Now()
	}
	return w.err
}
