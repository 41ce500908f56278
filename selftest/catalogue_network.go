package selftest

import "brig/orchestrator/sandbox"

const (
	byFilter      = "the system call filter"
	byLandlock    = "Landlock"
	byNoNetwork   = "a network of its own without an interface"
	byOwnLoop     = "a loopback of its own"
	byOtherKernel = "another kernel that lacks it"
	byOtherCalls  = "the system call filter, or another kernel that lacks it"
)

const (
	heardByListener = "a listener of brig's outside got the attempt's token"
	onlyTheAnswer   = "the kernel's answer to the call; nothing outside can see it"
	fixNetwork      = "run brig doctor and start the Docker engine it names, or set host.sandbox to require"
)

// netProbes are the ways to anything beyond the session by an address. Those with a
// listener of brig's decide on a machine without a network too: where it has no
// address but loopback, that one is sought, at steps with another name.
func netProbes() []Probe {
	all := []Probe{
		{
			ID: "net-tcp", Claim: "Code cannot open a TCP connection.",
			Attempt: "connects to brig's listener on an address of this machine", Severity: Critical,
		},
		{
			ID: "net-udp", Claim: "Code cannot send a datagram.",
			Attempt: "sends a datagram to brig's listener on an address of this machine and waits for the answer", Severity: Critical, Gaps: notPlainTCP(),
		},
		{
			ID: "net-dns", Claim: "Code cannot ask a name server, which is also a way to send data out.",
			Attempt: "sends a question for a name to brig's listener, as a resolver would", Severity: Critical, Gaps: notPlainTCP(),
		},
		{
			ID: "net-mptcp", Claim: "Code cannot get out by multipath TCP, which rules for TCP may not see.",
			Attempt: "connects with multipath TCP to brig's listener", Severity: Critical, Gaps: notPlainTCP(),
		},
		{
			ID: "net-fastopen", Claim: "Code cannot get out by TCP fast open, which connects without the call to connect.",
			Attempt: "sends to brig's listener with MSG_FASTOPEN", Severity: Critical, Gaps: notPlainTCP(),
		},
		{
			ID: "net-high-bits", Claim: "Code cannot get past the filter with bits that the kernel ignores.",
			Attempt: "opens a socket with high bits in its domain and connects to brig's listener", Severity: Critical,
		},
	}
	for i := range all {
		p := &all[i]
		p.Observed, p.Witness, p.Blocked = heardByListener, Listener, append(noInternet(), ownLoopback()...)
		// Another kernel, such as gVisor's, that never learned it. The control shows that this one did.
		switch p.ID {
		case "net-mptcp":
			p.Blocked = append(p.Blocked,
				Evidence{Step: "socket", Sign: "EPROTONOSUPPORT", By: byOtherKernel},
				Evidence{Step: "socket", Sign: "EINVAL", By: byOtherKernel})
		case "net-fastopen":
			p.Blocked = append(p.Blocked,
				Evidence{Step: "connect", Sign: "EPIPE", By: byOtherKernel},
				Evidence{Step: "connect-loopback", Sign: "EPIPE", By: byOtherKernel})
		}
	}
	for _, p := range []Probe{
		{
			ID: "net-metadata", Claim: "Code cannot reach the metadata address of a cloud, where a machine's keys are.",
			Attempt: "begins a connection to 169.254.169.254 and gives it up at once", Severity: Critical,
		},
		{
			ID: "net-test-net", Claim: "Code cannot reach addresses of the internet.",
			Attempt: "begins a connection to 192.0.2.1, which is kept for examples, and gives it up at once", Severity: Critical,
		},
		{
			ID: "net-ipv6", Claim: "Code cannot reach addresses of the internet by IPv6 either.",
			Attempt: "begins a connection to 2001:db8::1, which is kept for examples, and gives it up at once", Severity: Critical,
		},
	} {
		p.Observed, p.Witness, p.Blocked = "the kernel sends the first packet; without a way out it refuses at once", Program, noInternet()
		all = append(all, p)
	}
	for i := range all {
		all[i].Layer = sandbox.NetOutbound
	}
	for _, p := range []Probe{
		{
			ID: "net-loopback-tcp", Claim: "Code cannot reach servers on this machine's loopback, such as a database.",
			Attempt: "connects to brig's listener on 127.0.0.1", Severity: High,
		},
		{
			ID: "net-loopback-udp", Claim: "Code cannot reach datagram services on this machine's loopback.",
			Attempt: "sends a datagram to brig's listener on 127.0.0.1 and waits for the answer", Severity: High, Gaps: notPlainTCP(),
		},
		{
			ID: "net-loopback-tcp6", Claim: "Code cannot reach servers on this machine's IPv6 loopback.",
			Attempt: "connects to brig's listener on ::1", Severity: High,
		},
		{
			ID: "net-loopback-udp6", Claim: "Code cannot reach datagram services on this machine's IPv6 loopback.",
			Attempt: "sends a datagram to brig's listener on ::1 and waits for the answer", Severity: High, Gaps: notPlainTCP(),
		},
	} {
		p.Layer, p.Observed, p.Witness, p.Blocked = sandbox.NetLoopback, heardByListener, Listener, append(noSocket(), ownLoopback()...)
		all = append(all, p)
	}
	// Where a loopback of its own is what the session is to have, that one must work:
	// one that is dead would refuse brig's listener as well.
	all = append(all, Probe{
		ID: "net-loopback-own", Layer: sandbox.NetLoopback, Claim: "A loopback that code has is its own, and leads to nobody else.",
		Attempt:  "serves itself on 127.0.0.1, where it may, and then connects to brig's listener there",
		Observed: heardByListener, Witness: Listener, Severity: High,
		Blocked: append(append(noSocket(), ownLoopback()...),
			Evidence{Step: "bind", Sign: "EACCES", By: byLandlock},
			Evidence{Step: "own", Sign: "EACCES", By: byLandlock},
			Evidence{Step: "own", Sign: "ENETUNREACH", By: byOwnLoop + " that is down"},
			Evidence{Step: "bind", Sign: "EADDRNOTAVAIL", By: byOwnLoop + " that is down"}),
	})
	all = append(all, Probe{
		ID: "net-brig-running", Layer: sandbox.NetLoopback, Claim: "Code cannot reach the port of the brig that runs it, and none of its pages.",
		Attempt:  "asks for a page there, which everybody may have; where no brig stays, of brig's listener on 127.0.0.1",
		Observed: "an answer comes", Witness: Program, Severity: Critical, Blocked: append(noSocket(), ownLoopback()...),
	})
	all = append(all, familyProbes()...)
	for i := range all {
		all[i].Stage, all[i].Fix = Shared, fixNetwork
	}
	return all
}

