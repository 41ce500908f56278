package selftest

import "brig/orchestrator/sandbox"

const byRunner = "a runner that cannot be looked into"

// controlProbes are those of the stream between brig and the runner: whoever can
// write to it tells brig what the code did.
func controlProbes() []Probe {
	reach := func(id, claim, attempt, observed string, layer sandbox.LayerID, gaps []string, blocked ...Evidence) Probe {
		return Probe{
			ID: id, Layer: layer, Claim: claim, Attempt: attempt, Observed: observed, Witness: Program,
			Blocked: blocked, Severity: High, Fix: "brig doctor", Gaps: gaps, Stage: Shared,
		}
	}
	dumpable := []string{"runner-dumpable"}
	forged := reach(forgedFrame, "What code prints is taken for nothing that the runner says.", "print a whole frame of the stream between the runner and brig, which tells of a line on the other output", "the line arrives on the other output",
		sandbox.InheritedFDs, nil, Evidence{"look", "absent", "a stream that what code prints is not part of, but only content"})
	forged.Witness = Listener
	return []Probe{
		forged,
		reach("control-stream", "Code cannot open the stream between brig and the runner.", "open the runner's input and output through /proc", "the kernel opens them",
			sandbox.Ptrace, dumpable, Evidence{"open", "EACCES", byRunner}, Evidence{"open", "EPERM", byRunner}, Evidence{"open", "ENOENT", byRunner}),
		reach("control-memory", "Code cannot change the runner.", "open the runner's memory for writing through /proc", "the kernel opens it",
			sandbox.Ptrace, dumpable, Evidence{"open", "EACCES", byRunner}, Evidence{"open", "EPERM", byRunner}, Evidence{"open", "EROFS", byReadOnly}),
		reach("control-fetch", "Code cannot take over the runner's end of the stream.", "fetch the runner's descriptor as its own", "the kernel hands it over",
			sandbox.Ptrace, dumpable, Evidence{"open", "EPERM", byFilter}, Evidence{"open", "ENOSYS", byGuest},
			Evidence{"fetch", "EPERM", "the system call filter, or a runner that cannot be looked into"}, Evidence{"fetch", "ENOSYS", byGuest}),
		reach("control-descriptor", "Programs that code starts hold no end of the stream.", "look for pipes and sockets beside the standard ones", "there is one",
			sandbox.InheritedFDs, nil, Evidence{"look", "absent", "descriptors that are closed before code starts"}),
		reach("control-input", "The code's own input is empty.", "read from standard input", "something comes",
			sandbox.InheritedFDs, nil, Evidence{"read", "absent", "an input that is empty"}),
	}
}
