package selftest

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"brig/orchestrator/owner"
)

// sweepYards removes what runs that were killed have left. A run that lives holds
// its locks, and is left alone.
func sweepYards(o Options) error {
	err := o.sweepRoot()
	// After the records, which know better: what is found now has lost its record.
	sweepShared()
	o.sweepUnrecorded()
	return err
}

// sweepRoot removes what runs with a directory below Root have left.
func (o Options) sweepRoot() error {
	entries, err := os.ReadDir(o.Root)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("look for what earlier self-tests left: %w", err)
	}
	var errs []error
	for _, e := range entries {
		token, isLock := strings.CutSuffix(e.Name(), yardLock)
		if !isLock || !isToken(token) || !e.Type().IsRegular() {
			continue
		}
		path := filepath.Join(o.Root, e.Name())
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
		errs = append(errs, o.remains(filepath.Join(o.Root, token)))
		// The lock goes last, so that a sweep which is killed is done again.
		removed := os.Remove(path)
		errs = append(errs, held.Close())
		if removed != nil {
			errs = append(errs, gone(os.Remove(path)))
		}
	}
	_ = os.Remove(o.Root) // refused while a run is in it
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("remove what an earlier self-test left: %w", err)
	}
	return nil
}

// remains removes what the record of a yard names, and then the yard's directory.
func (o Options) remains(dir string) error {
	named, err := recorded(dir)
	errs := []error{err}
	for _, s := range named {
		if !s.Empty && o.makes(s.Path) {
			errs = append(errs, wipe(s.Path))
		}
	}
	o.removeEmpty(named)
	errs = append(errs, wipe(dir))
	return errors.Join(errs...)
}

// recorded is what the record in a directory names.
func recorded(dir string) ([]stray, error) {
	f, err := os.Open(filepath.Join(dir, yardRecord))
	if err != nil {
		return nil, gone(err)
	}
	var named []stray
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		var s stray
		// The last line may have been cut off; then nothing was made yet.
		if json.Unmarshal(lines.Bytes(), &s) == nil {
			named = append(named, s)
		}
	}
	return named, errors.Join(lines.Err(), f.Close())
}

// makes tells whether a self-test makes things with that path. A record that names
// anything else is wrong, and nothing is removed by it.
func (o Options) makes(path string) bool {
	dir, name := filepath.Dir(path), filepath.Base(path)
	if !filepath.IsAbs(path) || path != filepath.Join(dir, name) {
		return false
	}
	if token, ok := strings.CutPrefix(name, strayName); ok && isToken(token) {
		return dir == sharedMemory || slices.Contains(sharedDirs(), dir)
	}
	if isMeeting(name) {
		return slices.Contains(meetingPlaces(), dir)
	}
	token, ok := strings.CutPrefix(name, ownName)
	return ok && isToken(token) && slices.Contains(o.ownDirs(), dir)
}

// removeEmpty removes the directories that were missing, the deepest first. Only
// those on the way to brig's own come into question, and one that is used stays.
func (o Options) removeEmpty(named []stray) {
	var missing []string
	for _, s := range named {
		if s.Empty && slices.ContainsFunc(o.ownDirs(), func(own string) bool { return above(s.Path, own) }) {
			missing = append(missing, s.Path)
		}
	}
	slices.SortFunc(missing, func(a, b string) int { return len(b) - len(a) })
	for _, dir := range missing {
		if info, err := os.Lstat(dir); err == nil && info.IsDir() {
			_ = os.Remove(dir) // refused once somebody uses it
		}
	}
}

// above tells whether dir is path or leads to it.
func above(dir, path string) bool {
	return filepath.IsAbs(dir) && (dir == path || strings.HasPrefix(path, dir+string(filepath.Separator)))
}

// ownDirs are brig's own directories.
func (o Options) ownDirs() []string {
	var dirs []string
	for _, dir := range o.Own {
		if filepath.IsAbs(dir) {
			dirs = append(dirs, filepath.Clean(dir))
		}
	}
	return dirs
}

// isToken tells whether s is what random(8) makes: whatever else stands in a shared
// place under a similar name is somebody's.
func isToken(s string) bool {
	return len(s) == 16 && strings.Trim(s, "0123456789abcdef") == ""
}

// wipe removes what there is, directories included that an attempt has closed. It
// leaves a symbolic link alone: a self-test makes none.
func wipe(dir string) error {
	if info, err := os.Lstat(dir); err != nil || info.Mode()&os.ModeSymlink != 0 {
		return gone(err)
	}
	_ = filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			_ = os.Chmod(path, 0o700)
		}
		return nil
	})
	err := os.RemoveAll(dir)
	for range 3 {
		if err == nil {
			break
		}
		err = os.RemoveAll(dir) // a sweep beside this one may just have asked for its lock
	}
	if err == nil {
		return nil
	}
	// Wine has no call to remove below an open directory, only one to remove by path.
	var all []string
	_ = filepath.WalkDir(dir, func(path string, _ os.DirEntry, _ error) error {
		all = append(all, path)
		return nil
	})
	var errs []error
	for _, path := range slices.Backward(all) {
		errs = append(errs, gone(os.Remove(path)))
	}
	return errors.Join(errs...)
}
