package confine

import (
	"cmp"
	"strconv"
	"time"
)

const (
	// A child between vfork and exec shares its parent's memory and counts twice
	// for a moment, so what is too much has to be so in every one of a few looks.
	looks     = 3
	lookAgain = 5 * time.Millisecond
)

// watch waits for the end of the instance: its own, an order, or a limit that
// the kernel does not hold for a whole tree. What it measured is the evidence.
func (s *supervisor) watch(r reaping) Ended {
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	full := make(chan filled, 1)
	if s.plan.Limits.Disk > 0 {
		go s.watchDisk(r.pid, full)
	}
	limits := s.plan.Limits
	memory := watchMemory(limits.Memory, r.pid)
	defer memory.close()
	for {
		select {
		case e := <-r.runner:
			ended := Ended{Cause: EndSelf}
			ended.setExit(e.status)
			return ended
		case <-s.ordered:
			return Ended{Cause: EndOrdered}
		case f := <-full:
			return Ended{Cause: EndDisk, Used: f.used, Unseen: f.unseen, Limit: limits.Disk}
		case <-tick.C:
			pids := s.tree()
			if tasks := tasksOf(pids); limits.Processes > 0 && tasks > limits.Processes {
				return Ended{Cause: EndProcesses, By: ByWatch, Used: int64(tasks), Limit: int64(limits.Processes)}
			}
			if limits.Memory > 0 {
				begin := time.Now()
				used := memory.of(pids)
				for look := 1; look < looks && used > limits.Memory; look++ {
					time.Sleep(lookAgain)
					used = min(used, memory.of(s.tree()))
				}
				if used > limits.Memory {
					return Ended{Cause: EndMemory, By: ByWatch, Used: used, Limit: limits.Memory}
				}
				tick.Reset(memoryPause(time.Since(begin)))
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

// filled is what was measured above the limit, or why it could not be measured.
type filled struct {
	used   int64
	unseen string
}

// watchDisk measures workspace and scratch again and again, with what was deleted
// there and is still open. What it cannot measure whole is over what it can watch,
// and so over the limit.
func (s *supervisor) watchDisk(runner int, full chan<- filled) {
	dirs := realPaths(s.plan.Workspace, s.plan.Scratch)
	for {
		begin := time.Now()
		used, unseen := diskUse(s.plan.Workspace)
		scratch, more := diskUse(s.plan.Scratch)
		deleted, hidden := heldDisk(s.tree(), runner, dirs)
		used += scratch + deleted
		if unseen = cmp.Or(unseen, more, hidden); unseen != "" || used > s.plan.Limits.Disk {
			full <- filled{used, unseen}
			return
		}
		time.Sleep(diskPause(time.Since(begin)))
	}
}
