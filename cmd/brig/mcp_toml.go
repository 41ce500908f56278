package main

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/BurntSushi/toml"
)

// insertTOML puts the table mcp_servers.brig into the text of a settings file and
// leaves everything else as it is.
func insertTOML(text []byte, s mcpServer) ([]byte, error) {
	was, err := tomlOf(text)
	if err != nil {
		return nil, err
	}
	table := tomlTable(s)
	begin, end, found := tomlSection(text)
	var out []byte
	switch {
	case found:
		out = splice(text, begin, end, table)
	case serverIn(was) != nil:
		return nil, errors.New("brig is named there in a way that is not understood")
	default:
		out = bytes.Clone(text)
		if len(out) > 0 {
			out = append(bytes.TrimRight(out, "\n"), "\n\n"...)
		}
		out = append(out, table...)
	}
	is, err := tomlOf(out)
	if err != nil {
		return nil, fmt.Errorf("the changed text would not be TOML: %w", err)
	}
	if reflect.DeepEqual(serverIn(was), serverIn(is)) {
		return text, nil
	}
	forget(was)
	forget(is)
	if !reflect.DeepEqual(was, is) {
		return nil, errors.New("the change would touch other entries")
	}
	return out, nil
}

func tomlOf(text []byte) (map[string]any, error) {
	m := map[string]any{}
	if err := toml.Unmarshal(text, &m); err != nil {
		return nil, fmt.Errorf("it is not TOML: %w", err)
	}
	return m, nil
}

func serverIn(m map[string]any) any {
	servers, _ := m["mcp_servers"].(map[string]any)
	return servers["brig"]
}

func forget(m map[string]any) {
	if servers, ok := m["mcp_servers"].(map[string]any); ok {
		if delete(servers, "brig"); len(servers) == 0 {
			delete(m, "mcp_servers")
		}
	}
}

// tomlSection finds the table for brig with its own subtables, to its last entry: what
// stands between that and the next table belongs to the next.
func tomlSection(text []byte) (begin, end int, found bool) {
	at, inside := 0, false
	for line := range bytes.Lines(text) {
		name, is := tomlHeader(line)
		if is {
			inside = name == "mcp_servers.brig" || strings.HasPrefix(name, "mcp_servers.brig.")
			if inside && !found {
				begin, found = at, true
			}
		}
		at += len(line)
		if s := bytes.TrimSpace(line); inside && len(s) > 0 && (is || s[0] != '#') {
			end = at
		}
	}
	return begin, end, found
}

// tomlHeader is the name in a line that begins a table.
func tomlHeader(line []byte) (string, bool) {
	s := strings.TrimSpace(string(line))
	if !strings.HasPrefix(s, "[") {
		return "", false
	}
	name, _, _ := strings.Cut(strings.TrimLeft(s, "["), "]")
	return strings.NewReplacer(" ", "", `"`, "", "'", "").Replace(name), true
}

func tomlTable(s mcpServer) string {
	var b strings.Builder
	b.WriteString("[mcp_servers.brig]\n")
	fmt.Fprintf(&b, "command = %s\n", tomlString(s.Command))
	args := make([]string, 0, len(s.Args))
	for _, a := range s.Args {
		args = append(args, tomlString(a))
	}
	fmt.Fprintf(&b, "args = [%s]\n", strings.Join(args, ", "))
	b.WriteString("startup_timeout_sec = 30\ntool_timeout_sec = 60\n")
	if len(s.Env) > 0 {
		b.WriteString("\n[mcp_servers.brig.env]\n")
		for _, name := range slices.Sorted(maps.Keys(s.Env)) {
			fmt.Fprintf(&b, "%s = %s\n", name, tomlString(s.Env[name]))
		}
	}
	return b.String()
}

// tomlString is a basic string; TOML's escapes are those of JSON.
func tomlString(s string) string { return jsonString(s) }
