package mcp_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/rs/zerolog"

	"brig/orchestrator"
	"brig/orchestrator/api"
	"brig/orchestrator/audit"
	"brig/orchestrator/config"
	"brig/orchestrator/mcp"
	"brig/orchestrator/owner"
	"brig/orchestrator/sandbox"
	"brig/orchestrator/sandbox/sandboxtest"
	"brig/orchestrator/service"
	"brig/orchestrator/store"
)

// rig is a living brig over in-memory backends, with MCP in front of it.
type rig struct {
	t            *testing.T
	docker, host *sandboxtest.Memory
	service      *service.Service
	orc          *orchestrator.Orchestrator

	mu sync.Mutex
	c  config.Config // guarded by mu
}

func newRig(t *testing.T, edit ...func(*config.Config)) *rig {
	t.Helper()
	dir := t.TempDir()
	paths := config.Paths{State: filepath.Join(dir, "state"), Data: filepath.Join(dir, "data")}
	own, err := owner.Open(paths.State)
	if err != nil {
		t.Fatal(err)
	}
	memory := func(kind sandbox.Kind) *sandboxtest.Memory {
		return sandboxtest.NewMemory(sandboxtest.MemoryOptions{
			Kind: kind, Layers: sandboxtest.EnforcedLayers(), Promised: orchestrator.CorePromise(), Owner: own.ID(),
		})
	}
	r := &rig{t: t, docker: memory(sandbox.Docker), host: memory(sandbox.Host), c: config.Default()}
	r.c.Permissions.Profile = config.AutoApprove
	for _, f := range edit {
		f(&r.c)
	}
	kept, _, err := store.Open(t.Context(), store.Options{Dir: paths.State, Owner: own.ID(), Process: own.Token()})
	if err != nil {
		t.Fatal(err)
	}
	log, found, err := audit.Open(t.Context(), audit.Options{Dir: filepath.Join(paths.State, "audit")})
	if err != nil {
		t.Fatal(err)
	}
	backends := []sandbox.Backend{r.docker, r.host}
	if r.orc, err = orchestrator.New(orchestrator.Options{Backends: backends, Config: r.c, Paths: paths, Owner: own, Store: kept}); err != nil {
		t.Fatal(err)
	}
	if r.service, err = service.New(service.Options{
		Orchestrator: r.orc, Backends: backends, Store: kept, Audit: log, Audited: found, Alive: own.Alive,
		Config: r.loaded, Log: zerolog.New(io.Discard), Version: "test",
	}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		if err := errors.Join(r.service.Close(ctx), log.Close(), kept.Close(), own.Close()); err != nil {
			t.Error(err)
		}
	})
	return r
}

func (r *rig) loaded() config.Loaded {
	r.mu.Lock()
	defer r.mu.Unlock()
	return config.Loaded{Config: r.c}
}

// set puts other settings in force, as a reload does.
func (r *rig) set(edit func(*config.Config)) {
	r.t.Helper()
	r.mu.Lock()
	edit(&r.c)
	c := r.c
	r.mu.Unlock()
	if err := r.orc.Reconfigure(c); err != nil {
		r.t.Fatal(err)
	}
	r.service.Reconfigured()
}

func (r *rig) operator() api.Brig {
	return r.service.As(service.Caller{Role: service.Operator, ID: "operator", Approval: api.ApprovedByOperator})
}

func (r *rig) agent(id, session string) api.Brig {
	return r.service.As(service.Caller{ID: id, Session: session, Via: "test", Approval: api.ApprovedByProfile})
}

// sessions are the names of the open sessions.
func (r *rig) sessions() []string {
	r.t.Helper()
	l, err := r.operator().Sessions(r.t.Context(), api.Page{})
	if err != nil {
		r.t.Fatal(err)
	}
	names := []string{}
	for _, s := range l.Sessions {
		names = append(names, s.Name)
	}
	return names
}

