//go:build unix

package selftest

import (
	"os"
	"syscall"
)

// mine tells whether something belongs to this user.
func mine(info os.FileInfo) bool {
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && int64(st.Uid) == int64(os.Geteuid())
}
