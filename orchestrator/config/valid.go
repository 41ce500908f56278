package config

import (
	"net/netip"
	"net/url"
	"path/filepath"
	"strconv"
	"strings"
)

// validProgram takes an absolute path or a bare name. A relative path would mean
// another program in each directory, some of them written by an agent.
func validProgram(s string) *fault {
	if filepath.IsAbs(s) || !strings.ContainsAny(s, `/\`) && !strings.HasPrefix(s, "-") && !strings.HasPrefix(s, "~") {
		return nil
	}
	return &fault{text: brief(s) + " is neither an absolute path nor a plain name", suggestion: hintHome(s)}
}

func validPath(s string) *fault {
	if filepath.IsAbs(s) {
		return nil
	}
	return &fault{text: brief(s) + " is not an absolute path", suggestion: hintHome(s)}
}

func hintHome(s string) string {
	if strings.HasPrefix(s, "~") || strings.HasPrefix(s, "$") {
		return "write the path in full, nothing in it is replaced"
	}
	return ""
}

func validEndpoint(s string) *fault {
	schemes := []string{"unix", "npipe", "tcp", "http", "https", "ssh"}
	if strings.HasPrefix(s, "/") {
		return &fault{text: brief(s) + " has no scheme", suggestion: "did you mean " + brief("unix://"+s) + "?"}
	}
	u, err := url.Parse(s)
	if err != nil || u.Scheme == "" || !strings.HasPrefix(s[len(u.Scheme):], "://") {
		return faultf("%s is not an address with a scheme", brief(s))
	}
	for _, scheme := range schemes {
		if u.Scheme != scheme {
			continue
		}
		if u.Host == "" && u.Path == "" {
			return faultf("%s has no address after the scheme", brief(s))
		}
		if u.User != nil {
			if _, has := u.User.Password(); has {
				return faultf("a password does not belong into the settings")
			}
		}
		return nil
	}
	return &fault{text: "unknown scheme " + brief(u.Scheme), suggestion: meant(u.Scheme, schemes)}
}

// validReference takes the characters of a reference; whether it is one, the docker
// backend finds out.
func validReference(s string) *fault { return plain(s, "_.-/:@", 512) }

func validContext(s string) *fault { return plain(s, "_.+-", 255) }
func validName(s string) *fault    { return plain(s, "_.-", 128) }

// plain takes letters, digits and a few more, the first of them a letter or digit.
func plain(s, more string, most int) *fault {
	for i, r := range s {
		letter := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9'
		if !letter && (i == 0 || !strings.ContainsRune(more, r)) {
			return faultf("%s contains %s, which no such name does", brief(s), brief(string(r)))
		}
	}
	if len(s) > most {
		return faultf("it is longer than %d characters", most)
	}
	return nil
}

// NoLoopback is the value of server.listen for sockets only.
const NoLoopback = "none"

func validListen(s string) *fault {
	if s == NoLoopback {
		return nil
	}
	addr, err := netip.ParseAddrPort(s)
	if err == nil && addr.Addr().Unmap().IsLoopback() && addr.Addr().Zone() == "" {
		return nil
	}
	f := faultf("%s is neither a loopback address with a port nor none", brief(s))
	if i := strings.LastIndexByte(s, ':'); i >= 0 {
		if _, err := strconv.ParseUint(s[i+1:], 10, 16); err == nil {
			f.suggestion = "did you mean " + brief("127.0.0.1"+s[i:]) + "?"
		}
	}
	return f
}
