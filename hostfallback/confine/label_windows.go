package confine

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/windows"
)

// journalFile is in Home, where no instance can write, and names what was
// labelled before it is: a brig that is killed leaves it for the next sweep.
const journalFile = "labels.json"

// journal is one directory that outlives its instance.
type journal struct {
	Path   string `json:"path"`
	Before string `json:"before"` // its label, as SDDL
}

// label gives the places of a plan their labels, and reads them back.
func label(home string, labels []Label) error {
	for _, l := range labels {
		before, err := labelOf(l.Path)
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
		if err := labelTree(l.Path, l.SDDL, l.Entry, func(now string) bool { return !isLabelled(now) }); err != nil {
			return err
		}
		now, err := labelOf(l.Path)
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

// RestoreLabels brings back what an instance with this home has changed. It may
// be called again and again, and by another brig than the one that labelled.
func RestoreLabels(home string) error {
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
		if err := labelTree(j.Path, LabelNone, LabelNone, isLow); err != nil {
			return err
		}
		if err := setLabel(j.Path, before); err != nil {
			return err
		}
	}
	return os.Remove(file)
}

// labelTree sets the label of a directory and of everything in it whose label is
// wanted to change. No link is followed: each entry is opened as what it is.
func labelTree(root, directory, entry string, wanted func(now string) bool) error {
	left := DiskEntries
	return filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return fmt.Errorf("label %s: %w", path, err)
		}
		if left--; left < 0 {
			return fmt.Errorf("label %s: there are more than %d files and directories", root, DiskEntries)
		}
		now, err := labelOf(path)
		if err != nil {
			return err
		}
		if !wanted(now) {
			return nil
		}
		if d.IsDir() {
			return setLabel(path, directory)
		}
		return setLabel(path, entry)
	})
}

func isLabelled(sddl string) bool { return strings.Contains(sddl, "(ML;") }
func isLow(sddl string) bool      { return isLabelled(sddl) && strings.Contains(sddl, ";;;LW)") }

// openEntry opens a file, a directory or a link itself for its security only.
func openEntry(path string, access uint32) (windows.Handle, error) {
	name, err := windows.UTF16PtrFromString(path)
	if err != nil {
		return 0, err
	}
	const share = windows.FILE_SHARE_READ | windows.FILE_SHARE_WRITE | windows.FILE_SHARE_DELETE
	return windows.CreateFile(name, access, share, nil, windows.OPEN_EXISTING,
		windows.FILE_FLAG_BACKUP_SEMANTICS|windows.FILE_FLAG_OPEN_REPARSE_POINT, 0)
}

func setLabel(path, sddl string) error {
	sd, err := windows.SecurityDescriptorFromString(sddl)
	if err != nil {
		return fmt.Errorf("read the label %q: %w", sddl, err)
	}
	h, err := openEntry(path, windows.READ_CONTROL|windows.WRITE_OWNER)
	if err != nil {
		return fmt.Errorf("label %s: %w", path, err)
	}
	defer func() { _ = windows.CloseHandle(h) }() // what was set is set
	if err := windows.SetKernelObjectSecurity(h, windows.LABEL_SECURITY_INFORMATION, sd); err != nil {
		return fmt.Errorf("label %s: %w", path, err)
	}
	return nil
}

func labelOf(path string) (string, error) {
	h, err := openEntry(path, windows.READ_CONTROL)
	if err != nil {
		return "", fmt.Errorf("read the label of %s: %w", path, err)
	}
	defer func() { _ = windows.CloseHandle(h) }() // opened for reading
	sd, err := windows.GetSecurityInfo(h, windows.SE_FILE_OBJECT, windows.LABEL_SECURITY_INFORMATION)
	if err != nil {
		return "", fmt.Errorf("read the label of %s: %w", path, err)
	}
	return sd.String(), nil
}
