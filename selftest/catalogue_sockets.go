package selftest

import "brig/orchestrator/sandbox"

// socketProbes are the ways to other programs of the user by local sockets. Brig's
// stand-ins lie where the real ones would be found by the same means.
func socketProbes() []Probe {
	var all []Probe
	for _, s := range []struct {
		id, claim, what string
		severity        Severity
	}{
		{"unix-engine", "Code cannot talk to a container engine, which would give it the machine.", "an engine's socket", Critical},
		{"unix-bus", "Code cannot talk to the session's message bus.", "a message bus", Critical},
		{"unix-wayland", "Code cannot open windows or see others by Wayland.", "a Wayland display", High},
		{"unix-x11", "Code cannot open windows, read keys or see others by X11.", "an X11 display", Critical},
		{"unix-agent", "Code cannot use the keys that an SSH agent holds.", "an SSH agent", Critical},
		{"unix-brig", "Code cannot talk to brig's own socket.", "brig's socket", Critical},
	} {
		all = append(all, Probe{
			ID: s.id, Claim: s.claim, Attempt: "connects to a stand-in for " + s.what, Severity: s.severity,
			Observed: heardByListener, Witness: Listener, Gaps: pathsOpen(),
			// The control shows that somebody listens, so that a refusal is not for want of that.
			Blocked: append(noPath(), Evidence{Step: "connect", Sign: "ECONNREFUSED", By: "another kernel, which passes no local socket on"}),
		})
	}
	all = append(
		all, Probe{
			ID: "unix-abstract", Claim: "Code cannot reach sockets with abstract names, which lie in no directory.",
			Attempt: "connects to brig's listener with an abstract name", Severity: Critical, Observed: heardByListener, Witness: Listener,
			Gaps: []string{"abstract-names-shared"},
			Blocked: append(noSocket(),
				Evidence{Step: "connect", Sign: "EPERM", By: byLandlock},
				Evidence{Step: "connect", Sign: "ECONNREFUSED", By: "abstract names of its own"}),
		}, Probe{
			ID: "unix-datagram", Claim: "Code cannot send a datagram to a local socket from a pair of its own.",
			Attempt: "sends from one end of a socket pair to brig's datagram socket", Severity: High, Observed: heardByListener, Witness: Listener,
			Blocked: []Evidence{
				{Step: "socketpair", Sign: "EACCES", By: byFilter},
				{Step: "socketpair", Sign: "EPERM", By: byFilter},
				{Step: "send", Sign: "EACCES", By: byLandlock},
				{Step: "send", Sign: "ENOENT", By: "files of its own"},
				{Step: "send", Sign: "EISCONN", By: byOtherKernel},
			},
			Gaps: pathsOpen(),
		}, Probe{
			ID: "unix-real", Claim: "Code cannot connect to the engine, bus, agent and displays that are really here.",
			Attempt: "connects to each of them, says nothing and closes; where there is none, to a stand-in", Severity: Critical,
			Observed: "the connection is accepted", Witness: Program, Blocked: noPath(), Gaps: pathsOpen(),
		},
	)
	all = append(all, Probe{
		ID: "unix-brig-running", Claim: "Code cannot connect to the sockets of the brig that runs it.",
		Attempt: "connects to each of them, says nothing and closes; where no brig stays, to a stand-in", Severity: Critical,
		Observed: "the connection is accepted", Witness: Program, Blocked: noPath(), Gaps: pathsOpen(),
	})
	for i := range all {
		all[i].Layer, all[i].Stage, all[i].Fix = sandbox.UnixSockets, Shared, fixNetwork
	}
	return all
}

// pathsOpen are the codes of a posture that says that sockets in directories can be connected to.
func pathsOpen() []string {
	return []string{"landlock-abi-*-lacks-unix", "landlock-not-*", gapNotApplied, gapForeign}
}

func noPath() []Evidence {
	return append(noSocket(),
		Evidence{Step: "connect", Sign: "EACCES", By: byLandlock},
		Evidence{Step: "connect", Sign: "ENOENT", By: "files of its own"})
}