func (r *rig) server(o mcp.Options) *mcp.Server {
	r.t.Helper()
	o.Version = "test"
	if o.Brig == nil {
		o.Brig = r.agent("agent", "")
	}
	s, err := mcp.New(o)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		if err := s.Close(ctx); err != nil {
			r.t.Error(err)
		}
	})
	return s
}

// client is a client on a pair of pipes, and what the server told it by itself.
type client struct {
	*sdk.ClientSession
	t       *testing.T
	changed chan struct{}
	told    chan *sdk.ProgressNotificationParams
	in      io.Closer
	served  chan error
}

func (r *rig) client(s *mcp.Server) *client {
	r.t.Helper()
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	c := &client{t: r.t, changed: make(chan struct{}, 64), told: make(chan *sdk.ProgressNotificationParams, 64), in: inW, served: make(chan error, 1)}
	go func() {
		err := s.Serve(r.t.Context(), inR, outW)
		c.served <- errors.Join(err, outW.Close())
	}()
	made := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, &sdk.ClientOptions{
		ToolListChangedHandler: func(context.Context, *sdk.ToolListChangedRequest) { c.changed <- struct{}{} },
		ProgressNotificationHandler: func(_ context.Context, q *sdk.ProgressNotificationClientRequest) {
			select {
			case c.told <- q.Params:
			default:
			}
		},
	})
	var err error
	if c.ClientSession, err = made.Connect(r.t.Context(), &sdk.IOTransport{Reader: outR, Writer: inW}, &sdk.ClientSessionOptions{ProtocolVersion: "2025-11-25"}); err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { _ = inW.Close() })
	return c
}

// answer is a result as tests look at it.
type answer struct {
	*sdk.CallToolResult
	data map[string]any
}

func (a answer) text(i int) string {
	if i < len(a.Content) {
		if t, ok := a.Content[i].(*sdk.TextContent); ok {
			return t.Text
		}
	}
	return ""
}

func (a answer) images() (out []*sdk.ImageContent) {
	for _, c := range a.Content {
		if i, ok := c.(*sdk.ImageContent); ok {
			out = append(out, i)
		}
	}
	return out
}

func (a answer) links() (out []string) {
	for _, c := range a.Content {
		if l, ok := c.(*sdk.ResourceLink); ok {
			out = append(out, l.URI)
		}
	}
	return out
}

func call(t *testing.T, c *sdk.ClientSession, tool string, arguments map[string]any) answer {
	t.Helper()
	r, err := c.CallTool(t.Context(), &sdk.CallToolParams{Name: tool, Arguments: arguments})
	if err != nil {
		t.Fatalf("%s: %v", tool, err)
	}
	a := answer{CallToolResult: r}
	text, err := json.Marshal(r.StructuredContent)
	if err == nil {
		err = json.Unmarshal(text, &a.data)
	}
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func (c *client) call(tool string, arguments map[string]any) answer {
	c.t.Helper()
	return call(c.t, c.ClientSession, tool, arguments)
}

func (c *client) run(steps ...sandboxtest.Step) answer {
	c.t.Helper()
	return c.call("run_python_sandboxed", map[string]any{"code": program(steps...)})
}

func program(steps ...sandboxtest.Step) string { return string(sandboxtest.Program(steps).Source()) }

func tools(t *testing.T, c *sdk.ClientSession) string {
	t.Helper()
	l, err := c.ListTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, tool := range l.Tools {
		names = append(names, tool.Name)
	}
	return strings.Join(names, " ")
}

func (c *client) awaitChange() {
	c.t.Helper()
	select {
	case <-c.changed:
	case <-time.After(30 * time.Second):
		c.t.Fatal("the client was not told that the tools changed")
	}
}

const (
	withRun    = "list_files read_file run_cancel run_python_sandboxed run_wait sandbox_status write_file"
	withoutRun = "list_files read_file sandbox_status write_file"
	// afterRun: what is under way can still be waited for.
	afterRun = "list_files read_file run_cancel run_wait sandbox_status write_file"
)
