package orchestrator

// Observer hears what happens to sessions. Both functions may be nil.
type Observer struct {
	// Changed is told that a session is in another state or was used. It is called
	// with the session locked, so it must return at once and ask nothing of it.
	Changed func(*Session)
	// Bound is asked when a session has got an instance, before anything runs in it.
	// Its error refuses the instance: whoever has to write down where code will run
	// does so here. It is not asked about trials of the self-test.
	Bound func(*Session, Resolution, Stamp) error
}

// Observe has sessions tell of themselves from now on. It is called once, before
// any is opened.
func (o *Orchestrator) Observe(by Observer) { o.observer.Store(&by) }

// changed tells that the session is different; the caller holds mu.
func (s *Session) changed() {
	if by := s.o.observer.Load(); by != nil && by.Changed != nil {
		by.Changed(s)
	}
}

// approve asks whether the session may have the instance.
func (s *Session) approve(b bound) error {
	if by := s.o.observer.Load(); by != nil && by.Bound != nil && !s.spec.trial {
		return by.Bound(s, b.resolution, b.stamp)
	}
	return nil
}
