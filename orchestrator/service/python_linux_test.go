package service_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"brig/hostfallback"
	"brig/images"
	"brig/orchestrator"
	"brig/orchestrator/api"
	"brig/orchestrator/audit"
	"brig/orchestrator/config"
	"brig/orchestrator/docker"
	"brig/orchestrator/owner"
	"brig/orchestrator/sandbox"
	"brig/orchestrator/sandbox/sandboxtest"
	"brig/orchestrator/service"
	"brig/orchestrator/store"
)

// pythons are interpreters of this machine: a path, or empty for the engine's.
func pythons(t *testing.T) map[string]string {
	t.Helper()
	found := map[string]string{}
	for _, path := range filepath.SplitList(os.Getenv("BRIG_TEST_PYTHONS")) {
		found[path] = path
	}
	home, err := os.UserHomeDir()
	if err != nil {
		t.Fatal(err)
	}
	for _, minor := range []string{"3.8", "3.11", "3.13"} {
		matches, err := filepath.Glob(filepath.Join(home, ".pyenv", "versions", minor+".*", "bin", "python3"))
		if err != nil {
			t.Fatal(err)
		}
		if len(matches) > 0 {
			found[minor] = matches[0]
		}
	}
	const system = "/usr/bin/python3"
	if _, err := os.Stat(system); err == nil && found[system] == "" {
		found["system"] = system
	}
	if len(found) == 0 {
		sandboxtest.Skip(t, "a Python", "none")
	}
	return found
}

// real is a brig over the real backends, which may be started again in the same place.
type real struct {
	dir, python string
	kind        sandbox.Kind
}

