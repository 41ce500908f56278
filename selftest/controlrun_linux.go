package selftest

import (
	"os/exec"
	"runtime"
	"syscall"
)

// endsWithBrig lets the kernel end a process that ownGroup was called for when brig
// ends in whatever way. That is a matter of the thread which starts it, so the
// caller keeps its thread until it calls what is returned.
func endsWithBrig(cmd *exec.Cmd) func() {
	cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	runtime.LockOSThread()
	return runtime.UnlockOSThread
}
