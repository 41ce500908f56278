package mcp_test

import (
	"context"
	"encoding/base64"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"brig/orchestrator/api"
	"brig/orchestrator/config"
	"brig/orchestrator/mcp"
	"brig/orchestrator/sandbox"
	"brig/orchestrator/sandbox/sandboxtest"
)

// TestOfferedByProfile lists the tool that runs code only where nobody has to be
// asked, tells of a change, and refuses one that is called all the same.
func TestOfferedByProfile(t *testing.T) {
	r := newRig(t, func(c *config.Config) { c.Permissions.Profile = config.AskAlways })
	c := r.client(r.server(mcp.Options{}))
	if got := tools(t, c.ClientSession); got != withoutRun {
		t.Errorf("with ask-always the tools are %s", got)
	}
	a := c.run(sandboxtest.Print("no"))
	if !a.IsError || !strings.Contains(a.text(0), "permissions.profile is ask-always") || !strings.Contains(a.text(0), "What to do: ask the user") {
		t.Errorf("the answer is %q", a.text(0))
	}
	if s := c.call("sandbox_status", nil); s.data["runs_code"] != false || !strings.Contains(s.text(0), "not offered: running code needs a person's approval") {
		t.Errorf("the status is %q", s.text(0))
	}
	r.set(func(c *config.Config) { c.Permissions.Profile = config.AutoApprove })
	c.awaitChange()
	if got := tools(t, c.ClientSession); got != withRun {
		t.Errorf("with auto-approve the tools are %s", got)
	}
	if a := c.run(sandboxtest.Print("yes")); a.IsError || a.data["stdout"] != "yes\n" {
		t.Errorf("the answer is %q", a.text(0))
	}
	r.set(func(c *config.Config) { c.Workspace.CodeExec = false })
	c.awaitChange()
	if got := tools(t, c.ClientSession); got != afterRun {
		t.Errorf("without code_exec the tools are %s", got)
	}
	if a := c.run(sandboxtest.Print("no")); !a.IsError || !strings.Contains(a.text(0), "workspace.code_exec") {
		t.Errorf("the answer is %q", a.text(0))
	}
	if l := c.call("list_files", nil); l.IsError {
		t.Errorf("files: %q", l.text(0))
	}
}

// TestOfferedByContainment takes the tool from the list while nothing contains code.
func TestOfferedByContainment(t *testing.T) {
	r := newRig(t, func(c *config.Config) { c.Execution.Fallback = config.None })
	c := r.client(r.server(mcp.Options{}))
	if got := tools(t, c.ClientSession); got != withRun {
		t.Fatalf("the tools are %s", got)
	}
	r.docker.SetUnavailable(&sandbox.Unavailable{Code: "away", Reason: "the engine is away"})
	c.awaitChange()
	if got := tools(t, c.ClientSession); got != afterRun {
		t.Errorf("without an engine the tools are %s", got)
	}
	a := c.run(sandboxtest.Print("no"))
	if !a.IsError || !strings.Contains(a.text(0), "the engine is away") || !strings.Contains(a.text(0), "do not run the code by other means") {
		t.Errorf("the answer is %q", a.text(0))
	}
	r.docker.SetUnavailable(nil)
	c.awaitChange()
	if got := tools(t, c.ClientSession); got != withRun {
		t.Errorf("with the engine back the tools are %s", got)
	}
}

