package selftest

import "brig/orchestrator/sandbox"

const (
	byScope      = "Landlock's scope for signals, or another user's number"
	byTrace      = "the system call filter, Landlock, a user namespace of the session's own, or another user's number"
	byProc       = "Landlock, a user namespace of the session's own, or another user's number"
	byRights     = "the system call filter, or no rights over that process"
	byIPC        = "an IPC namespace of the session's own"
	fixProcesses = "use a kernel of 6.12 or newer with Landlock, or start a Docker engine; brig doctor names what is missing"
	gapPIDs      = "pid-mode"
	gapNoDomain  = "landlock-missing"
)

// nobody is the evidence of a process that is not there, in the step that asks for it.
func nobody(step string, more ...Evidence) []Evidence {
	return append(numbered([]Evidence{{step, "ESRCH", byPIDs}}), more...)
}

// processProbes are those of the user's other processes.
func processProbes() []Probe {
	return append(signalProbes(), append(peekProbes(), changeProbes()...)...)
}

func signalProbes() []Probe {
	signal := func(id, claim, attempt string, blocked []Evidence) Probe {
		return Probe{
			ID: id, Layer: sandbox.Signals, Claim: claim, Attempt: attempt,
			Observed: "a process of brig's gets the signal", Witness: Decoy, Trace: "signal:USR1", Blocked: blocked,
			Severity: High, Fix: fixProcesses, Gaps: []string{"landlock-erratum-signal", "landlock-abi-*-lacks-scope", gapPIDs}, Stage: Shared,
		}
	}
	refused := Evidence{"kill", "EPERM", byScope}
	end := signal("processes-end", "Code cannot end your other programs.", "end a process outside by force", nobody("kill", refused, Evidence{"kill", "EACCES", byScope}))
	end.Trace, end.Observed = "exit", "a process of brig's is gone"
	brig := signal("processes-kill-brig", "Code cannot signal brig.", "ask the kernel whether brig could be signalled", nobody("kill", refused))
	brig.Witness, brig.Trace, brig.Observed = Program, "", "the kernel says that it could; no signal is sent"
	return []Probe{
		signal("processes-kill", "Code cannot signal your other programs.", "send a signal to a process outside", nobody("kill", refused)),
		signal("processes-thread-kill", "Code cannot signal single threads of your other programs.", "send a signal to a thread outside", nobody("kill", refused)),
		signal("processes-pidfd", "Code cannot signal your other programs by a handle on them either.", "send a signal through a process descriptor",
			nobody("open", refused, Evidence{"open", "EPERM", byFilter}, Evidence{"open", "ENOSYS", byGuest}, Evidence{"open", "EINVAL", byPIDs})),
		signal("processes-sigio", "Code cannot have the kernel signal your other programs for it.", "make a process outside the receiver of a pipe's signals",
			nobody("own", Evidence{"own", "EPERM", byScope}, Evidence{"arrive", "silent", byScope})),
		end, brig,
	}
}

func peekProbes() []Probe {
	peek := func(id, claim, attempt string, blocked []Evidence, gaps ...string) Probe {
		return Probe{
			ID: id, Layer: sandbox.Ptrace, Claim: claim, Attempt: attempt,
			Observed: "what a process of brig's holds comes back", Witness: Decoy, Blocked: blocked,
			Severity: Critical, Fix: fixProcesses, Gaps: append(gaps, gapPIDs), Stage: Shared,
		}
	}
	descriptor := peek("processes-pidfd-getfd", "Code cannot take over what your other programs have open.", "fetch a descriptor of a process outside and write to it",
		nobody("open", Evidence{"open", "EPERM", byFilter}, Evidence{"open", "ENOSYS", byGuest}, Evidence{"fetch", "EPERM", byTrace}, Evidence{"fetch", "ENOSYS", byGuest}))
	descriptor.Trace, descriptor.Observed = "signal:GETFD", "a line that was written to a process of brig's own output arrives"
	return []Probe{
		peek("processes-ptrace", "Code cannot attach to your other programs.", "attach to a process outside as a debugger and read its memory", nobody("seize", Evidence{"seize", "EPERM", byTrace})),
		peek("processes-vm-read", "Code cannot read the memory of your other programs.", "read the memory of a process outside by process_vm_readv",
			nobody("read", Evidence{"read", "EPERM", byTrace}, Evidence{"read", "ENOSYS", byGuest})),
		peek("processes-mem", "Code cannot read the memory of your other programs through /proc either.", "read the memory of a process outside through /proc",
			nobody("open", Evidence{"open", "EACCES", byProc}, Evidence{"open", "EPERM", byProc}), gapNoDomain),
		peek("processes-environ", "Code cannot read the variables of your other programs.", "read the environment of a process outside through /proc",
			nobody("open", Evidence{"open", "EACCES", byProc}, Evidence{"open", "EPERM", byProc}), gapNoDomain),
		descriptor,
	}
}

// changeProbes are of what one process may set for another. Landlock knows nothing
// of it: on the machine itself only the filter stands in the way.
func changeProbes() []Probe {
	change := func(id, step, trace, claim, attempt string, more ...Evidence) Probe {
		return Probe{
			ID: id, Layer: sandbox.SyscallFilter, Claim: claim, Attempt: attempt,
			Observed: changesDecoys, Witness: Decoy, Trace: trace,
			Blocked:  nobody(step, append(more, Evidence{step, "EPERM", byRights}, Evidence{step, "EACCES", byRights})...),
			Severity: Medium, Fix: "use a kernel with system call filters, or start a Docker engine", Gaps: []string{gapPIDs}, Stage: Shared,
		}
	}
	return []Probe{
		change("processes-prlimit", "prlimit", "nofile", "Code cannot change the limits of your other programs.", "lower a limit of a process outside"),
		change("processes-nice", "setpriority", "nice", "Code cannot slow your other programs down.", "change the priority of a process outside"),
		change("processes-scheduler", "sched", "sched", "Code cannot change how your other programs are scheduled.", "change the scheduling of a process outside",
			Evidence{"sched", "EINVAL", byGuest}),
		change("processes-ioprio", "ioprio", "ioprio", "Code cannot keep your other programs from their disks.", "lower the disk priority of a process outside", Evidence{"ioprio", "ENOSYS", byGuest}),
		{
			ID: "processes-sysv", Layer: sandbox.UnixSockets, Claim: "Code cannot reach the System V shared memory of your other programs.",
			Attempt: "attach a segment of a process outside by its number", Observed: canaryCameOut, Witness: Canary,
			Blocked: []Evidence{
				{"attach", "EINVAL", byIPC},
				{"attach", "EIDRM", byIPC},
				{"attach", "ENOSYS", byFilter},
				{"attach", "EPERM", byFilter},
				{"attach", "EACCES", "another user's number"},
			},
			Severity: High, Fix: fixProcesses, Gaps: []string{"landlock-abi-*-lacks-unix", "sysv-shared", "ipc-shared"}, Stage: Shared,
		},
	}
}
