package confine

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// labels are the mandatory labels of files and directories, as SDDL. None of its
// methods follows a link.
type labels interface {
	of(path string) (string, error)
	set(path, sddl string) error
}

// journalFile is in Home, where no instance can write, and names what was
// labelled before it is: a brig that is killed leaves it for the next sweep.
const journalFile = "labels.json"

// journal is one directory that outlives its instance.
type journal struct {
	Path   string `json:"path"`
	Before string `json:"before"` // its label, as SDDL
}

// label gives the places of a plan their labels, and reads them back.
func label(on labels, home string, wanted []Label) error {
	for _, l := range wanted {
		before, err := on.of(l.Path)
		if err != nil {
			return err
		}
		if isLow(before) && l.Restore {
			continue // somebody's own decision, which stays
		}
		if l.Restore {
			if err := writeJournal(home, journal{l.Path, before}); err != nil {
				return err
			}
		}
		if err := on.set(l.Path, l.SDDL); err != nil {
			return err
		}
		if err := labelTree(on, l.Path, l.SDDL, l.Entry, func(now string) bool { return !isLabelled(now) }); err != nil {
			return err
		}
		now, err := on.of(l.Path)
		if err != nil {
			return err
		}
		if !isLow(now) {
			return fmt.Errorf("label %s: the label was accepted, and it is still %q", l.Path, now)
		}
	}
	return nil
}

func writeJournal(home string, j journal) error {
	raw, err := json.Marshal(j)
	if err != nil {
		panic("BUG: a journal does not marshal: " + err.Error())
	}
	f, err := os.OpenFile(filepath.Join(home, journalFile), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err == nil {
		_, err = f.Write(raw)
		err = errors.Join(err, f.Sync(), f.Close())
	}
	if err != nil {
		return fmt.Errorf("note the labels to be restored: %w", err)
	}
	return nil
}

// restoreLabels brings back what the journal of a home names, and removes it then.
func restoreLabels(on labels, home string) error {
	file := filepath.Join(home, journalFile)
	raw, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	var j journal
	if err == nil {
		err = json.Unmarshal(raw, &j)
	}
	if err != nil {
		return fmt.Errorf("read which labels to restore: %w", err)
	}
	if _, err := os.Lstat(j.Path); err == nil {
		before := j.Before
		if !isLabelled(before) {
			before = LabelNone
		}
		// What code has made has inherited the label, and what it moved here has one too.
		if err := labelTree(on, j.Path, LabelNone, LabelNone, isLow); err != nil {
			return err
		}
		if err := on.set(j.Path, before); err != nil {
			return err
		}
	}
	return os.Remove(file)
}

// labelTree sets the label of a directory and of everything in it whose label is
// wanted to change. No link is followed: each entry is opened as what it is.
func labelTree(on labels, root, directory, entry string, wanted func(now string) bool) error {
	left := DiskEntries
	return filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return fmt.Errorf("label %s: %w", path, err)
		}
		if left--; left < 0 {
			return fmt.Errorf("label %s: there are more than %d files and directories", root, DiskEntries)
		}
		now, err := on.of(path)
		if err != nil {
			return err
		}
		if !wanted(now) {
			return nil
		}
		if d.IsDir() {
			return on.set(path, directory)
		}
		return on.set(path, entry)
	})
}

func isLabelled(sddl string) bool { return strings.Contains(sddl, "(ML;") }
func isLow(sddl string) bool      { return isLabelled(sddl) && strings.Contains(sddl, ";;;LW)") }