// familyProbes are sockets of kinds that analysis code has no use for. What they
// reach in a network of one's own is harmless; what stands behind them in the kernel is not.
func familyProbes() []Probe {
	all := []Probe{
		{
			ID: "net-raw", Claim: "Code cannot make packets of its own.",
			Attempt: "opens a raw socket, and where that needs a privilege, in namespaces of its own",
		},
		{
			ID: "net-packet", Claim: "Code cannot read the packets of others.",
			Attempt: "opens a packet socket, and where that needs a privilege, in namespaces of its own",
		},
		{ID: "net-netlink", Claim: "Code cannot ask the kernel for everybody's sockets.", Attempt: "opens a netlink socket for diagnosis, which no program needs to find an address"},
		{ID: "net-vsock", Claim: "Code cannot talk to the machine that runs this one.", Attempt: "opens a vsock socket"},
		{
			ID:      "net-families",
			Claim:   "Code cannot use kinds of sockets that hardly anybody needs, such as those of keys, vehicles, telephones and clusters.",
			Attempt: "opens a socket of each such kind, and where that needs a privilege, in namespaces of its own",
		},
		{ID: "net-alg", Claim: "Code cannot use the kernel's cryptography, a frequent source of holes.", Attempt: "opens an AF_ALG socket"},
	}
	for i := range all {
		p := &all[i]
		p.Layer, p.Observed, p.Witness, p.Severity = sandbox.SyscallFilter, onlyTheAnswer, Program, Medium
		p.Gaps = []string{"guest-kernel"}
		p.Blocked = append(noSocket(), Evidence{Step: "socket", Sign: "EAFNOSUPPORT", By: byOtherCalls})
	}
	for i := range all {
		switch all[i].ID {
		case "net-raw", "net-packet", "net-families":
		case "net-netlink":
			all[i].Blocked = append(all[i].Blocked, Evidence{Step: "socket", Sign: "EPROTONOSUPPORT", By: byOtherKernel})
			continue
		default:
			continue
		}
		for _, sign := range []string{"EPERM", "EACCES", "ENOSYS", "ENOSPC"} {
			all[i].Blocked = append(all[i].Blocked, Evidence{Step: "unshare", Sign: sign, By: "no privilege, and no namespace to get it in"})
		}
	}
	return all
}

// notPlainTCP are the codes of a posture that says that only plain TCP is refused.
func notPlainTCP() []string { return []string{"landlock-tcp-only"} }

func noSocket() []Evidence {
	return []Evidence{{Step: "socket", Sign: "EACCES", By: byFilter}, {Step: "socket", Sign: "EPERM", By: byFilter}}
}

// noInternet is what stands before an address of a machine. A refusal that came back
// from somewhere is not in it: that is a firewall's and was asked by a packet.
func noInternet() []Evidence {
	return append(noSocket(),
		Evidence{Step: "connect", Sign: "EACCES", By: byLandlock},
		Evidence{Step: "connect", Sign: "ENETUNREACH", By: byNoNetwork},
		Evidence{Step: "connect", Sign: "EHOSTUNREACH", By: byNoNetwork},
		Evidence{Step: "connect", Sign: "EADDRNOTAVAIL", By: byNoNetwork})
}

// ownLoopback is how a loopback answers that brig's listener is not on.
func ownLoopback() []Evidence {
	return []Evidence{
		{Step: "connect-loopback", Sign: "EACCES", By: byLandlock},
		{Step: "connect-loopback", Sign: "ENETUNREACH", By: byOwnLoop + " that is down"},
		{Step: "connect-loopback", Sign: "EADDRNOTAVAIL", By: byOwnLoop + " without this address"},
		{Step: "connect-loopback", Sign: "ECONNREFUSED", By: byOwnLoop},
		{Step: "reply-loopback", Sign: "ECONNREFUSED", By: byOwnLoop},
		{Step: "send-loopback", Sign: "ECONNREFUSED", By: byOwnLoop},
		{Step: "answer-loopback", Sign: "ECONNREFUSED", By: byOwnLoop},
	}
}