func (r real) start(t *testing.T) (b api.Brig, end func()) {
	t.Helper()
	paths := config.Paths{State: filepath.Join(r.dir, "state"), Data: filepath.Join(r.dir, "data"), Runtime: filepath.Join(r.dir, "run"), Cache: filepath.Join(r.dir, "cache")}
	own, err := owner.Open(paths.State)
	must(t, err)
	host, err := hostfallback.New(hostfallback.Options{Env: os.LookupEnv, Cache: paths.Cache, Runtime: paths.Runtime, Owner: own.ID()})
	must(t, err)
	engine, err := docker.New(docker.Options{
		Env: os.LookupEnv, Owner: own.ID(), Process: own.Token(), Images: images.New(images.Options{Env: os.LookupEnv}),
	})
	must(t, err)
	db, _, err := store.Open(t.Context(), store.Options{Dir: paths.State, Owner: own.ID(), Process: own.Token()})
	must(t, err)
	log, found, err := audit.Open(t.Context(), audit.Options{Dir: filepath.Join(paths.State, "audit")})
	must(t, err)
	c := config.Default()
	c.Execution.Backend, c.Execution.Fallback, c.Docker.Tier, c.Host.Python = r.kind, config.None, config.TierCore, r.python
	o := orchestrator.Options{Backends: []sandbox.Backend{engine, host}, Config: c, Paths: paths, Owner: own, Store: db}
	orc, err := orchestrator.New(o)
	must(t, err)
	s, err := service.New(service.Options{
		Orchestrator: orc, Backends: o.Backends, Store: db, Audit: log, Audited: found, Alive: own.Alive, Log: zerolog.New(io.Discard), Version: "test",
		Config: func() config.Loaded { return config.Loaded{Config: c} },
	})
	must(t, err)
	ended := false
	end = func() {
		if ended {
			return
		}
		ended = true
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := errors.Join(s.Close(ctx), engine.Close(ctx), host.Close(ctx), db.Close(), log.Close(), own.Close()); err != nil {
			t.Error(err)
		}
	}
	t.Cleanup(end)
	return s.As(service.Caller{Role: service.Operator, ID: "operator", Via: "test", Approval: api.ApprovedByOperator}), end
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// python runs source and returns what it printed; it has to succeed.
func python(t *testing.T, b api.Brig, session, source string) string {
	t.Helper()
	r := try(t, b, session, source)
	if r.Cause != "ok" {
		t.Fatalf("%s: %s, %s, %+v", source, r.Cause, r.Detail, r.Exception)
	}
	return r.Stdout.Text
}

func try(t *testing.T, b api.Brig, session, source string) api.Run {
	t.Helper()
	r, err := b.Run(t.Context(), session, api.RunRequest{Code: source}, api.RunOptions{}, nil)
	must(t, err)
	return r
}

// TestDatasetsComeBack is the life of datasets on real interpreters: an interpreter
// that dies, an instance that is replaced, a brig that is started anew.
func TestDatasetsComeBack(t *testing.T) {
	for name, path := range pythons(t) {
		t.Run(name, func(t *testing.T) { datasetsComeBack(t, real{t.TempDir(), path, sandbox.Host}) })
	}
}

// TestDatasetsComeBackInContainers is the same on the engine, where an instance
// outlives its brig.
func TestDatasetsComeBackInContainers(t *testing.T) {
	if out, err := exec.CommandContext(t.Context(), "docker", "version", "--format", "{{.Server.Version}}").CombinedOutput(); err != nil {
		sandboxtest.Skip(t, "a container engine and its command", strings.TrimSpace(string(out)))
	}
	datasetsComeBack(t, real{t.TempDir(), "", sandbox.Docker})
}

const readAll = `
rows = tables["sales"]
if not isinstance(rows, list):
    rows = rows.astype(str).to_dict("records")
print(rows, len(df), sorted(tables))
try:
    tables["broken"]
except Exception as err:
    print(type(err).__name__, err)
`

func datasetsComeBack(t *testing.T, r real) {
	b, end := r.start(t)
	_, _, err := b.OpenSession(t.Context(), api.SessionRequest{Name: "data"})
	must(t, err)
	for path, content := range map[string]string{"in/sales.csv": "city,n\nKöln,7\n", "lines.jsonl": "{\"a\": 1}\n{\"a\": 2}\n", "broken.json": "[1,"} {
		_, err := b.WriteFile(t.Context(), "data", path, strings.NewReader(content), api.WriteOptions{})
		must(t, err)
	}
	for name, path := range map[string]string{"sales": "in/sales.csv", "broken": "broken.json"} {
		_, err := b.PutDataset(t.Context(), "data", name, api.DatasetRequest{Path: path})
		must(t, err)
	}
	_, err = b.PutDataset(t.Context(), "data", "lines", api.DatasetRequest{Path: "lines.jsonl", Active: true})
	must(t, err)
	want := "[{'city': 'Köln', 'n': '7'}] 2 ['broken', 'lines', 'sales']\nTableError table 'broken' (broken.json) cannot be read: "
	check := func(when string) {
		t.Helper()
		if got := python(t, b, "data", readAll); !strings.HasPrefix(got, want) {
			t.Errorf("%s: %s", when, got)
		}
	}
	check("at first")
	python(t, b, "data", "mine = 5")
	if got := try(t, b, "data", "import os; os._exit(1)"); got.Variables != "lost" {
		t.Errorf("%+v", got)
	}
	check("after the interpreter died")
	python(t, b, "data", "kept = 6")
	_, err = b.Reset(t.Context(), "data", api.ResetOptions{})
	must(t, err)
	check("after a reset")
	// The instance goes as a whole: another one takes its place.
	once, err := b.Run(t.Context(), "data", api.RunRequest{Code: "pass", Once: true}, api.RunOptions{}, nil)
	must(t, err)
	if once.Cause != "ok" {
		t.Errorf("%+v", once)
	}
	check("after the instance was replaced")
	python(t, b, "data", "df = 'mine'; kept = 7")
	end()

	b, _ = r.start(t)
	if got := try(t, b, "data", "print(kept, df)"); r.kind == sandbox.Docker && got.Stdout.Text != "7 mine\n" {
		t.Errorf("a container that lived on has lost what code called df: %+v", got)
	}
	python(t, b, "data", "globals().pop('df', None)")
	check("after brig was started anew")
	must(t, b.RemoveFile(t.Context(), "data", "in/sales.csv", api.RemoveOptions{}))
	list, err := b.Datasets(t.Context(), "data")
	must(t, err)
	for _, d := range list.Datasets {
		if (d.Problem != "") != (d.Name == "sales") {
			t.Errorf("%+v", d)
		}
	}
	try(t, b, "data", "import os; os._exit(1)")
	if got := python(t, b, "data", "print(len(tables['lines']), len(df))"); got != "2 2\n" {
		t.Errorf("beside one that is gone: %s", got)
	}
	got := try(t, b, "data", "tables['sales']")
	if got.Exception == nil || !strings.Contains(got.Exception.Message, "table 'sales' (in/sales.csv) cannot be read: the file is not there any more") {
		t.Errorf("%+v", got.Exception)
	}
	must(t, b.RemoveDataset(t.Context(), "data", "lines"))
	if got := python(t, b, "data", "print(sorted(tables), tables.active)"); got != "['broken', 'sales'] broken\n" && got != "['broken', 'sales'] sales\n" {
		t.Errorf("%s", got)
	}
	must(t, b.CloseSession(t.Context(), "data"))
}

// TestExportIsANotebook validates an export with the format's own library, where
// Python has it.
func TestExportIsANotebook(t *testing.T) {
	path := ""
	for _, name := range append(filepath.SplitList(os.Getenv("BRIG_TEST_NBFORMAT")), "python3", "/usr/bin/python3") {
		if exec.CommandContext(t.Context(), name, "-c", "import nbformat").Run() == nil {
			path = name
			break
		}
	}
	if path == "" {
		sandboxtest.Skip(t, "a Python with nbformat", "none; BRIG_TEST_NBFORMAT may name one")
	}
	var any string
	for _, p := range pythons(t) {
		any = p
	}
	b, _ := real{t.TempDir(), any, sandbox.Host}.start(t)
	_, _, err := b.OpenSession(t.Context(), api.SessionRequest{Name: "n"})
	must(t, err)
	for _, source := range []string{
		"print('out')\nimport sys\nprint('err', file=sys.stderr)\n{'a': 1}", "display({'image/png': b'\\x89PNG', 'text/plain': 'a picture'}) if False else None",
		"class R:\n def _repr_html_(self): return '<b>x</b>'\n def _repr_json_(self): return {'a': [1]}\n def _repr_png_(self): return b'\\x89PNG\\r\\n'\nR()",
		"1/0", "raise SystemExit(3)", "x = '\\x00\\x1b[31m\\u2028'\nprint(x)\nx", "await __import__('asyncio').sleep(0)", "print('x' * 2_000_000)", "def f(:",
	} {
		try(t, b, "n", source)
	}
	r, err := b.Export(t.Context(), "n", api.Notebook)
	must(t, err)
	text, err := io.ReadAll(r)
	must(t, errors.Join(err, r.Close()))
	if !json.Valid(text) {
		t.Fatal("it is not JSON")
	}
	cmd := exec.CommandContext(t.Context(), path, "-c", "import nbformat, sys\nn = nbformat.reads(sys.stdin.read(), as_version=4)\nnbformat.validate(n)\nprint(len(n.cells), n.nbformat, n.nbformat_minor, [c.outputs[-1].output_type for c in n.cells[1:] if c.outputs])")
	cmd.Stdin = bytes.NewReader(text)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if got := strings.TrimSpace(string(out)); got != "10 4 5 ['execute_result', 'execute_result', 'error', 'execute_result', 'stream', 'error']" {
		t.Errorf("%s", got)
	}
}
