package selftest

import "golang.org/x/sys/windows"

// traits are what others can change of a process, by the names that Probe.Trace has.
func traits(pid int) map[string]string {
	t := map[string]string{"exit": "yes"}
	p, err := windows.OpenProcess(windows.SYNCHRONIZE, false, uint32(pid))
	if err != nil {
		return t
	}
	if event, err := windows.WaitForSingleObject(p, 0); err == nil && event == uint32(windows.WAIT_TIMEOUT) {
		t["exit"] = "no"
	}
	_ = windows.CloseHandle(p)
	return t
}

// killMarked: the environment of another process is told by no call that is documented
// there. What a run starts ends by itself in a bounded time.
func killMarked(string) {}
