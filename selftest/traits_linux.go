package selftest

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// traits are what others can change of a process, by the names that Probe.Trace has.
func traits(pid int) map[string]string {
	t := map[string]string{"exit": "no"}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	// The state comes after the name, which is in brackets and may hold some itself. The
	// decoys are not waited for before the end, so that no other gets the number.
	if at := bytes.LastIndexByte(stat, ')'); err != nil || at < 0 || strings.HasPrefix(string(stat[at:]), ") Z") {
		t["exit"] = "yes"
	}
	if nice, err := unix.Getpriority(unix.PRIO_PROCESS, pid); err == nil {
		t["nice"] = strconv.Itoa(nice)
	}
	var limit unix.Rlimit
	if unix.Prlimit(pid, unix.RLIMIT_NOFILE, nil, &limit) == nil {
		t["nofile"] = fmt.Sprint(limit)
	}
	if oom, err := os.ReadFile(fmt.Sprintf("/proc/%d/oom_score_adj", pid)); err == nil {
		t["oom"] = string(oom)
	}
	if a, err := unix.SchedGetAttr(pid, 0); err == nil {
		t["sched"] = fmt.Sprint(a.Policy)
	}
	var cpus unix.CPUSet
	if unix.SchedGetaffinity(pid, &cpus) == nil {
		t["affinity"] = strconv.Itoa(cpus.Count())
	}
	if io, _, errno := unix.Syscall(unix.SYS_IOPRIO_GET, ioprioProcess, uintptr(pid), 0); errno == 0 {
		t["ioprio"] = strconv.Itoa(int(io))
	}
	return t
}

const ioprioProcess = 1 // IOPRIO_WHO_PROCESS

// killMarked ends every process of this user with that variable in its environment.
// None is left out for having another parent or group by now.
func killMarked(mark string) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return
	}
	want := append([]byte(mark), 0)
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		if !marked(pid, want) {
			continue
		}
		p, err := os.FindProcess(pid)
		if err != nil {
			continue
		}
		// Asked again with the handle held: the number may be another's by now.
		if marked(pid, want) {
			_ = p.Kill() // it may end by itself at any moment
		}
		_ = p.Release()
	}
}

func marked(pid int, want []byte) bool {
	environ, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
	return err == nil && (bytes.HasPrefix(environ, want) || bytes.Contains(environ, append([]byte{0}, want...)))
}
