package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/BurntSushi/toml"
)

func testServer() mcpServer {
	return mcpServer{Command: `C:\brig "x"/brig`, Args: []string{"mcp", "--session", "a"}, Env: map[string]string{"XDG_STATE_HOME": "/s"}}
}

// TestInsertJSON puts the entry into files as people have them, and changes nothing else.
func TestInsertJSON(t *testing.T) {
	value := `{"command":"b","args":["mcp"]}`
	cases := []struct{ name, text, want string }{
		{"nothing", "", "{\n  \"mcpServers\": {\n    \"brig\": {\n      \"command\": \"b\",\n      \"args\": [\n        \"mcp\"\n      ]\n    }\n  }\n}\n"},
		{"no section, tabs", "{\n\t\"a\": 1.50\n}\n", "{\n\t\"a\": 1.50,\n\t\"mcpServers\": {\n\t\t\"brig\": {\n\t\t\t\"command\": \"b\",\n\t\t\t\"args\": [\n\t\t\t\t\"mcp\"\n\t\t\t]\n\t\t}\n\t}\n}\n"},
		{"one line", `{"x":{"mcpServers":{}},"mcpServers":{"o":{"command":"y"}}}`, `{"x":{"mcpServers":{}},"mcpServers":{"o":{"command":"y"}, "brig": {"command":"b","args":["mcp"]}}}`},
		{"an older entry", "{\n  \"mcpServers\": {\n    \"brig\": {\"command\": \"old\"},\n    \"o\": 1\n  }\n}", "{\n  \"mcpServers\": {\n    \"brig\": {\n      \"command\": \"b\",\n      \"args\": [\n        \"mcp\"\n      ]\n    },\n    \"o\": 1\n  }\n}"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			got, err := insertJSON([]byte(c.text), "mcpServers", "brig", json.RawMessage(value))
			if err != nil {
				t.Fatal(err)
			}
			if string(got) != c.want {
				t.Errorf("got\n%s\nwant\n%s", got, c.want)
			}
			again, err := insertJSON(got, "mcpServers", "brig", json.RawMessage(value))
			if err != nil || string(again) != string(got) {
				t.Errorf("the second time it changed to\n%s (%v)", again, err)
			}
		})
	}
}

// TestInsertRefuses leaves alone what it does not understand.
func TestInsertRefuses(t *testing.T) {
	for _, text := range []string{
		"[1]", "{", "{} {}", "{\"mcpServers\": []}", "// comment\n{}", "{\"a\": 1,}", "\"text\"", "{\"mcpServers\": null}",
		"{\"mcpServers\": {}, \"mcpServers\": {}}", "{\"mcpServers\": {\"brig\": {}, \"brig\": {}}}",
	} {
		if got, err := insertJSON([]byte(text), "mcpServers", "brig", json.RawMessage(`{}`)); err == nil {
			t.Errorf("%q became %q", text, got)
		}
	}
	for _, text := range []string{
		"= 1", "mcp_servers = 1\n", "mcp_servers.brig.command = \"x\"\n", "mcp_servers = { brig = { command = \"x\" } }\n",
	} {
		if got, err := insertTOML([]byte(text), testServer()); err == nil {
			t.Errorf("%q became %q", text, got)
		}
	}
}

func FuzzInsertJSON(f *testing.F) {
	for _, s := range []string{"", "{}", `{"mcpServers":{"brig":{}}}`, "{\n \"a\": \"\\\"\" ,\"mcpServers\" : {\"\\u0062rig\":1}}", `{"mcpServers":{"a":{"}":"{"}}}`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got, err := insertJSON([]byte(text), "mcpServers", "brig", json.RawMessage(`{"command":"b"}`))
		if err != nil {
			return
		}
		var m struct {
			Servers map[string]json.RawMessage `json:"mcpServers"`
		}
		if err := json.Unmarshal(got, &m); err != nil || !equalJSON(m.Servers["brig"], []byte(`{"command":"b"}`)) {
			t.Errorf("%q became %q (%v)", text, got, err)
		}
	})
}

