package selftest

import "net"

const mostAddresses = 4 // of the machine that are listened on

// machineAddresses are this machine's own but the loopback ones, bridges of engines included.
func machineAddresses() []string {
	all, err := net.InterfaceAddrs()
	if err != nil {
		return nil
	}
	var found []string
	for _, a := range all {
		n, ok := a.(*net.IPNet)
		if !ok || n.IP.IsLoopback() || n.IP.IsLinkLocalUnicast() || len(found) == mostAddresses {
			continue
		}
		found = append(found, n.IP.String())
	}
	return found
}
