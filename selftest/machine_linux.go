package selftest

import (
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

const goos = "linux"

// smallProcesses is the limit of processes of a session that is to reach it.
const smallProcesses = 40

// system is the id of this boot and the kernel's release; empty where they cannot be read.
func system() (boot, kernel string) {
	id, _ := os.ReadFile("/proc/sys/kernel/random/boot_id") // unknown is never equal to anything
	var name unix.Utsname
	if unix.Uname(&name) == nil {
		kernel = unix.ByteSliceToString(name.Release[:])
	}
	return strings.TrimSpace(string(id)), kernel
}
