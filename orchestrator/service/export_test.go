package service

const (
	WaitMost  = waitMost
	RunStream = runStream
)

// LookWhere looks at once where code would run.
func (s *Service) LookWhere() { s.lookWhere() }

// Forget has a run that has ended be found in the store alone.
func (s *Service) Forget(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.runs, id)
}
