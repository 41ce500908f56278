package orchestrator

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"brig/orchestrator/sandbox"
	"brig/orchestrator/wire"
)

// stop is why brig itself ended a run. The first one is the cause; a later one
// can only make the end come sooner.
type stop uint8

const (
	stopNone      stop = iota
	stopTimeout        // brig's wall clock
	stopInterrupt      // Session.Interrupt
	stopCancel         // the caller's context ended
	stopEmit           // the caller's emit failed
	stopOutput         // more output passed than the runner was told to keep
	stopClose          // Session.Close
)

// evidence is what brig itself saw of a run's end, apart from the runner's account.
type evidence struct {
	Stop      stop
	Delivered bool           // an interrupt reached the run while it was current
	Why       string         // of stopCancel, stopEmit and stopClose
	Limit     time.Duration  // the wall clock of this run
	Seen      bool           // the runner's account of the end arrived
	Ending    sandbox.Ending // of the instance, when no end was seen
	Limits    sandbox.Limits // of the instance, for the wording
	Counted   *counted       // read from outside, over the run; nil: nobody can look
	Fault     error          // brig's own or the contract's, when there is neither an end nor an ending
}

// verdict is the classified end.
type verdict struct {
	Cause          sandbox.Cause
	Detail         string
	RunnerReported bool
}

// classify decides why a run ended. Where brig ended it, that is the cause,
// whatever the runner says: a program that catches the interrupt of a timeout
// and ends well has still run out of time. Where no end was seen it is never ok.
// Only what remains is the runner's word, and marked as such.
func classify(exit wire.Exit, ev evidence) verdict {
	if v, stopped := classifyStop(exit, ev); stopped {
		return v
	}
	if !ev.Seen {
		return classifyLost(ev)
	}
	v := classifyExit(exit, ev)
	// That memory was the cause is seen from outside where there are counters.
	v.RunnerReported = v.Cause != sandbox.Internal && (v.Cause != sandbox.MemoryOut || ev.Counted == nil)
	return v
}

// classifyStop covers the ends that brig made.
func classifyStop(exit wire.Exit, ev evidence) (v verdict, stopped bool) {
	switch ev.Stop {
	case stopNone:
		return verdict{}, false
	case stopTimeout:
		return verdict{Cause: sandbox.Timeout, Detail: fmt.Sprintf("it was stopped at its limit of %s%s", ev.Limit, byForce(exit, ev))}, true
	case stopInterrupt:
		// An interrupt that came too late, or never reached the run, explains nothing.
		// Only what was asked for is reported as interrupted, so that end is an answer to
		// this interrupt, also where it came before the one that says that it arrived.
		if !ev.Delivered && ev.Seen && exit.Outcome != wire.OutcomeInterrupted {
			return verdict{}, false
		}
		return verdict{Cause: sandbox.Interrupted, Detail: "it was interrupted" + byForce(exit, ev)}, true
	case stopCancel, stopEmit:
		return verdict{Cause: sandbox.Cancelled, Detail: ev.Why}, true
	case stopOutput:
		return verdict{Cause: sandbox.OutputOut, Detail: fmt.Sprintf("more output arrived than the %s that a stream may keep", size(ev.Limits.OutputKept))}, true
	case stopClose:
		return verdict{Cause: sandbox.Cancelled, Detail: cmp.Or(ev.Why, "the session was closed")}, true
	}
	panic(fmt.Sprintf("BUG: unknown stop %d", ev.Stop))
}

// byForce says where the soft way did not suffice.
func byForce(exit wire.Exit, ev evidence) string {
	switch {
	case !ev.Seen:
		return " and the instance closed, because the runner did not answer"
	case exit.Hard:
		return " by force, because it did not end when asked to"
	}
	return ""
}

// classifyLost covers a run without an end. An instance that ended well, as far
// as its backend could see, has still lost the run.
func classifyLost(ev evidence) verdict {
	detail := ev.Ending.Detail
	if ev.Ending.Cause == sandbox.Killed && ev.Counted != nil && ev.Counted.OOMKills > 0 {
		return verdict{Cause: sandbox.MemoryOut, Detail: join(detail, oomHint(wire.Exit{}, ev))}
	}
	switch cause := ev.Ending.Cause; cause {
	case sandbox.MemoryOut, sandbox.ProcessOut, sandbox.DiskOut, sandbox.OutputOut, sandbox.Killed, sandbox.BackendLost, sandbox.Internal:
		return verdict{Cause: cause, Detail: detail}
	case "":
		if ev.Fault != nil {
			return verdict{Cause: sandbox.Internal, Detail: ev.Fault.Error()}
		}
	case sandbox.OK, sandbox.Exception, sandbox.Exit, sandbox.Timeout, sandbox.Interrupted, sandbox.Cancelled, sandbox.Refused:
		// None of these explains a run that brig did not stop.
	}
	if detail == "" {
		detail = "the instance ended before the run did"
	}
	return verdict{Cause: sandbox.BackendLost, Detail: detail}
}

