package confine

import (
	"net/netip"
	"regexp"
	"strings"
)

// request is one operation that the kernel would ask the profile about. Of the
// other members those are set that the operation has.
type request struct {
	op     string
	path   string // real path of a file, or of a socket
	name   string // of a service, a sysctl, an object
	target string // "self", "same-sandbox" or "others"
	remote string // address:port
	local  string
}

// evaluate answers a request as macOS does: of the rules that match, the last one
// counts. newer says whether this macOS knows the operations that not all know.
func evaluate(nodes []node, params []Param, newer bool, r request) bool {
	e := evaluator{params: map[string]string{}}
	for _, p := range params {
		e.params[p.Name] = p.Value
	}
	allowed := false
	for _, n := range nodes {
		if n.head() == "if" {
			if !newer {
				continue
			}
			n = n.list[2]
		}
		if (n.head() == "allow" || n.head() == "deny") && e.matches(n, r) {
			allowed = n.head() == "allow"
		}
	}
	return allowed
}

type evaluator struct{ params map[string]string }

func (e evaluator) matches(rule node, r request) bool {
	operation, filtered := false, false
	for _, part := range rule.list[1:] {
		if part.kind == isSymbol {
			operation = operation || part.atom == "default" || covers(part.atom, r.op)
			continue
		}
		filtered = true
	}
	if !operation || !filtered {
		return operation
	}
	for _, part := range rule.list[1:] {
		if part.kind == isList && e.filter(part, r) {
			return true
		}
	}
	return false
}

func (e evaluator) filter(f node, r request) bool {
	value := f.list[len(f.list)-1]
	text := value.atom
	if value.kind == isList {
		text = e.params[value.list[1].atom]
	}
	switch f.head() {
	case "literal":
		return r.path == text
	case "subpath":
		return r.path != "" && beneath(r.path, text)
	case "global-name", "sysctl-name":
		return r.name == text
	case "sysctl-name-prefix":
		return strings.HasPrefix(r.name, text)
	case "ipc-posix-name-regex":
		return regexp.MustCompile(text).MatchString(r.name)
	case "target":
		return r.target == "self" || r.target == text
	case "remote":
		return r.remote != "" && addressMatches(text, r.remote)
	case "local":
		// Of a connection that goes out it is the unspecified address, and every filter matches that.
		return r.op == "network-outbound" && r.remote != "" || r.local != "" && addressMatches(text, r.local)
	}
	panic("BUG: no filter " + f.head())
}

func addressMatches(pattern, address string) bool {
	host, port, _ := strings.Cut(pattern, ":")
	at := netip.MustParseAddrPort(address)
	if port != "*" && port != "0" {
		panic("BUG: ports are not looked at")
	}
	return host == "*" || host == "localhost" && at.Addr().Unmap().IsLoopback()
}
