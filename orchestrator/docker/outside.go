package docker

// outside is what this machine shows of a container's first process, where it is
// the engine's machine. Nothing inside can forge it. Empty where it cannot be read.
type outside struct {
	groups map[string]string // control file → trimmed content, v1 or v2
	label  string            // of the security module
}

// limitFiles are the control files that hold a limit, by the controller of version
// 1; "" is the one hierarchy of version 2.
func limitFiles() map[string][]string {
	return map[string][]string{
		"":       {"pids.max", "memory.max", "memory.swap.max", "cpu.max"},
		"pids":   {"pids.max"},
		"memory": {"memory.limit_in_bytes", "memory.memsw.limit_in_bytes", "memory.kmem.tcp.limit_in_bytes"},
		"cpu":    {"cpu.cfs_quota_us", "cpu.cfs_period_us"},
	}
}