// TestInsertTOML replaces brig's own tables only.
func TestInsertTOML(t *testing.T) {
	text := "# mine\nmodel = \"x\"\n\n[mcp_servers.\"brig\"]\ncommand = \"old\"\n[mcp_servers.brig.env]\nA = \"1\"\n\n# other\n[mcp_servers.brigade]\ncommand = \"y\"\n"
	got, err := insertTOML([]byte(text), testServer())
	if err != nil {
		t.Fatal(err)
	}
	var m struct {
		Servers map[string]struct {
			Command string
			Args    []string
			Env     map[string]string
		} `toml:"mcp_servers"`
	}
	if err := toml.Unmarshal(got, &m); err != nil {
		t.Fatal(err)
	}
	if s := m.Servers["brig"]; s.Command != testServer().Command || len(s.Args) != 3 || s.Env["XDG_STATE_HOME"] != "/s" || s.Env["A"] != "" {
		t.Errorf("brig became %+v", s)
	}
	if m.Servers["brigade"].Command != "y" || !strings.HasPrefix(string(got), "# mine\nmodel = \"x\"\n") || strings.Contains(string(got), "old") ||
		!strings.HasSuffix(string(got), "\n\n# other\n[mcp_servers.brigade]\ncommand = \"y\"\n") {
		t.Errorf("it became\n%s", got)
	}
	if again, err := insertTOML(got, testServer()); err != nil || string(again) != string(got) {
		t.Errorf("the second time it changed to\n%s (%v)", again, err)
	}
}

// TestInstallKeeps the file that was there, its mode, and the link to it.
func TestInstallKeeps(t *testing.T) {
	dir := t.TempDir()
	target, link := filepath.Join(dir, "dotfiles.json"), filepath.Join(dir, "mcp.json")
	const text = "{\"a\": 1}\n"
	if err := os.WriteFile(target, []byte(text), 0o640); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(target, link); err != nil {
		t.Fatal(err)
	}
	c := mcpClients()[0]
	dry, err := c.install(link, testServer(), true)
	if err != nil || !dry.Changed || dry.Backup != "" {
		t.Fatalf("a dry run did %+v (%v)", dry, err)
	}
	if now, _ := os.ReadFile(target); string(now) != text {
		t.Fatalf("a dry run wrote %s", now)
	}
	done, err := c.install(link, testServer(), false)
	if err != nil || !done.Changed {
		t.Fatalf("it did %+v (%v)", done, err)
	}
	if kept, err := os.ReadFile(done.Backup); err != nil || string(kept) != text {
		t.Errorf("the backup holds %q (%v)", kept, err)
	}
	if at, err := os.Readlink(link); err != nil || at != target {
		t.Errorf("the link is gone: %q, %v", at, err)
	}
	if info, err := os.Stat(target); err != nil || runtime.GOOS != "windows" && info.Mode().Perm() != 0o640 {
		t.Errorf("the mode became %v (%v)", info.Mode(), err)
	}
	lost := filepath.Join(dir, "lost.json")
	if err := os.Symlink(filepath.Join(dir, "elsewhere.json"), lost); err != nil {
		t.Fatal(err)
	}
	if done, err := c.install(lost, testServer(), false); err == nil {
		t.Errorf("in the place of a link that leads nowhere it did %+v", done)
	}
	again, err := c.install(link, testServer(), false)
	if err != nil || again.Changed || again.Backup != "" {
		t.Errorf("the second time it did %+v (%v)", again, err)
	}
}

func TestLineDiff(t *testing.T) {
	got := lineDiff("f", "1\n2\n3\n4\n5\n6\n", "1\n2\n3\n4\nX\n6\n")
	if want := "--- f\n+++ f\n@@ -2,5 +2,5 @@\n 2\n 3\n 4\n-5\n+X\n 6\n"; got != want {
		t.Errorf("got\n%s", got)
	}
	if got := lineDiff("f", "a", "a"); got != "" {
		t.Errorf("got %q for the same text", got)
	}
}
