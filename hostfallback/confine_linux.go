package hostfallback

import (
	"fmt"

	"brig/hostfallback/internal/sys"
)

// ourselves is the program that is started again as supervisor and helper.
func ourselves() (string, error) { return "/proc/self/exe", nil }

// supported says whether this system has a host sandbox at all.
func supported() error { return nil }

// shield keeps unconfined processes of the same user out of brig's own memory
// and environment. It costs core dumps.
func shield() error {
	if err := sys.Dumpable(false); err != nil {
		return fmt.Errorf("protect brig's own memory: %w", err)
	}
	return nil
}
