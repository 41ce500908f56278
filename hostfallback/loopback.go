package hostfallback

import (
	"errors"

	"brig/hostfallback/confine"
	"brig/orchestrator/sandbox"
)

// loopback refuses a machine that has no network stack of the instance's own to
// offer, where host.network asks for the loopback of one. The machine's own
// loopback, where its databases and servers listen, is never given instead.
func (e evidence) loopback() error {
	if e.base.Network != sandbox.NetworkLoopback {
		return nil
	}
	r := e.report
	remedy := why(codeNoLoopback).remedy
	var because reason
	switch {
	case e.base.Mode == sandbox.ModeOff:
		because, remedy = why(confine.CodeOff), "set host.sandbox to best-effort, or host.network to allow"
	case r.Windows != nil || r.Seatbelt != nil:
		because = reason{cause: "this system has no network of one's own to give"}
	case !e.ownNetwork():
		because = whyNot(e.part(r.Namespaces.Network))
	case !r.Namespaces.Loopback:
		because = reason{cause: "the loopback device of the own network stays down"}
	case e.byNetworkDenied():
		because = reason{cause: "the runner is in the network of the machine"}
	case e.saw("bind_loopback") != "" && e.saw("bind_loopback") != "ok" && e.saw("bind_loopback") != "unavailable":
		because = reason{cause: "the runner cannot use it: " + e.saw("bind_loopback")}
	default:
		return nil
	}
	return unavailable(codeNoLoopback, remedy, errors.ErrUnsupported,
		"host.network is loopback, and there is no private loopback here, because %s", because.cause)
}

// byNetworkDenied says that the runner saw that it is in brig's own network.
func (e evidence) byNetworkDenied() bool {
	return e.inSpace("net") != "" && e.inSpace("net") == e.outside["net"]
}
