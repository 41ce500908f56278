package owner

import (
	"errors"
	"fmt"
	"io"
	"os"

	"brig/orchestrator/private"
)

// TryLock takes the exclusive lock of the file of that name, which is made if it is
// missing and stays. It does not wait: nil and no error mean that another process, or
// another caller of this one, holds it. Closing gives the lock up, and so does the
// end of the process, however it ends. On a system without file locks the error is
// an errors.ErrUnsupported.
func TryLock(path string) (io.Closer, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the lock file: %w", err)
	}
	held, err := private.TryLock(f)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("lock %s: %w", path, err), f.Close())
	}
	if !held {
		return nil, f.Close()
	}
	return f, nil
}
