//go:build unix

package selftest

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"
)

// listenFifo makes a pipe with a name. It is held open for both directions: whoever
// opens it for writing finds a reader, and the reader never sees an end.
func (y *yard) listenFifo() any {
	path := filepath.Join(y.dir, "fifo")
	if unix.Mkfifo(path, 0o600) != nil {
		return nil
	}
	f, err := os.OpenFile(path, os.O_RDWR|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil
	}
	y.heard.keep(f)
	y.heard.active.Go(func() {
		said := make([]byte, helloLength)
		for {
			n, err := f.Read(said)
			if err != nil {
				return
			}
			y.heard.hear(said[:n])
		}
	})
	return path
}

// identity tells a directory from all others that this kernel knows.
func identity(info fs.FileInfo) string {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return ""
	}
	return fmt.Sprintf("%d:%d", st.Dev, st.Ino)
}
