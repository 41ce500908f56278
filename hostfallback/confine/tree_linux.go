package confine

import (
	"bytes"
	"errors"
	"os"
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
// known ones once is not enough: they fork while they are being listed, so each is
// killed as soon as it is found.
//
// The runner is asked to end and killed last, where its end is not that of all by
// itself: should this process be killed at this moment, it is the only one left
// that knows what has lost its parent.
func (s *supervisor) sweep(ended *Ended, r reaping) {
	begin := time.Now()
	killed := make(map[int]bool)
	defer func() { ended.Killed, ended.Took = len(killed), time.Since(begin) }()
	last, asked := !s.alone && !s.group.told().Kill, false
	pause := time.NewTimer(0)
	defer pause.Stop()
	for {
		select {
		case <-r.done:
			s.noteExit(ended, r)
			return
		case <-pause.C:
		}
		if s.group.told().Kill {
			for _, pid := range s.group.kill(descendants(os.Getpid())) {
				killed[pid] = true
			}
		}
		left := walk(os.Getpid(), func(pid int) {
			signal := unix.SIGKILL
			if last && pid == r.pid {
				if asked {
					return
				}
				signal, asked = unix.SIGTERM, true
			}
			if unix.Kill(pid, signal) == nil {
				killed[pid] = true
			}
		})
		last = last && len(left) > 1 && time.Since(begin) < runnerGrace
		if time.Since(begin) > sweepTimeout {
			ended.Left = left
			return
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
func descendants(root int) []int { return walk(root, func(int) {}) }

// walk does the same, and hands out each process as soon as it is found: those
// that fork and end are others by the end of the list. What it does to a process
// must not hide its children before they are listed, so it sees those first.
func walk(root int, found func(pid int)) []int {
	var all []int
	for queue := []int{root}; len(queue) > 0; queue = queue[1:] {
		children, ok := childrenOf(queue[0])
		if !ok && queue[0] == root {
			all = descendantsByParent(root)
			for _, pid := range all {
				found(pid)
			}
			return all
		}
		if queue[0] != root {
			found(queue[0])
		}
		all = append(all, children...)
		queue = append(queue, children...)
	}
	return all
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
