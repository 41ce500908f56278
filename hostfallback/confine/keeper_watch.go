//go:build darwin || brig_keeper

package confine

import (
	"cmp"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

const (
	keeperPause = 3 * time.Millisecond
	keeperLooks = 3 // in a row that find nothing, and there is nothing
)

// look reads the table of processes and returns the instance's. Deep, it also asks
// about those that nothing in the table connects with it, which takes longer.
func (k *keeper) look(deep bool) []relative {
	var stranger func(relative) bool
	if deep {
		mark, own := Marker+"="+k.plan.Token, os.Getpid()
		asked := map[identity]bool{}
		stranger = func(r relative) bool {
			if asked[r.identity()] || r.zombie || r.pid == own {
				return false
			}
			asked[r.identity()] = true
			if k.seatbelt.Members {
				if is, known := k.inside(r.pid); is && known {
					return true
				}
			}
			return k.machine.marked(r.pid, mark)
		}
	}
	members := k.family.see(k.machine.table(), stranger)
	if k.attend != nil {
		for _, r := range members {
			k.attend(r.pid)
		}
	}
	return members
}

// watch waits for the end of the instance: its own, an order, or a limit that
// nothing holds for a whole tree here. What it measured is the evidence.
func (k *keeper) watch(runner <-chan unix.WaitStatus) Ended {
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	limits := k.plan.Limits
	full := make(chan Ended, 1)
	if limits.Disk > 0 {
		go k.watchDisk(full)
	}
	for {
		select {
		case status := <-runner:
			ended := Ended{Cause: EndSelf}
			ended.exited(status)
			return ended
		case <-k.ordered:
			return Ended{Cause: EndOrdered}
		case ended := <-full:
			return ended
		case <-k.tell:
			k.look(false)
		case <-tick.C:
			begin := time.Now()
			var bytes int64
			var threads int
			for _, r := range k.look(true) {
				b, n := k.machine.usage(r.pid)
				bytes, threads = bytes+b, threads+n
			}
			if limits.Processes > 0 && threads > limits.Processes {
				return Ended{Cause: EndProcesses, By: ByWatch, Used: int64(threads), Limit: int64(limits.Processes)}
			}
			if limits.Memory > 0 && bytes > limits.Memory {
				return Ended{Cause: EndMemory, By: ByWatch, Used: bytes, Limit: limits.Memory}
			}
			tick.Reset(memoryPause(time.Since(begin)))
		}
	}
}

// watchDisk measures workspace and scratch again and again.
func (k *keeper) watchDisk(full chan<- Ended) {
	for {
		begin := time.Now()
		used, unseen := diskUse(k.plan.Workspace)
		scratch, more := diskUse(k.plan.Scratch)
		used += scratch
		if unseen = cmp.Or(unseen, more); unseen != "" || used > k.plan.Limits.Disk {
			full <- Ended{Cause: EndDisk, Used: used, Unseen: unseen, Limit: k.plan.Limits.Disk}
			return
		}
		time.Sleep(diskPause(time.Since(begin)))
	}
}

// sweep kills the family until nothing of it is found any more. Once is not
// enough: they fork while they are being listed.
func (k *keeper) sweep(ended *Ended, runner <-chan unix.WaitStatus) {
	begin := time.Now()
	killed := map[identity]bool{}
	for none := 0; ; {
		var left []int
		for _, r := range k.look(true) {
			if unix.Kill(r.pid, unix.SIGKILL) == nil {
				killed[r.identity()] = true
			}
			left = append(left, r.pid)
		}
		ended.Killed, ended.Took = len(killed), time.Since(begin)
		select {
		case status := <-runner:
			if ended.Cause != EndSelf {
				ended.exited(status)
			}
		default:
		}
		// A process that was being made while the table was read is in the next one.
		if none++; len(left) > 0 {
			none = 0
		}
		if none == keeperLooks {
			return
		}
		if len(left) > 0 && time.Since(begin) > keeperSweep {
			ended.Left = left
			return
		}
		time.Sleep(keeperPause)
	}
}

func (e *Ended) exited(status unix.WaitStatus) {
	e.Status = -1
	if status.Exited() {
		e.Status = status.ExitStatus()
	} else if status.Signaled() {
		e.Signal = int(status.Signal())
	}
}

// rescueWith kills what a killed supervisor could not: every process in the
// session of runner, and every one that carries the mark of token. It returns
// those that would not die. A process that left the session and wiped its
// environment is not found.
func rescueWith(m host, token string, runner int) []int {
	deadline := time.Now().Add(keeperSweep)
	for {
		var left []int
		for _, r := range m.table() {
			if r.zombie || r.pid == os.Getpid() {
				continue
			}
			if runner > 0 && r.session == runner || token != "" && m.marked(r.pid, Marker+"="+token) {
				_ = unix.Kill(r.pid, unix.SIGKILL) // it shows again if it lives
				left = append(left, r.pid)
			}
		}
		if len(left) == 0 || time.Now().After(deadline) {
			return left
		}
		time.Sleep(5 * time.Millisecond)
	}
}
