package confine

import (
	"fmt"

	"golang.org/x/sys/windows"
)

// kernelLabels are the labels of the file system.
type kernelLabels struct{}

// RestoreLabels brings back what an instance with this home has changed. It may
// be called again and again, and by another brig than the one that labelled.
func RestoreLabels(home string) error { return restoreLabels(kernelLabels{}, home) }

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

func (kernelLabels) set(path, sddl string) error {
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

func (kernelLabels) of(path string) (string, error) {
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
