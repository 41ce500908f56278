package selftest

import (
	"time"

	"brig/orchestrator/sandbox"
)

const (
	byGroup     = "the limit of a control group"
	byWatch     = "the watch over the session's processes"
	byDiskWatch = "the watch over the workspace"
	byRlimit    = "the kernel's limit of a process"
	byTree      = "the end of the whole process tree"
	// On a Mac memory is only watched, and what hides well enough outlives its session.
	gapMacMemory = "macos-no-memory-limit"
	gapMacTree   = "macos-hidden-daemons"
	gapEmulated  = "emulated-windows"
	fixDocker    = "start a Docker engine and set execution.backend to docker"
)

// limitProbes are resources, output, time and the end of a tree.
func limitProbes() []Probe {
	probes := append(resourceProbes(), endProbes()...)
	for i := range probes {
		probes[i].Stage = Limits
	}
	return probes
}

func resourceProbes() []Probe {
	program := "the kernel answers that it may, and nothing ends it"
	return []Probe{
		{
			ID: "limit-memory", Layer: sandbox.MemoryLimit, Severity: Medium, Witness: Program, Observed: program, Bound: 3 * time.Second,
			Claim: "One process cannot take more memory than the session has.", Attempt: "fill a quarter more memory than the limit",
			Blocked: append(memoryEvidence(), Evidence{"allocate", "ENOMEM", byRlimit}), Fix: fixDocker,
			Gaps: []string{"memory-not-accounted", "swap-not-limited", "tcp-*", gapMacMemory},
		},
		{
			ID: "limit-memory-tree", Layer: sandbox.MemoryLimit, Severity: Medium, Witness: Program, Observed: program, Bound: 3 * time.Second,
			Claim: "Several processes together cannot take more memory than the session has.", Attempt: "fill half of the limit in each of three processes",
			Blocked: append(memoryEvidence(), Evidence{"touch", "ENOMEM", byGroup}), Fix: fixDocker,
			Gaps: []string{"rlimit-per-process-only", "cgroup-*", "memory-not-accounted", "swap-not-limited", gapMacMemory},
		},
		{
			ID: "limit-processes", Layer: sandbox.ProcessLimit, Severity: Medium, Witness: Program, Observed: program, Bound: 3 * time.Second,
			Claim: "Code cannot start processes without end.", Attempt: "start more processes than the limit, which wait",
			Blocked: []Evidence{{"fork", "EAGAIN", byGroup + ", or " + byRlimit}, {"run", "cause:processes", byWatch}},
			Fix:     fixDocker, Gaps: []string{"pids-not-accounted", "nproc-*"},
		},
		{
			ID: "limit-open-files", Layer: sandbox.ProcessLimit, Severity: Low, Witness: Program, Observed: program,
			Claim: "A process cannot open files without end.", Attempt: "open more files than the limit",
			Blocked: []Evidence{{"open", "EMFILE", byRlimit}}, Fix: "brig doctor", Gaps: []string{"nofile-not-applied"},
		},
		{
			ID: "limit-raise", Layer: sandbox.ProcessLimit, Severity: Medium, Witness: Program, Observed: program,
			Claim: "Code cannot raise its own limits.", Attempt: "raise the limit of open files above the session's",
			Blocked: []Evidence{{"raise", "EPERM", "no privilege to raise limits"}}, Fix: "brig doctor",
		},
		{
			ID: "limit-file-size", Layer: sandbox.DiskLimit, Severity: Medium, Witness: Program, Observed: program,
			Claim: "A file cannot grow without end.", Attempt: "write a file that is larger than the limit",
			Blocked: []Evidence{{"write", "EFBIG", byRlimit}, {"write", "ENOSPC", "the size of the session's file system"}}, Fix: "brig doctor",
			Gaps: []string{"fsize-not-applied"},
		},
		{
			ID: "limit-disk", Layer: sandbox.DiskLimit, Severity: Medium, Witness: Program, Observed: "twice as much as the workspace may hold stays there, and nothing ends it", Bound: 8 * time.Second,
			Claim: "Many small files cannot fill the disk.", Attempt: "write twice as much as the workspace may hold, in files within their limit",
			Blocked: []Evidence{{"run", "cause:disk", byDiskWatch}, {"write", "ENOSPC", "the size of the session's file system"}, {"write", "EDQUOT", "a quota of the file system"}},
			Fix:     "let the data directory be on a file system of its own, of the size that sessions may fill",
		},
		{
			ID: "limit-cpu", Layer: sandbox.CPULimit, Severity: Low, Witness: Program, Observed: "the kernel counts more processor time than the limit allows", Bound: 4 * time.Second,
			Claim: "Code cannot take more processors than the session has.", Attempt: "keep eight processes busy for a third of a second, on every processor there is",
			Blocked: []Evidence{{"count", "throttled", byGroup}, {"count", "share", "a share that nobody could take more of than the control did"}}, Fix: fixDocker,
			Gaps: []string{"cpu-not-accounted", "cgroup-*", "cpu-not-divided", "affinity-can-be-undone"},
		},
		{
			ID: "limit-output", Layer: sandbox.OutputLimit, Severity: Medium, Witness: Counter, Observed: "more output reaches brig's reader than is to be kept",
			Claim: "Output cannot flood whoever reads it.", Attempt: "print sixteen times as much as is kept",
			Blocked: []Evidence{{"count", "absent", "the bounds of output, which the runner and brig both hold"}, {"run", "cause:output", "the bounds of output"}}, Fix: "brig doctor",
		},
	}
}

func memoryEvidence() []Evidence {
	return []Evidence{
		{"run", "cause:memory", byGroup + ", or " + byWatch},
		{"touch", "SIGKILL", byGroup},
		{"keep", "SIGKILL", byGroup + ", or " + byWatch},
		{"", "SIGKILL", byGroup},
	}
}

func endProbes() []Probe {
	beats := "a file that it writes grows after the end"
	return []Probe{
		{
			ID: "clock-ignore", Layer: sandbox.WallClock, Severity: Medium, Witness: Clock, Observed: "it still runs when its time and the grace are long over by brig's clock",
			Claim: "Code cannot run longer than its time, whatever signals it ignores.", Attempt: "run on past the end of its time and ignore every signal that asks to end",
			Blocked: []Evidence{{"run", "cause:timeout", "brig's timer, then a kill"}}, Fix: "brig doctor", Bound: 3 * time.Second,
		},
		{
			ID: "tree-survive-timeout", Layer: sandbox.TreeKill, Severity: High, Witness: Counter, Observed: beats,
			Claim: "Nothing that code has started outlives a run that was ended by force.", Attempt: "start a process that leaves its group, its session and its parent, and run out of time",
			Blocked: []Evidence{{"beat", "absent", byTree}}, Fix: fixDocker, Bound: 3 * time.Second, Gaps: []string{gapMacTree, gapEmulated},
		},
		{
			ID: "tree-survive-close", Layer: sandbox.TreeKill, Severity: High, Witness: Counter, Observed: beats,
			Claim: "Nothing that code has started outlives its session.", Attempt: "start a process that leaves its group, its session and its parent, and let the session be closed",
			Blocked: []Evidence{{"beat", "absent", byTree}}, Fix: fixDocker, Bound: 3 * time.Second, Gaps: []string{gapMacTree, gapEmulated},
		},
	}
}
