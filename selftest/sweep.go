package selftest

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"brig/orchestrator/owner"
)

// sweepYards removes what runs that were killed have left below root. A run that
// lives holds its lock, and is left alone.
func sweepYards(root string) error {
	sweepShared()
	entries, err := os.ReadDir(root)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("look for what earlier self-tests left: %w", err)
	}
	var errs []error
	for _, e := range entries {
		token, isLock := strings.CutSuffix(e.Name(), yardLock)
		if !isLock {
			continue
		}
		path := filepath.Join(root, e.Name())
		held, err := owner.TryLock(path)
		if err != nil {
			errs = append(errs, gone(err))
			continue
		}
		if held == nil {
			continue
		}
		if !stillThere(held, path) {
			errs = append(errs, held.Close())
			continue
		}
		killMarked(runMark + token)
		errs = append(errs, remains(filepath.Join(root, token)))
		// The lock goes last, so that a sweep which is killed is done again.
		removed := os.Remove(path)
		errs = append(errs, held.Close())
		if removed != nil {
			errs = append(errs, gone(os.Remove(path)))
		}
	}
	_ = os.Remove(root) // refused while a run is in it
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("remove what an earlier self-test left: %w", err)
	}
	return nil
}

// remains removes what the record of a yard names, and then the yard's directory.
func remains(dir string) error {
	var errs []error
	var missing []string
	if f, err := os.Open(filepath.Join(dir, yardRecord)); err == nil {
		lines := bufio.NewScanner(f)
		for lines.Scan() {
			var s stray
			// The last line may have been cut off; then nothing was made yet.
			if json.Unmarshal(lines.Bytes(), &s) != nil || !filepath.IsAbs(s.Path) {
				continue
			}
			name := filepath.Base(s.Path)
			switch {
			case s.Empty:
				missing = append(missing, s.Path)
			case strings.HasPrefix(name, strayName) || strings.HasPrefix(name, ownName):
				errs = append(errs, wipe(s.Path))
			}
		}
		errs = append(errs, lines.Err(), f.Close())
	} else if !errors.Is(err, os.ErrNotExist) {
		errs = append(errs, err)
	}
	for i := len(missing) - 1; i >= 0; i-- {
		_ = os.Remove(missing[i]) // refused once somebody uses it
	}
	errs = append(errs, wipe(dir))
	return errors.Join(errs...)
}

// wipe removes what there is, directories included that an attempt has closed.
func wipe(dir string) error {
	_ = filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			_ = os.Chmod(path, 0o700)
		}
		return nil
	})
	return os.RemoveAll(dir)
}
