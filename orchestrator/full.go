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
func (s *Session) stillFull(cause sandbox.Cause) string {
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
