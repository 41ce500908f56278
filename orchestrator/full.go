package orchestrator

import (
	"errors"
	"fmt"

	"brig/orchestrator/sandbox"
	"brig/orchestrator/workspace"
)

// stillFull says, from the first instance on that ended over its workspace's limit
// until the workspace is within it again, how to get there: code can delete what it
// wrote, and so can whoever holds the session's files. Without it every run would
// end for a reason that only the first result gave.
//
// once: the run was a whole program. Where the workspace goes with the session,
// nobody comes to delete anything in it.
func (s *Session) stillFull(cause sandbox.Cause, once bool) string {
	if once && s.home.dir != "" {
		return ""
	}
	s.mu.Lock()
	s.filled = s.filled || cause == sandbox.DiskOut
	filled := s.filled
	s.mu.Unlock()
	if !filled {
		return ""
	}
	used, _, err := s.files.Usage()
	limit := s.files.Limits().Bytes
	switch {
	case errors.Is(err, workspace.ErrTooMany):
		return fmt.Sprintf("the workspace holds too many files: delete some in %s, or with code", s.files.Dir())
	case errors.Is(err, workspace.ErrTooDeep):
		return fmt.Sprintf("the workspace's directories are nested deeper than %d: delete some in %s, or with code", workspace.MaxNesting, s.files.Dir())
	case err != nil:
		return "" // it may be closing; the next run looks again
	case used > limit:
		return fmt.Sprintf("the workspace holds %s, its limit is %s: delete files in %s, or with code", size(used), size(limit), s.files.Dir())
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.filled = false
	return ""
}
