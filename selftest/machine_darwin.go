package selftest

import "golang.org/x/sys/unix"

const goos = "darwin"

// smallProcesses is the limit of processes of a session that is to reach it.
const smallProcesses = 40

// system is the id of this boot and the kernel's release; empty where they cannot be read.
func system() (boot, kernel string) {
	boot, _ = unix.Sysctl("kern.bootsessionuuid") // unknown is never equal to anything
	kernel, _ = unix.Sysctl("kern.osrelease")
	return boot, kernel
}
