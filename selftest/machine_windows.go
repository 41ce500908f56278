package selftest

import (
	"fmt"
	"strconv"

	"golang.org/x/sys/windows"
	"golang.org/x/sys/windows/registry"
)

const goos = "windows"

// smallProcesses is the limit of processes of a session that is to reach it, each of which takes long to start.
const smallProcesses = 20

// system is the number of this boot and the version; empty where they cannot be read.
func system() (boot, kernel string) {
	major, minor, build := windows.RtlGetNtVersionNumbers()
	kernel = fmt.Sprintf("%d.%d.%d", major, minor, build)
	const counted = `SYSTEM\CurrentControlSet\Control\Session Manager\Memory Management\PrefetchParameters`
	key, err := registry.OpenKey(registry.LOCAL_MACHINE, counted, registry.QUERY_VALUE)
	if err != nil {
		return "", kernel // unknown is never equal to anything
	}
	if n, _, err := key.GetIntegerValue("BootId"); err == nil {
		boot = strconv.FormatUint(n, 10)
	}
	_ = key.Close() // it was only read
	return boot, kernel
}
