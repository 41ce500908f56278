package main

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"runtime"
	"strings"

	"brig/orchestrator/config"
)

// mcpClient is a program that starts MCP servers which a file of settings names.
type mcpClient struct {
	Name  string // as in: brig mcp install NAME
	Title string
	// file is where the user's own settings are, project where those of a directory are; empty: nowhere.
	file    func(lookup func(string) (string, bool)) string
	project string
	// section holds the servers.
	section string
	entry   func(server mcpServer) any
	after   string // what to do for it to take effect
	// http is how it is told of the HTTP service instead, with %s for address and token.
	http string
}

// mcpServer is how a client starts brig.
type mcpServer struct {
	Command string
	Args    []string
	Env     map[string]string
}

// stdioEntry is what most clients understand.
type stdioEntry struct {
	Type    string            `json:"type,omitempty"`
	Command string            `json:"command"`
	Args    []string          `json:"args"`
	Env     map[string]string `json:"env,omitempty"`
	Timeout int               `json:"timeout,omitempty"` // milliseconds
}

func typedEntry(s mcpServer) any { return stdioEntry{"stdio", s.Command, s.Args, s.Env, 0} }
func plainEntry(s mcpServer) any { return stdioEntry{"", s.Command, s.Args, s.Env, 0} }
func patientEntry(s mcpServer) any {
	return stdioEntry{"", s.Command, s.Args, s.Env, 60000}
}

const tomlFormat = ".toml"

func mcpClients() []mcpClient {
	home := func(parts ...string) func(func(string) (string, bool)) string {
		return func(lookup func(string) (string, bool)) string { return below(homeOf(lookup), parts...) }
	}
	return []mcpClient{
		{
			Name: "claude-code", Title: "Claude Code", file: home(".claude.json"), project: ".mcp.json", section: "mcpServers", entry: typedEntry,
			after: "start a new Claude Code session; /mcp shows the server",
			http:  "claude mcp add --transport http brig http://%s/mcp --header \"Authorization: Bearer %s\"",
		},
		{
			Name: "claude-desktop", Title: "Claude Desktop", file: claudeDesktopFile, section: "mcpServers", entry: plainEntry,
			after: "quit Claude Desktop and start it again",
		},
		{
			Name: "codex", Title: "Codex", file: codexFile, section: "mcp_servers", entry: plainEntry,
			after: "start a new Codex session; codex mcp list shows the server",
			http:  "[mcp_servers.brig]\nurl = \"http://%s/mcp\"\nbearer_token_env_var = \"BRIG_TOKEN\"   # and export BRIG_TOKEN=%s",
		},
		{
			Name: "cursor", Title: "Cursor", file: home(".cursor", "mcp.json"), project: filepath.Join(".cursor", "mcp.json"), section: "mcpServers", entry: plainEntry,
			after: "switch the server on in Cursor's settings, under MCP",
			http:  `{"mcpServers":{"brig":{"url":"http://%s/mcp","headers":{"Authorization":"Bearer %s"}}}}`,
		},
		{
			Name: "gemini", Title: "Gemini CLI", file: home(".gemini", "settings.json"), project: filepath.Join(".gemini", "settings.json"), section: "mcpServers", entry: patientEntry,
			after: "start Gemini anew; /mcp shows the server",
			http:  `{"mcpServers":{"brig":{"httpUrl":"http://%s/mcp","headers":{"Authorization":"Bearer %s"}}}}`,
		},
		{
			Name: "vscode", Title: "VS Code", file: vscodeFile, project: filepath.Join(".vscode", "mcp.json"), section: "servers", entry: typedEntry,
			after: "start the server with: MCP: List Servers",
			http:  `{"servers":{"brig":{"type":"http","url":"http://%s/mcp","headers":{"Authorization":"Bearer %s"}}}}`,
		},
	}
}

func homeOf(lookup func(string) (string, bool)) string {
	name := "HOME"
	if runtime.GOOS == "windows" {
		name = "USERPROFILE"
	}
	home, _ := lookup(name)
	return home
}

