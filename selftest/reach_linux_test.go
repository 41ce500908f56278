package selftest

import "testing"

// TestReach: uncontained, every attempt that has a listener reaches it and the yard
// sees it, or else a session that is refused would prove nothing.
func TestReach(t *testing.T) {
	probes := append(append(netProbes(), socketProbes()...), kernelProbes()...)
	p, got := uncontained(t, Options{}, probes)
	for _, pr := range probes {
		o, ok := got[pr.ID]
		switch {
		case !ok:
			t.Errorf("%s: no outcome", pr.ID)
		case o.OK && pr.Witness == Listener && p.sight(pr, o) != SeenYes:
			t.Errorf("%s says it got through, and the yard saw %s", pr.ID, p.sight(pr, o))
		case o.OK:
		// What depends on the machine: multipath TCP, IPv6 and a way out, families, privileges.
		case pr.Witness == Listener && pr.ID != "net-mptcp" && pr.ID != "net-loopback-tcp6" && pr.ID != "net-loopback-udp6":
			t.Errorf("%s does not get through with nothing around it: %+v", pr.ID, o)
		default:
			t.Logf("%s proves nothing here: %s %s %s", pr.ID, o.Step, o.Sign, o.Detail)
		}
	}
}
