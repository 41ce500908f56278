package service

import (
	"path"
	"sync"
)

const (
	// smallMost is how large a file may be to be put beside others, in bytes.
	smallMost = 256 << 10
	// smallAtOnce is how many are put at the same time: most of what each costs is
	// waiting for the disk.
	smallAtOnce = 16
)

// small puts the small files of an archive at the same time, and none of them
// where an earlier one may be on its way: of two files of a name the later one counts.
// One goroutine uses it.
type small struct {
	slots chan struct{}
	work  sync.WaitGroup
	files map[string]bool // on their way
	above map[string]bool // directories that they are in

	mu  sync.Mutex
	err error // guarded by mu: the first
}

func newSmall() *small {
	return &small{slots: make(chan struct{}, smallAtOnce), files: map[string]bool{}, above: map[string]bool{}}
}

// meets says that a file or directory of that name is not independent of what is on its way.
func (s *small) meets(name string) bool {
	if s.files[name] || s.above[name] {
		return true
	}
	for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
		if s.files[dir] {
			return true
		}
	}
	return false
}

// do calls put soon. An earlier one's error comes back here, or from settle.
func (s *small) do(name string, put func() error) error {
	s.mu.Lock()
	err := s.err
	s.mu.Unlock()
	if err != nil {
		return err
	}
	s.files[name] = true
	for dir := path.Dir(name); dir != "." && !s.above[dir]; dir = path.Dir(dir) {
		s.above[dir] = true
	}
	s.slots <- struct{}{}
	s.work.Go(func() {
		defer func() { <-s.slots }()
		if err := put(); err != nil {
			s.mu.Lock()
			defer s.mu.Unlock()
			if s.err == nil {
				s.err = err
			}
		}
	})
	return nil
}

// settle waits for all that is on its way.
func (s *small) settle() error {
	s.work.Wait()
	clear(s.files)
	clear(s.above)
	return s.err
}
