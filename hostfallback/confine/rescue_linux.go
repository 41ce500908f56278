package confine

import (
	"bytes"
	"errors"
	"hash/fnv"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// Rescue kills what a killed supervisor could not: every process that carries the
// instance's mark, whatever is below runner, and every process in its session or
// with the token in its environment. It returns those that would not die. The
// runner comes last, because what loses its parent becomes its child while it
// lives, and may have no mark where the system's own limit is lower than that.
func Rescue(token string, runner int) []int {
	for begin := time.Now(); ; time.Sleep(time.Millisecond) {
		left := endMarked(token, runner)
		if len(left) == 0 || time.Since(begin) < sweepTimeout/2 {
			left = append(left, endBelow(runner)...)
		}
		if len(left) == 0 {
			for _, pid := range processes() {
				if belongs(pid, token, runner) {
					_ = unix.Kill(pid, unix.SIGKILL) // it shows again if it lives
					left = append(left, pid)
				}
			}
		}
		if len(left) == 0 || time.Since(begin) > sweepTimeout {
			return left
		}
	}
}

// endMarked kills all processes with the mark but the runner, each as soon as it is
// found, and lists them. One system call for each process of the machine is a
// small part of the time in which a process forks.
func endMarked(token string, runner int) []int {
	if token == "" {
		return nil
	}
	var found []int
	for _, pid := range processes() {
		if pid != runner && marked(pid, token) && !ended(pid) {
			_ = unix.Kill(pid, unix.SIGKILL) // it shows again if it lives
			found = append(found, pid)
		}
	}
	return found
}

// endBelow kills what lives below a runner, if that is still the leader of its session.
func endBelow(runner int) []int {
	if runner <= 0 || statField(runner, 3) != strconv.Itoa(runner) {
		return nil
	}
	var found []int
	walk(runner, func(pid int) {
		if !ended(pid) {
			_ = unix.Kill(pid, unix.SIGKILL) // it shows again if it lives
			found = append(found, pid)
		}
	})
	return found
}

func ended(pid int) bool {
	state := statField(pid, 0)
	return state == "Z" || state == "X" || state == ""
}

func belongs(pid int, token string, runner int) bool {
	if pid == os.Getpid() || ended(pid) {
		return false
	}
	if runner > 0 && statField(pid, 3) == strconv.Itoa(runner) {
		return true
	}
	if token == "" {
		return false
	}
	if marked(pid, token) {
		return true
	}
	environ, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/environ")
	if err != nil {
		return false // not ours, or it has ended
	}
	entry := []byte(Marker + "=" + token)
	for _, e := range bytes.Split(environ, []byte{0}) {
		if bytes.Equal(e, entry) {
			return true
		}
	}
	return false
}

// mark is an instance's limit of the time that a process may take without a pause
// under real-time scheduling, in microseconds. Every process inherits it, nobody
// without privileges can raise it, the filter lets nobody lower it, and it is too
// long to bound anything: more than sixty thousand years. It is above 2^61 and below 2^62, where nobody else's limit is.
func mark(token string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(token)) // a hash never fails
	return h.Sum64()>>3 | 1<<61
}

// marked asks the kernel; it tells the limits of the user's own processes.
func marked(pid int, token string) bool {
	var l unix.Rlimit
	return unix.Prlimit(pid, rlimitRTTime, nil, &l) == nil && l.Max == mark(token)
}

// setMark marks this process and whatever it starts, and says with what; 0 where
// the system has a limit of its own that is lower.
func setMark(token string) (uint64, error) {
	var now unix.Rlimit
	if err := unix.Getrlimit(rlimitRTTime, &now); err != nil {
		return 0, os.NewSyscallError("getrlimit", err)
	}
	if now.Max < mark(token) {
		return 0, nil
	}
	got, err := setLimit(rlimitRTTime, mark(token))
	if err == nil && got != mark(token) {
		err = errors.New("the mark of the instance does not stay")
	}
	return got, err
}
