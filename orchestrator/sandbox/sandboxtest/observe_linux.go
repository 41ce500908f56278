//go:build linux

package sandboxtest

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
)

// stat is what one line of /proc/<pid>/stat says.
type stat struct {
	parent int
	state  string
	start  string
	name   string
}

func readStat(pid int) (stat, bool) {
	line, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return stat{}, false
	}
	// The name stands in parentheses and may hold anything, also parentheses.
	open, end := bytes.IndexByte(line, '('), bytes.LastIndexByte(line, ')')
	if open < 0 || end < open {
		return stat{}, false
	}
	fields := strings.Fields(string(line[end+1:]))
	if len(fields) < 20 {
		return stat{}, false
	}
	parent, err := strconv.Atoi(fields[1])
	if err != nil {
		return stat{}, false
	}
	return stat{parent: parent, state: fields[0], start: fields[19], name: string(line[open+1 : end])}, true
}

func (s stat) alive() bool { return s.state != "Z" && s.state != "X" }

func procTree(root int) []Process {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	all := make(map[int]stat)
	children := make(map[int][]int)
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		if s, ok := readStat(pid); ok {
			all[pid] = s
			children[s.parent] = append(children[s.parent], pid)
		}
	}
	var out []Process
	for queue := []int{root}; len(queue) > 0; queue = queue[1:] {
		pid := queue[0]
		s, ok := all[pid]
		if !ok {
			continue
		}
		if s.alive() {
			out = append(out, Process{ID: fmt.Sprintf("%d@%s", pid, s.start), Command: s.name})
		}
		queue = append(queue, children[pid]...)
	}
	return out
}

// observedPID is the number of a process that procTree listed.
func observedPID(p Process) (int, bool) {
	number, _, _ := strings.Cut(p.ID, "@")
	pid, err := strconv.Atoi(number)
	return pid, err == nil
}

func procAlive(p Process) bool {
	pid, ok := observedPID(p)
	if !ok {
		return false
	}
	s, ok := readStat(pid)
	return ok && p.ID == fmt.Sprintf("%d@%s", pid, s.start) && s.alive()
}
