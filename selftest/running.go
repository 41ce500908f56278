package selftest

import (
	"encoding/json"
	"net"
	"os"
	"path/filepath"
	"strconv"

	"brig/orchestrator/api"
)

// running is what the brig that serves from that runtime directory could be reached by.
// All of it may be empty: then none runs, and stand-ins are tried in its place.
func running(runtime string) map[string]any {
	sockets, files := []string{}, []string{}
	found := map[string]any{"sockets": sockets, "files": files, "port": nil}
	if runtime == "" {
		return found
	}
	for _, name := range []string{api.AgentSocket, api.OperatorSocket} {
		path := filepath.Join(runtime, name)
		if info, err := os.Lstat(path); err == nil && info.Mode()&os.ModeSocket != 0 {
			sockets = append(sockets, path)
		}
	}
	for _, name := range []string{api.AgentToken, api.MCPToken, api.OperatorToken, api.EndpointFile} {
		path := filepath.Join(runtime, name)
		if info, err := os.Lstat(path); err == nil && info.Mode().IsRegular() {
			files = append(files, path)
		}
	}
	found["sockets"], found["files"], found["port"] = sockets, files, port(filepath.Join(runtime, api.EndpointFile))
	return found
}

// port is the place on loopback that the file names, as T has addresses; nil: none.
func port(file string) any {
	text, err := os.ReadFile(file)
	var b api.Bound
	if err != nil || json.Unmarshal(text, &b) != nil {
		return nil
	}
	host, digits, err := net.SplitHostPort(b.Address)
	number, bad := strconv.ParseUint(digits, 10, 16)
	if ip := net.ParseIP(host); err != nil || bad != nil || ip == nil || !ip.IsLoopback() {
		return nil
	}
	return []any{host, number}
}