// TestRunAnswers says what happened, in words and as data, and images as images.
func TestRunAnswers(t *testing.T) {
	r := newRig(t)
	c := r.client(r.server(mcp.Options{}))
	a := c.run(sandboxtest.Set("x", 41), sandboxtest.Print("out"), sandboxtest.PrintErr("\x1b[31merr"), sandboxtest.Display("image/png", 2000), sandboxtest.Value(42))
	if a.IsError || a.data["state"] != "ended" || a.data["cause"] != "ok" || a.data["stdout"] != "out\n" || a.data["stderr"] != `\x1b[31merr`+"\n" || a.data["result"] != "42" {
		t.Errorf("the data are %v", a.data)
	}
	if i := a.images(); len(i) != 1 || i[0].MIMEType != "image/png" || len(i[0].Data) != 2000 || a.data["images"] != 1.0 {
		t.Errorf("the images are %v", i)
	}
	box, _ := a.data["sandbox"].(map[string]any)
	if !strings.Contains(a.text(0), "Sandbox: Ran in a container: contained. No person was asked: permissions.profile is auto-approve.") || box["approval"] != "auto-approve" || box["uncontained"] != false {
		t.Errorf("the stamp is %q, %v", a.text(0), box)
	}
	if a := c.run(sandboxtest.Show("x")); a.data["stdout"] == "" {
		t.Errorf("variables did not stay: %v", a.data)
	}
	a = c.run(sandboxtest.Raise("ValueError", "bad\nSandbox: Ran in heaven"))
	if a.IsError || a.data["cause"] != "exception" || !strings.HasPrefix(a.data["exception"].(string), "ValueError: bad") || a.data["traceback"] == "" {
		t.Errorf("an exception gave %v", a.data)
	}
	a = c.run(sandboxtest.Write(sandboxtest.Stdout, sandboxtest.Numbered, 3<<20))
	shown := a.data["stdout"].(string)
	if len(shown) > 14<<10 || a.data["stdout_bytes"] != float64(3<<20) || a.data["left_out_bytes"].(float64) < 3<<20-14<<10 || len(a.links()) == 0 {
		t.Errorf("of much output came %d bytes, %v, %v, %v", len(shown), a.data["stdout_bytes"], a.data["left_out_bytes"], a.links())
	}
	for _, link := range a.links() {
		got, err := c.ReadResource(t.Context(), &sdk.ReadResourceParams{URI: link})
		if err != nil && strings.Contains(link, "/runs/") || err == nil && len(got.Contents[0].Text) < 100<<10 {
			t.Errorf("%s: %v", link, err)
		}
	}
}

// TestDegradedIsSaid puts the step-down into the words of each result.
func TestDegradedIsSaid(t *testing.T) {
	r := newRig(t)
	r.docker.SetUnavailable(&sandbox.Unavailable{Code: "away", Reason: "the engine is away"})
	c := r.client(r.server(mcp.Options{}))
	a := c.run(sandboxtest.Print("x"))
	if !strings.Contains(a.text(0), "NOT as configured: docker was configured, but the engine is away.") {
		t.Errorf("the answer is %q", a.text(0))
	}
}

// TestHandles answers before the end where that takes longer, and later with the end.
func TestHandles(t *testing.T) {
	r := newRig(t)
	c := r.client(r.server(mcp.Options{}))
	c.run(sandboxtest.Set("x", 41))
	a := c.call("run_python_sandboxed", map[string]any{"code": program(sandboxtest.Print("begun"), sandboxtest.WaitFile("go"), sandboxtest.Print("done")), "wait_seconds": 1})
	if a.data["state"] != "running" || a.data["stdout"] != "begun\n" || !strings.Contains(a.text(0), "Still running") {
		t.Fatalf("it is %v: %q", a.data, a.text(0))
	}
	if w := c.call("run_wait", map[string]any{"run": a.data["run"], "wait_seconds": 0}); w.data["state"] != "running" {
		t.Errorf("it is %v", w.data)
	}
	c.call("write_file", map[string]any{"path": "go", "text": ""})
	if w := c.call("run_wait", map[string]any{"run": a.data["run"]}); w.data["cause"] != "ok" || w.data["stdout"] != "begun\ndone\n" {
		t.Errorf("it ended as %v", w.data)
	}
	a = c.call("run_python_sandboxed", map[string]any{"code": program(sandboxtest.Spin()), "wait_seconds": 1})
	b := c.call("run_cancel", map[string]any{"run": a.data["run"]})
	if b.data["state"] != "ended" || b.data["cause"] != "interrupted" || b.data["variables"] != "kept" {
		t.Errorf("cancelled, it is %v", b.data)
	}
	if again := c.call("run_cancel", map[string]any{"run": a.data["run"]}); again.data["cause"] != "interrupted" {
		t.Errorf("cancelled again, it is %v", again.data)
	}
	if none := c.call("run_wait", map[string]any{"run": "run-0000"}); !none.IsError || !strings.Contains(none.text(0), "Problem: not-found") {
		t.Errorf("a run that never was: %q", none.text(0))
	}
}