// classifyExit covers an end that only the runner saw.
func classifyExit(exit wire.Exit, ev evidence) verdict {
	switch exit.Exceeded {
	case wire.ExceededDisplays:
		return verdict{Cause: sandbox.OutputOut, Detail: fmt.Sprintf("more displays than the %d, or the %s of them, that one run may have", wire.MaxDisplays, size(ev.Limits.Bounds().Display))}
	case wire.ExceededTime: // brig stood still, or could not be heard, at the limit that is its own to keep
		return verdict{Cause: sandbox.Timeout, Detail: fmt.Sprintf("it was killed on its side after its limit of %s had passed and brig was not heard", ev.Limit)}
	}
	oom := ev.oomKills(exit) > 0
	switch exit.Outcome {
	case wire.OutcomeOK:
		return verdict{Cause: sandbox.OK, Detail: limitHints(exit, ev)}
	case wire.OutcomeExit:
		// A status is the program's own whatever its number, 137 included. Zero is
		// success. Only a kill counted by the kernel turns another one into memory.
		if exit.Status == 0 {
			return verdict{Cause: sandbox.OK, Detail: limitHints(exit, ev)}
		}
		if oom {
			return verdict{Cause: sandbox.MemoryOut, Detail: limitHints(exit, ev)}
		}
		return verdict{Cause: sandbox.Exit, Detail: join(fmt.Sprintf("it ended with status %d", exit.Status), forkHint(ev))}
	case wire.OutcomeSignal:
		if oom {
			return verdict{Cause: sandbox.MemoryOut, Detail: limitHints(exit, ev)}
		}
		return verdict{Cause: sandbox.Killed, Detail: join("the interpreter was killed by "+signalName(exit.Signal), forkHint(ev))}
	case wire.OutcomeException:
		// The program was alive to raise it, so it is the cause even where a limit
		// was met on the way: MemoryError, or a worker that the kernel killed.
		return verdict{Cause: sandbox.Exception, Detail: join(exceptionHint(exit, ev), limitHints(exit, ev))}
	case wire.OutcomeInterrupted:
		// brig sent none, or it did not arrive: the program raised it.
		return verdict{Cause: sandbox.Exception, Detail: "KeyboardInterrupt was raised, but not by brig"}
	}
	return verdict{Cause: sandbox.Internal, Detail: fmt.Sprintf("the runner reported an unknown outcome %q", exit.Outcome)}
}

// limitHints tell of limits that were met, whatever became of the run.
func limitHints(exit wire.Exit, ev evidence) string { return join(oomHint(exit, ev), forkHint(ev)) }

func oomHint(exit wire.Exit, ev evidence) string {
	switch kills := ev.oomKills(exit); {
	case kills == 1:
		return fmt.Sprintf("the kernel killed a process at the memory limit of %s", size(ev.Limits.Memory))
	case kills > 1:
		return fmt.Sprintf("the kernel killed %d processes at the memory limit of %s", kills, size(ev.Limits.Memory))
	}
	return ""
}

// exceptionHint names the limit behind an exception that does not name it itself.
// It explains to a person; nothing branches on it.
func exceptionHint(exit wire.Exit, ev evidence) string {
	e := exit.Exception
	if exit.MemoryHeld || e != nil && e.Name == "MemoryError" {
		return fmt.Sprintf("the memory limit is %s", size(ev.Limits.Memory))
	}
	if e == nil {
		return ""
	}
	switch {
	case e.Name == "BlockingIOError" && (strings.Contains(e.Message, "Errno 11]") || strings.Contains(e.Message, "Errno 35]")),
		e.Name == "RuntimeError" && strings.Contains(e.Message, "can't start new thread"):
		if ev.forksCounted() {
			return "" // then forkHint knows, and an exception that only looks like it explains nothing
		}
		return fmt.Sprintf("the limit is %d processes and threads", ev.Limits.Processes)
	case e.Name == "OSError" && (strings.Contains(e.Message, "Errno 28]") || strings.Contains(e.Message, "Errno 122]")):
		return fmt.Sprintf("a disk was full: the workspace may hold %s, scratch and shared memory less", size(ev.Limits.Workspace))
	case e.Name == "OSError" && strings.Contains(e.Message, "Errno 27]"):
		return fmt.Sprintf("a file may hold %s", size(min(ev.Limits.FileSize, ev.Limits.Workspace)))
	case e.Name == "OSError" && strings.Contains(e.Message, "Errno 24]"):
		return fmt.Sprintf("a process may have %d files open", ev.Limits.OpenFiles)
	}
	return ""
}

// signalName knows the numbers that a dying interpreter shows, as Linux counts them.
func signalName(n int) string {
	names := map[int]string{
		1: "SIGHUP", 2: "SIGINT", 3: "SIGQUIT", 4: "SIGILL", 5: "SIGTRAP", 6: "SIGABRT", 7: "SIGBUS", 8: "SIGFPE",
		9: "SIGKILL", 10: "SIGUSR1", 11: "SIGSEGV", 12: "SIGUSR2", 13: "SIGPIPE", 14: "SIGALRM", 15: "SIGTERM",
		24: "SIGXCPU", 25: "SIGXFSZ", 31: "SIGSYS",
	}
	if name, known := names[n]; known {
		return fmt.Sprintf("%s (%d)", name, n)
	}
	return fmt.Sprintf("signal %d", n)
}

// size words a number of bytes.
func size(n int64) string {
	const kib = 1 << 10
	unit, names := int64(1), []string{"bytes", "KiB", "MiB", "GiB", "TiB"}
	for len(names) > 1 && n >= unit*kib {
		unit, names = unit*kib, names[1:]
	}
	if n%unit == 0 {
		return fmt.Sprintf("%d %s", n/unit, names[0])
	}
	return fmt.Sprintf("%.1f %s", float64(n)/float64(unit), names[0])
}

// join puts sentences together and leaves empty ones out.
func join(sentences ...string) string {
	var out []string
	for _, s := range sentences {
		if s != "" {
			out = append(out, s)
		}
	}
	return strings.Join(out, "; ")
}
