package runner

import (
	"errors"
	"os"
	"syscall"
	"testing"

	"brig/orchestrator/sandbox/sandboxtest"
)

// TestInstallOnFullDisk: the sentence names the directory that has no room.
func TestInstallOnFullDisk(t *testing.T) {
	dir := sandboxtest.SmallDisk(t, "32k")
	_, err := Install(dir)
	if !errors.Is(err, syscall.ENOSPC) || err.Error() != "install the runner in "+dir+": no space left on device" {
		t.Errorf("installed on a full disk: %v", err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}