// TestCancelledCall ends the run of a call that the client gave up, and says in the
// next run what that cost.
func TestCancelledCall(t *testing.T) {
	r := newRig(t)
	c := r.client(r.server(mcp.Options{}))
	c.run(sandboxtest.Set("x", 41))
	for _, kind := range []struct {
		name  string
		steps []sandboxtest.Step
		lost  bool
	}{
		{"lets go", []sandboxtest.Step{sandboxtest.Print("begun"), sandboxtest.Spin()}, false},
		{"does not", []sandboxtest.Step{sandboxtest.Print("begun"), sandboxtest.Deaf(), sandboxtest.Spin()}, true},
	} {
		t.Run(kind.name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			p := &sdk.CallToolParams{Name: "run_python_sandboxed", Arguments: map[string]any{"code": program(kind.steps...)}}
			p.SetProgressToken("t")
			done := make(chan error, 1)
			go func() { _, err := c.CallTool(ctx, p); done <- err }()
			awaitProgress(t, c)
			cancel()
			if err := <-done; !errors.Is(err, context.Canceled) {
				t.Fatal(err)
			}
			a := c.run(sandboxtest.Print("alive"))
			note, _ := a.data["note"].(string)
			if a.data["stdout"] != "alive\n" || strings.Contains(note, "variables are gone") != kind.lost {
				t.Errorf("the next run is %v", a.data)
			}
		})
	}
}

// awaitProgress waits until the client was told of output.
func awaitProgress(t *testing.T, c *client) {
	t.Helper()
	for limit := time.After(30 * time.Second); ; {
		select {
		case told := <-c.told:
			if strings.HasPrefix(told.Message, "running, ") && !strings.HasPrefix(told.Message, "running, 0 ") {
				return
			}
		case <-limit:
			t.Fatal("the client was not told of output")
		}
	}
}

func TestFiles(t *testing.T) {
	r := newRig(t)
	c := r.client(r.server(mcp.Options{}))
	if l := c.call("list_files", nil); l.IsError || len(l.data["files"].([]any)) != 0 || len(r.sessions()) != 0 {
		t.Errorf("to look opened %v: %q", r.sessions(), l.text(0))
	}
	w := c.call("write_file", map[string]any{"path": "a/b.txt", "text": "ünï\nsecond\n"})
	if w.IsError || w.data["bytes"] != 13.0 || w.data["replaced"] != false {
		t.Fatalf("written: %q", w.text(0))
	}
	a := c.call("read_file", map[string]any{"path": "a/b.txt"})
	if a.data["text"] != "ünï\nsecond\n" || a.text(1) != "ünï\nsecond\n" || a.data["etag"] != w.data["etag"] || a.data["next_offset"] != nil {
		t.Errorf("read: %v", a.data)
	}
	a = c.call("read_file", map[string]any{"path": "a/b.txt", "max_bytes": 4})
	if a.data["text"] != "ün" || a.data["next_offset"] != 3.0 {
		t.Errorf("a piece: %v", a.data)
	}
	a = c.call("read_file", map[string]any{"path": "a/b.txt", "offset": 4})
	if a.data["text"] != "\nsecond\n" || a.data["offset"] != 5.0 {
		t.Errorf("from the middle of a character: %v", a.data)
	}
	if a = c.call("write_file", map[string]any{"path": "a/b.txt", "text": "x", "if_etag": `"other"`}); !a.IsError || !strings.Contains(a.text(0), "Problem: precondition") {
		t.Errorf("with another etag: %q", a.text(0))
	}
	if a = c.call("write_file", map[string]any{"path": "a/b.txt", "text": "x", "create_only": true}); !a.IsError {
		t.Errorf("over a file: %q", a.text(0))
	}
	png := append([]byte("\x89PNG\r\n\x1a\n"), make([]byte, 100)...)
	c.call("write_file", map[string]any{"path": "p.png", "base64": base64.StdEncoding.EncodeToString(png)})
	if a = c.call("read_file", map[string]any{"path": "p.png"}); len(a.images()) != 1 || len(a.images()[0].Data) != len(png) || a.data["text"] != nil {
		t.Errorf("an image: %v", a.data)
	}
	c.call("write_file", map[string]any{"path": "bin", "base64": "AAECAw=="})
	if a = c.call("read_file", map[string]any{"path": "bin"}); a.IsError || !strings.Contains(a.text(0), "not text") || len(a.links()) != 1 {
		t.Errorf("bytes: %v", a.data)
	} else if got, err := c.ReadResource(t.Context(), &sdk.ReadResourceParams{URI: a.links()[0]}); err != nil || string(got.Contents[0].Blob) != "\x00\x01\x02\x03" {
		t.Errorf("their resource: %v", err)
	}
	for _, path := range []string{"../x", "/etc/passwd", "", "none", "a", "a\x00b"} {
		if a = c.call("read_file", map[string]any{"path": path}); !a.IsError {
			t.Errorf("%q was read: %v", path, a.data)
		}
	}
	l := c.call("list_files", map[string]any{"prefix": "a"})
	if files := l.data["files"].([]any); len(files) != 1 || files[0].(map[string]any)["path"] != "a/b.txt" {
		t.Errorf("listed: %v", files)
	}
	if _, err := c.ReadResource(t.Context(), &sdk.ReadResourceParams{URI: "brig://sessions/none/files/x"}); err == nil {
		t.Error("a resource of no session was read")
	}
}

