package sandbox

// Cause is why a run or an instance ended. It comes from evidence (a cgroup
// counter, a wait status, brig's own timer), never from an exit number alone.
type Cause string

const (
	OK          Cause = "ok"           // an end was seen and it was good
	Exception   Cause = "exception"    // an uncaught exception
	Exit        Cause = "exit"         // the program's own status, whatever the number
	Timeout     Cause = "timeout"      // brig's wall clock
	Interrupted Cause = "interrupted"  // a person's or agent's interrupt
	Cancelled   Cause = "cancelled"    // the caller went away
	MemoryOut   Cause = "memory"       // the memory limit
	ProcessOut  Cause = "processes"    // the process limit
	DiskOut     Cause = "disk"         // a disk limit
	OutputOut   Cause = "output"       // the output limit, where it ends a run
	Killed      Cause = "killed"       // a signal that brig did not send
	BackendLost Cause = "backend-lost" // engine or connection gone, no end was seen
	Refused     Cause = "refused"      // guard, approval or policy
	Internal    Cause = "internal"     // brig's own fault
)

// Causes lists every cause.
func Causes() []Cause {
	return []Cause{
		OK, Exception, Exit, Timeout, Interrupted, Cancelled, MemoryOut, ProcessOut,
		DiskOut, OutputOut, Killed, BackendLost, Refused, Internal,
	}
}
