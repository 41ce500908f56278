package sandboxtest

// Process is one process of an instance as an observer outside of it sees it.
type Process struct {
	ID      string // never used for another process, such as "1234@5678901" (number and start time)
	Command string // for messages
}

// ProcTree lists root and everything below it, from the kernel's own process
// table. It is an observer for backends whose processes the tests can see; on a
// system without one it lists nothing.
func ProcTree(root int) []Process { return procTree(root) }

// ProcAlive tells whether a process that ProcTree listed still lives. A zombie
// does not: it runs nothing and holds nothing.
func ProcAlive(p Process) bool { return procAlive(p) }