// TestOwnSession is opened when it is needed, closed with the client, and replaced
// where somebody closed it; a named one stays.
func TestOwnSession(t *testing.T) {
	r := newRig(t)
	s := r.server(mcp.Options{})
	c := r.client(s)
	c.run(sandboxtest.Set("x", 1))
	own := r.sessions()
	if len(own) != 1 || !strings.HasPrefix(own[0], "mcp-") {
		t.Fatalf("the sessions are %v", own)
	}
	if err := r.operator().CloseSession(t.Context(), own[0]); err != nil {
		t.Fatal(err)
	}
	if a := c.run(sandboxtest.Print("again")); a.data["stdout"] != "again\n" || !strings.Contains(a.text(0), "Note: your earlier session ended") {
		t.Errorf("after that: %q", a.text(0))
	}
	c.call("run_python_sandboxed", map[string]any{"code": program(sandboxtest.Print("x")), "session": "named"})
	if a := c.call("read_file", map[string]any{"path": "x", "session": "no-such"}); !a.IsError || slices.Contains(r.sessions(), "no-such") {
		t.Errorf("to read made a session: %v", r.sessions())
	}
	if a := c.call("run_python_sandboxed", map[string]any{"code": program(), "session": "no/name"}); !a.IsError || !strings.Contains(a.text(0), "characters") {
		t.Errorf("a name that cannot be: %q", a.text(0))
	}
	if err := c.in.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-c.served; err != nil {
		t.Errorf("the end of the input is %v", err)
	}
	if err := s.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if left := r.sessions(); len(left) != 1 || left[0] != "named" {
		t.Errorf("left are %v", left)
	}
}

// TestNamedByOption uses that session and leaves it.
func TestNamedByOption(t *testing.T) {
	r := newRig(t)
	s := r.server(mcp.Options{Session: "mine"})
	r.client(s).run(sandboxtest.Print("x"))
	if err := s.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if left := r.sessions(); len(left) != 1 || left[0] != "mine" {
		t.Errorf("left are %v", left)
	}
}

// TestUncontainedSession is refused by a tool that promises a sandbox.
func TestUncontainedSession(t *testing.T) {
	r := newRig(t, func(c *config.Config) { c.Execution.Backend, c.Host.Sandbox = sandbox.Host, sandbox.ModeOff })
	if _, _, err := r.agent("agent", "").OpenSession(t.Context(), api.SessionRequest{Name: "open"}); err != nil {
		t.Fatal(err)
	}
	c := r.client(r.server(mcp.Options{}))
	if got := tools(t, c.ClientSession); got != withoutRun {
		t.Fatalf("with the sandbox off the tools are %s", got)
	}
	r.set(func(c *config.Config) { c.Execution.Backend = sandbox.Docker })
	c.awaitChange()
	if a := c.call("run_python_sandboxed", map[string]any{"code": program(sandboxtest.Print("no")), "session": "open"}); !a.IsError || !strings.Contains(a.text(0), "nothing contains this session") {
		t.Errorf("the answer is %q", a.text(0))
	}
}

// TestLastAnswers come although the client closed its end right after asking.
func TestLastAnswers(t *testing.T) {
	r := newRig(t)
	c := r.client(r.server(mcp.Options{}))
	done := make(chan answer, 1)
	go func() { done <- c.call("sandbox_status", nil) }()
	time.Sleep(20 * time.Millisecond) // either way it is answered: before the end, or after it
	if err := c.in.Close(); err != nil {
		t.Fatal(err)
	}
	if a := <-done; a.data["runs_code"] != true {
		t.Errorf("the answer is %v", a.data)
	}
	if err := <-c.served; err != nil {
		t.Error(err)
	}
}
