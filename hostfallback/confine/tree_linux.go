package confine

import (
	"bytes"
	"errors"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// exit is the end of the runner itself, as opposed to one of its descendants.
type exit struct{ status unix.WaitStatus }

// reaping is what the reaper has seen.
type reaping struct {
	pid    int           // of the runner
	runner chan exit     // one value when the runner has ended
	done   chan struct{} // closed when no process is left below this one
}

// reap collects every process that ends below the supervisor. A subreaper
// without children has no descendants either: an orphan becomes its child before
// the dead parent can be collected.
func reap(runner int) reaping {
	r := reaping{pid: runner, runner: make(chan exit, 1), done: make(chan struct{})}
	go func() {
		defer close(r.done)
		for {
			var status unix.WaitStatus
			pid, err := unix.Wait4(-1, &status, 0, nil)
			switch {
			case errors.Is(err, unix.EINTR):
			case err != nil:
				return
			case pid == runner:
				r.runner <- exit{status}
			}
		}
	}()
	return r
}

// sweep kills everything below this process until nothing is left. Killing the
// known ones once is not enough: they fork while they are being listed.
func (s *supervisor) sweep(ended *Ended, r reaping) {
	begin := time.Now()
	deadline := begin.Add(sweepTimeout)
	killed := make(map[int]bool)
	pause := time.NewTimer(0)
	defer pause.Stop()
	for {
		select {
		case <-r.done:
			ended.Killed, ended.Took = len(killed), time.Since(begin)
			s.noteExit(ended, r)
			return
		case <-pause.C:
		}
		left := s.tree()
		if time.Now().After(deadline) {
			ended.Killed, ended.Left, ended.Took = len(killed), left, time.Since(begin)
			return
		}
		for _, pid := range s.group.kill(left) {
			killed[pid] = true
		}
		for _, pid := range left {
			if unix.Kill(pid, unix.SIGKILL) == nil {
				killed[pid] = true
			}
		}
		pause.Reset(2 * time.Millisecond)
	}
}

// tree lists the processes of the instance: whatever is below this one, unless
// this one keeps several instances.
func (s *supervisor) tree() []int {
	if s.members != nil {
		return s.members()
	}
	return descendants(os.Getpid())
}

// noteExit adds how the runner ended, if that was not noted before.
func (s *supervisor) noteExit(ended *Ended, r reaping) {
	select {
	case e := <-r.runner:
		ended.setExit(e.status)
	default:
	}
}

func (e *Ended) setExit(status unix.WaitStatus) {
	e.Status = -1
	if status.Exited() {
		e.Status = status.ExitStatus()
	} else if status.Signaled() {
		e.Signal = int(status.Signal())
	}
}

// descendants lists the processes below root as far as they can be seen, root itself left out.
func descendants(root int) []int {
	var found []int
	for queue := []int{root}; len(queue) > 0; {
		children, ok := childrenOf(queue[0])
		if !ok && queue[0] == root {
			return descendantsByParent(root)
		}
		found = append(found, children...)
		queue = append(queue[1:], children...)
	}
	return found
}

// childrenOf reads the children of all threads of a process. Kernels may be
// built without these files; then nothing is ok.
func childrenOf(pid int) ([]int, bool) {
	dir := "/proc/" + strconv.Itoa(pid) + "/task/"
	tasks, err := os.ReadDir(dir)
	if err != nil {
		return nil, false
	}
	var children []int
	ok := false
	for _, t := range tasks {
		raw, err := os.ReadFile(dir + t.Name() + "/children")
		if err != nil {
			continue // the thread has ended
		}
		ok = true
		for _, field := range bytes.Fields(raw) {
			if child, err := strconv.Atoi(string(field)); err == nil {
				children = append(children, child)
			}
		}
	}
	return children, ok
}

// descendantsByParent finds the same from every process's parent.
func descendantsByParent(root int) []int {
	parents := make(map[int][]int)
	for _, pid := range processes() {
		if parent, err := strconv.Atoi(statField(pid, 1)); err == nil {
			parents[parent] = append(parents[parent], pid)
		}
	}
	var found []int
	for queue := []int{root}; len(queue) > 0; queue = queue[1:] {
		found = append(found, parents[queue[0]]...)
		queue = append(queue, parents[queue[0]]...)
	}
	return found
}

func processes() []int {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer func() { _ = dir.Close() }() // opened for reading
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return nil
	}
	var pids []int
	for _, name := range names {
		if pid, err := strconv.Atoi(name); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}

// statField is field n of /proc/pid/stat, counted from the state, which is 0.
// The name before it may contain anything, so the last parenthesis counts.
func statField(pid, n int) string {
	raw, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return ""
	}
	fields := strings.Fields(string(raw[bytes.LastIndexByte(raw, ')')+1:]))
	if n >= len(fields) {
		return ""
	}
	return fields[n]
}

// userTasks counts the tasks of a user as the kernel counts them for its process limit.
func userTasks(uid int) int {
	want := strconv.Itoa(uid)
	tasks := 0
	for _, pid := range processes() {
		raw, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
		if err != nil {
			continue
		}
		status := string(raw)
		if statusField(status, "Uid:") != want {
			continue
		}
		if n, err := strconv.Atoi(statusField(status, "Threads:")); err == nil {
			tasks += n
		}
	}
	return tasks
}

// statusField is the first word after name in the text of /proc/pid/status.
func statusField(status, name string) string {
	_, rest, ok := strings.Cut(status, "\n"+name)
	if !ok {
		return ""
	}
	line, _, _ := strings.Cut(rest, "\n")
	if fields := strings.Fields(line); len(fields) > 0 {
		return fields[0]
	}
	return ""
}

// Rescue kills what a killed supervisor could not: whatever is below runner, every
// process in its session, and every one whose environment carries the mark of
// token. It returns those that would not die. The runner comes last, because what
// loses its parent becomes its child while it lives: a process that left the session
// and wiped its environment is found there and, once the runner is gone, nowhere.
func Rescue(token string, runner int) []int {
	begin := time.Now()
	for {
		var left []int
		if time.Since(begin) < sweepTimeout/2 {
			left = orphansOf(runner)
		}
		if len(left) == 0 {
			for _, pid := range processes() {
				if belongs(pid, token, runner) {
					left = append(left, pid)
				}
			}
		}
		for _, pid := range left {
			_ = unix.Kill(pid, unix.SIGKILL) // it shows again if it lives
		}
		if len(left) == 0 || time.Since(begin) > sweepTimeout {
			return left
		}
		time.Sleep(2 * time.Millisecond)
	}
}

// orphansOf lists what lives below a runner, if that is still the leader of its session.
func orphansOf(runner int) []int {
	if runner <= 0 || statField(runner, 3) != strconv.Itoa(runner) {
		return nil
	}
	return slices.DeleteFunc(descendants(runner), func(pid int) bool {
		state := statField(pid, 0)
		return state == "Z" || state == ""
	})
}

func belongs(pid int, token string, runner int) bool {
	if statField(pid, 0) == "Z" || pid == os.Getpid() {
		return false
	}
	if runner > 0 && statField(pid, 3) == strconv.Itoa(runner) {
		return true
	}
	if token == "" {
		return false
	}
	environ, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/environ")
	if err != nil {
		return false // not ours, or it has ended
	}
	mark := []byte(Marker + "=" + token)
	for _, entry := range bytes.Split(environ, []byte{0}) {
		if bytes.Equal(entry, mark) {
			return true
		}
	}
	return false
}
