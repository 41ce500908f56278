package server

import (
	"net"
	"net/http"
	"slices"

	"brig/orchestrator/api"
)

// host refuses a request that was meant for another host: that is how a web page
// looks whose name was made to point at this machine. A unix socket has no port and
// no browser comes through it.
func (q *request) host(r *http.Request) *api.Problem {
	if q.conn.from != loopback {
		return nil
	}
	if !slices.Contains(hostsOf(q.conn.LocalAddr()), r.Host) {
		return api.NewProblem(api.CodeHost, "the request is for another host", "use the address that endpoint.json names")
	}
	return nil
}

// hostsOf are the exact Host headers that mean an address of this machine.
func hostsOf(a net.Addr) []string {
	host, port, err := net.SplitHostPort(a.String())
	if err != nil {
		return nil
	}
	names := []string{host, "localhost"}
	hosts := make([]string, 0, len(names)+2)
	for _, name := range names {
		hosts = append(hosts, net.JoinHostPort(name, port))
	}
	if port == "80" { // which a client leaves out
		hosts = append(hosts, "localhost", host)
	}
	return hosts
}