// below joins a path below a directory, and is empty where that is.
func below(dir string, parts ...string) string {
	if dir == "" {
		return ""
	}
	return filepath.Join(append([]string{dir}, parts...)...)
}

// settingsDir is where programs of the desktop keep their settings.
func settingsDir(lookup func(string) (string, bool)) string {
	switch runtime.GOOS {
	case "windows":
		dir, _ := lookup("APPDATA")
		return dir
	case "darwin":
		return below(homeOf(lookup), "Library", "Application Support")
	}
	if dir, _ := lookup("XDG_CONFIG_HOME"); filepath.IsAbs(dir) {
		return dir
	}
	return below(homeOf(lookup), ".config")
}

func claudeDesktopFile(lookup func(string) (string, bool)) string {
	return below(settingsDir(lookup), "Claude", "claude_desktop_config.json")
}

func vscodeFile(lookup func(string) (string, bool)) string {
	return below(settingsDir(lookup), "Code", "User", "mcp.json")
}

func codexFile(lookup func(string) (string, bool)) string {
	if dir, _ := lookup("CODEX_HOME"); dir != "" {
		return filepath.Join(dir, "config.toml")
	}
	return below(homeOf(lookup), ".codex", "config.toml")
}

// mcpServer is how a client starts this brig. Clients pass little of the environment on,
// so that what says where brig's own files are goes with the entry.
func (p *program) mcpServer(executable string, o mcpInstallOptions) mcpServer {
	s := mcpServer{Command: executable, Args: []string{"mcp"}, Env: map[string]string{}}
	if o.session != "" {
		s.Args = append(s.Args, "--session", o.session)
	}
	if !o.project { // that file may be shared with others, whose directories are elsewhere
		s.Env = p.carried()
	}
	return s
}

// insert puts the entry for brig into the text of a settings file.
func (c mcpClient) insert(file string, text []byte, s mcpServer) ([]byte, error) {
	if strings.HasSuffix(file, tomlFormat) {
		return insertTOML(text, s)
	}
	value, err := json.Marshal(c.entry(s))
	if err != nil {
		return nil, fmt.Errorf("write the entry: %w", err)
	}
	return insertJSON(text, c.section, "brig", value)
}

// starts tells whether a settings file has an entry with which the client starts this
// brig, with whatever flags and variables.
func (c mcpClient) starts(file, executable string) bool {
	text, _, err := readClientFile(file)
	if err != nil {
		return false
	}
	var entry struct {
		Command string   `json:"command" toml:"command"`
		Args    []string `json:"args" toml:"args"`
	}
	if strings.HasSuffix(file, tomlFormat) {
		m, err := tomlOf(text)
		if err != nil {
			return false
		}
		server, _ := serverIn(m).(map[string]any)
		entry.Command, _ = server["command"].(string)
		args, _ := server["args"].([]any)
		for _, a := range args {
			word, _ := a.(string)
			entry.Args = append(entry.Args, word)
		}
	} else {
		var m map[string]json.RawMessage
		var servers map[string]json.RawMessage
		if json.Unmarshal(text, &m) != nil || json.Unmarshal(m[c.section], &servers) != nil || json.Unmarshal(servers["brig"], &entry) != nil {
			return false
		}
	}
	return entry.Command == executable && len(entry.Args) > 0 && entry.Args[0] == "mcp"
}

// carried are the variables that say how this brig is set up, for the entry of a
// client. A file of a directory may be shared with others: there they are left out.
func (p *program) carried() map[string]string {
	out := map[string]string{}
	names := []string{
		"BRIG_CONFIG", "DOCKER_CERT_PATH", "DOCKER_CONFIG", "DOCKER_CONTEXT", "DOCKER_HOST", "DOCKER_TLS_VERIFY",
		"XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_RUNTIME_DIR", "XDG_STATE_HOME",
	}
	for _, k := range config.Keys() {
		names = append(names, k.Env...)
	}
	for _, name := range names {
		if v := p.env(name); v != "" {
			out[name] = v
		}
	}
	return out
}
