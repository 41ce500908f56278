package selftest

import (
	"strings"

	"brig/orchestrator/sandbox"
)

// kernelCall is one system call that a probe makes, which is also its step.
type kernelCall struct {
	id, call, claim, attempt string
	severity                 Severity
	also                     []Evidence
}

// kernelProbes are calls that analysis code does not need. The filter's are refused
// wherever the filter is; the surface's are those that holes are found in, where a
// kernel of its own counts as well.
func kernelProbes() []Probe {
	const (
		user   = "Code cannot become the root of a user namespace"
		priv   = "no privilege for it, or the system call filter"
		module = "Landlock, or another security module"
	)
	filter := []kernelCall{
		{id: "kernel-mount", call: "mount", claim: "Code cannot mount file systems.", attempt: "mounts an empty file system, in namespaces of its own if it gets them", severity: High, also: []Evidence{{Step: "mount-own", Sign: "EPERM", By: module}, {Step: "mount-own", Sign: "EACCES", By: module}}},
		{id: "kernel-setns", call: "setns", claim: "Code cannot enter other namespaces.", attempt: "enters the network namespace it is in", severity: High, also: []Evidence{{Step: "setns-own", Sign: "EPERM", By: module}, {Step: "setns-own", Sign: "EACCES", By: module}}},
		{id: "kernel-userns-unshare", call: "unshare", claim: user + ".", attempt: "makes a user namespace with unshare", severity: High},
		{id: "kernel-userns-clone", call: "clone", claim: user + " by starting a process.", attempt: "makes a user namespace with clone", severity: High},
		{id: "kernel-userns-clone3", call: "clone3", claim: user + " by a call whose arguments no filter can read.", attempt: "makes a user namespace with clone3", severity: High},
		{id: "kernel-keyctl", call: "keyctl", claim: "Code cannot reach the kernel's keyrings.", attempt: "asks for its session's keyring", severity: High},
		{id: "kernel-personality", call: "personality", claim: "Code cannot turn off the randomness of its addresses.", attempt: "asks for a personality without it", severity: Low, also: []Evidence{{Step: "personality", Sign: "EINVAL", By: byOtherKernel}}},
		{id: "kernel-handle", call: "name_to_handle_at", claim: "Code cannot name files by handles, which pass by directories.", attempt: "asks for the handle of a directory", severity: Medium, also: []Evidence{{Step: "name_to_handle_at", Sign: "ENOTSUP", By: "file systems without handles"}}},
		{id: "kernel-mq", call: "mq_open", claim: "Code cannot use message queues, which lie in no directory.", attempt: "makes a queue of its own and removes it", severity: Medium},
		{
			id: "kernel-i386", call: "int80", claim: "Code cannot enter the kernel by its 32-bit door.", attempt: "opens a socket with a 32-bit system call", severity: High,
			// A kill has no step: the attempt is gone before it can name one.
			also: []Evidence{{Sign: "SIGSYS", By: byFilter}, {Sign: "SIGSEGV", By: "a kernel without this door"}},
		},
		{
			id: "kernel-x32", call: "x32", claim: "Code cannot enter the kernel by the numbers of the x32 interface.", attempt: "opens a socket with an x32 number", severity: High,
			also: []Evidence{{Sign: "SIGSYS", By: byFilter}},
		},
	}
	surface := []kernelCall{
		{id: "kernel-io-uring", call: "io_uring_setup", claim: "Code cannot use io_uring, which passes by system call filters.", attempt: "makes a ring", severity: High},
		{id: "kernel-bpf", call: "bpf", claim: "Code cannot load programs into the kernel.", attempt: "makes a BPF array of one number", severity: High},
		{id: "kernel-perf", call: "perf_event_open", claim: "Code cannot use the kernel's performance counters.", attempt: "opens a counter that counts nothing", severity: Medium, also: []Evidence{{Step: "perf_event_open", Sign: "ENODEV", By: byOtherCalls}}},
		{id: "kernel-userfaultfd", call: "userfaultfd", claim: "Code cannot make the kernel wait for its memory.", attempt: "opens a userfaultfd for faults of its own", severity: Medium},
		{id: "kernel-add-key", call: "add_key", claim: "Code cannot put keys into the kernel.", attempt: "adds a key to its thread's own keyring", severity: Medium},
		{id: "kernel-fsopen", call: "fsopen", claim: "Code cannot prepare file systems in the kernel.", attempt: "opens a context for one, in namespaces of its own if it gets them", severity: High, also: []Evidence{{Step: "fsopen-own", Sign: "EPERM", By: module}, {Step: "fsopen-own", Sign: "EACCES", By: module}, {Step: "fsopen-own", Sign: "ENOSYS", By: byOtherCalls}}},
		{id: "kernel-memfd-secret", call: "memfd_secret", claim: "Code cannot hide memory from the kernel.", attempt: "opens secret memory", severity: Low},
		{
			id: "kernel-tiocsti", call: "tiocsti", claim: "Code cannot type into the terminal that brig was started from.", attempt: "puts a character that shells pass over into the input of its terminal", severity: High,
			also: []Evidence{
				{Step: "open", Sign: "ENXIO", By: "a session of its own without a terminal"},
				{Step: "open", Sign: "ENOENT", By: "devices of its own"},
				{Step: "open", Sign: "EACCES", By: "rules for devices"},
				{Step: "open", Sign: "EPERM", By: "rules for devices"},
				{Step: "tiocsti", Sign: "EIO", By: "the kernel's setting dev.tty.legacy_tiocsti"},
				{Step: "tiocsti", Sign: "ENOTTY", By: byOtherCalls},
			},
		},
	}
	var all []Probe
	for _, c := range filter {
		p := c.probe(sandbox.SyscallFilter, []string{"guest-kernel", "call-not-refused"})
		if c.id == "kernel-i386" || c.id == "kernel-x32" {
			p.Archs = []string{"amd64"}
		}
		if strings.HasPrefix(c.id, "kernel-userns-") {
			p.Blocked[0].By = "the system call filter, or the kernel's own setting"
		}
		if c.id == "kernel-mount" || c.id == "kernel-setns" {
			p.Blocked[0].By = priv
		}
		if c.id == "kernel-mq" {
			p.Blocked[1].By = "Landlock, or " + byOtherKernel
		}
		all = append(all, p)
	}
	for _, c := range surface {
		p := c.probe(sandbox.KernelSurface, []string{"shared-kernel", "apparmor-not-applied", "selinux-not-applied"})
		p.Blocked = append(p.Blocked, Evidence{Sign: "other-kernel", By: "another kernel than this machine's"})
		if c.id == "kernel-bpf" || c.id == "kernel-fsopen" {
			p.Blocked[0].By = priv
		}
		all = append(all, p)
	}
	return all
}

func (c kernelCall) probe(layer sandbox.LayerID, gaps []string) Probe {
	return Probe{
		ID: c.id, Layer: layer, Claim: c.claim, Attempt: c.attempt, Observed: onlyTheAnswer, Witness: Program, Severity: c.severity,
		Blocked: append([]Evidence{
			{Step: c.call, Sign: "EPERM", By: byFilter},
			{Step: c.call, Sign: "EACCES", By: byOtherCalls},
			{Step: c.call, Sign: "ENOSYS", By: byOtherCalls},
		}, c.also...),
		Gaps: gaps, Stage: Shared, Fix: "run brig doctor, which names the layer that is missing and how to get it",
	}
}
