package sandboxtest

import (
	"syscall"
	"testing"
)

// SmallDisk is a directory that is a file system of its own with so much room ("256k"),
// open to the caller alone, until the test ends.
func SmallDisk(t testing.TB, size string) string {
	t.Helper()
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size="+size+",mode=700"); err != nil {
		Skip(t, "the right to mount a small tmpfs", err.Error())
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return dir
}
