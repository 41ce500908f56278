//go:build unix

package main

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestSelftestReportToNoFile: a pipe that nobody reads is refused at once, and so is
// whatever else is no regular file.
func TestSelftestReportToNoFile(t *testing.T) {
	dir := t.TempDir()
	fifo, link := filepath.Join(dir, "fifo"), filepath.Join(dir, "link")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("fifo", link); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{fifo, link, "/dev/null"} {
		err := selftestOptions{report: name, overwrite: true}.checkReport()
		if err == nil || !strings.Contains(err.Error(), "it is not a regular file") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
