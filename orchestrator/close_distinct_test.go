package orchestrator

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"brig/orchestrator/sandbox"
)

// What could not be removed is said once, in whatever words it comes again, and
// nothing else is lost with it.
func TestDistinct(t *testing.T) {
	left := func(name string, err error) error {
		return fmt.Errorf("close instance i: %w", &sandbox.LeftBehind{What: []string{"container " + name}, Err: err})
	}
	busy := errors.New("the disk is busy")
	got := distinct([]error{
		nil, left("a", context.DeadlineExceeded), left("a", errors.New("remove the container: no answer")),
		left("b", context.DeadlineExceeded), busy, busy,
		errors.Join(left("a", context.DeadlineExceeded), errors.New("and more")),
	})
	text := errors.Join(got...).Error()
	if len(got) != 4 || strings.Count(text, "container b") != 1 || strings.Count(text, "busy") != 1 || !strings.Contains(text, "and more") {
		t.Errorf("%d errors: %s", len(got), text)
	}
}
