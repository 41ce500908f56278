package confine

import (
	"os"
	"strconv"
	"time"
)

const (
	watchEvery = 250 * time.Millisecond
	diskEvery  = time.Second
)

// watch waits for the end of the instance: its own, an order, or a limit that
// the kernel does not hold for a whole tree. What it measured is the evidence.
func (s *supervisor) watch(r reaping) Ended {
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	full := make(chan int64, 1)
	if s.plan.Limits.Disk > 0 {
		go s.watchDisk(full)
	}
	limits := s.plan.Limits
	for {
		select {
		case e := <-r.runner:
			ended := Ended{Cause: EndSelf}
			ended.setExit(e.status)
			return ended
		case <-s.ordered:
			return Ended{Cause: EndOrdered}
		case used := <-full:
			return Ended{Cause: EndDisk, Used: used, Limit: limits.Disk}
		case <-tick.C:
			pids := descendants(os.Getpid())
			if tasks := tasksOf(pids); limits.Processes > 0 && tasks > limits.Processes {
				return Ended{Cause: EndProcesses, Used: int64(tasks), Limit: int64(limits.Processes)}
			}
			if used := memoryOf(pids, limits.Memory); limits.Memory > 0 && used > limits.Memory {
				return Ended{Cause: EndMemory, Used: used, Limit: limits.Memory}
			}
		}
	}
}

func tasksOf(pids []int) int {
	tasks := 0
	for _, pid := range pids {
		if n, err := strconv.Atoi(statField(pid, 17)); err == nil {
			tasks += n
		}
	}
	return tasks
}

// memoryOf sums what the processes hold and cannot be dropped: anonymous and
// shared memory. Forked processes share pages, so the cheap sum can be too
// high; only when it is above the limit are shared pages divided among them.
func memoryOf(pids []int, limit int64) int64 {
	var cheap, exact int64
	for _, pid := range pids {
		cheap += residentOf(pid)
	}
	if cheap <= limit {
		return cheap
	}
	for _, pid := range pids {
		share, ok := shareOf(pid)
		if !ok { // it hides from other processes; what it shares cannot be told
			share = residentOf(pid)
		}
		exact += share
	}
	return exact
}

func residentOf(pid int) int64 {
	raw, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
	if err != nil {
		return 0 // it has ended
	}
	return kilobytes(string(raw), "RssAnon:") + kilobytes(string(raw), "RssShmem:")
}

func shareOf(pid int) (int64, bool) {
	raw, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/smaps_rollup")
	if err != nil {
		return 0, false
	}
	return kilobytes(string(raw), "Pss_Anon:") + kilobytes(string(raw), "Pss_Shmem:"), true
}

func kilobytes(text, name string) int64 {
	n, err := strconv.ParseInt(statusField(text, name), 10, 64)
	if err != nil {
		return 0
	}
	return n << 10
}

// watchDisk measures workspace and scratch again and again, and takes at most a
// twentieth of the time for it.
func (s *supervisor) watchDisk(full chan<- int64) {
	for {
		begin := time.Now()
		used := diskUse(s.plan.Workspace) + diskUse(s.plan.Scratch)
		if used > s.plan.Limits.Disk {
			full <- used
			return
		}
		time.Sleep(max(diskEvery, 20*time.Since(begin)))
	}
}
