package orchestrator

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"brig/orchestrator/sandbox"
	. "brig/orchestrator/sandbox/sandboxtest"
	"brig/orchestrator/wire"
	"brig/orchestrator/workspace"
)

// elsewhere is a session whose instance does not see its workspace.
type elsewhere struct {
	*Session
	docker *Memory
}

func detached(t *testing.T, edit ...func(*Options)) elsewhere {
	t.Helper()
	o := pretended(sandbox.Docker)
	o.Detached = true
	docker := NewMemory(o)
	edit = append(edit, func(options *Options) { options.Backends = []sandbox.Backend{docker} })
	s := newRig(t, edit...).open(t, SessionOptions{})
	if !s.Posture().Detached {
		t.Fatal("the instance sees the workspace")
	}
	return elsewhere{s, docker}
}

// dir is the instance's own workspace.
func (e elsewhere) dir(t *testing.T) string {
	t.Helper()
	dir := e.docker.Directory(e.latest().instance.ID())
	if dir == "" || dir == e.home.workspace {
		t.Fatalf("the instance's directory is %q", dir)
	}
	return dir
}

func (e elsewhere) put(t *testing.T, name, text string) {
	t.Helper()
	if _, err := e.Workspace().Put(name, strings.NewReader(text), 0); err != nil {
		t.Fatal(err)
	}
}

// has checks what a file of the host holds; empty: there is none.
func (e elsewhere) has(t *testing.T, name, text string) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(e.home.workspace, name))
	if text == "" && errors.Is(err, os.ErrNotExist) {
		return
	}
	if err != nil || string(b) != text || text == "" {
		t.Errorf("%s holds %q, %v, want %q", name, b, err, text)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// carried runs steps and wants everything to be carried.
func (e elsewhere) carried(t *testing.T, steps ...Step) string {
	t.Helper()
	r, out := run(t, e.Session, RunRequest{}, steps...)
	if r.Cause != sandbox.OK || len(r.NotCarried) > 0 {
		t.Fatalf("cause %s (%s), not carried %q", r.Cause, r.Detail, r.NotCarried)
	}
	return out
}

// Files get to the code and back, changes and removals included, in both directions.
func TestMirror(t *testing.T) {
	e := detached(t)
	e.put(t, "in/data.txt", "one")
	e.put(t, "untouched", "same")
	if out := e.carried(t, ReadFile("in/data.txt"), WriteFile("out.txt", "result")); out != "one\n" {
		t.Errorf("the code read %q", out)
	}
	e.has(t, "out.txt", "result")
	// A change by the host, of what the code made, too.
	e.put(t, "in/data.txt", "two, longer")
	e.put(t, "out.txt", "mine")
	if out := e.carried(t, ReadFile("in/data.txt"), ReadFile("out.txt"), WriteFile("in/data.txt", "three")); out != "two, longer\nmine\n" {
		t.Errorf("the code read %q", out)
	}
	e.has(t, "in/data.txt", "three")
	// Removals.
	must(t, e.Workspace().Remove("in/data.txt"))
	must(t, os.Remove(filepath.Join(e.dir(t), "out.txt")))
	e.carried(t, Print("x"))
	e.has(t, "out.txt", "")
	if _, err := os.Stat(filepath.Join(e.dir(t), "in/data.txt")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a file that the host removed: %v", err)
	}
	e.has(t, "untouched", "same")
	// A directory where there was a file, and a file where there was a directory.
	must(t, e.Workspace().Remove("untouched"))
	e.put(t, "untouched/below", "deep")
	must(t, e.Workspace().Remove("in"))
	e.put(t, "in", "flat")
	if out := e.carried(t, ReadFile("untouched/below"), ReadFile("in")); out != "deep\nflat\n" {
		t.Errorf("the code read %q", out)
	}
	must(t, os.RemoveAll(filepath.Join(e.dir(t), "untouched")))
	must(t, os.WriteFile(filepath.Join(e.dir(t), "untouched"), []byte("flat too"), 0o600))
	e.carried(t, Print("x"))
	e.has(t, "untouched", "flat too")
}

// What both sides changed is kept twice, and said.
func TestMirrorConflict(t *testing.T) {
	e := detached(t)
	e.put(t, "f", "common")
	e.put(t, "gone-here", "common")
	e.put(t, "gone-there", "common")
	e.carried(t, Print("x"))
	for n, text := range []string{"the first of the code", "the second of the code"} {
		must(t, os.WriteFile(filepath.Join(e.dir(t), "f"), []byte(text), 0o600))
		e.put(t, "f", fmt.Sprint("of a person ", n))
		r, out := run(t, e.Session, RunRequest{}, ReadFile("f"))
		if want := fmt.Sprint("of a person ", n); out != want+"\n" {
			t.Errorf("the code reads %q", out)
		}
		e.has(t, "f", fmt.Sprint("of a person ", n))
		e.has(t, fmt.Sprint("f.from-run-", n+1), text)
		if len(r.NotCarried) != 1 || !strings.Contains(r.Detail, fmt.Sprintf(`the code's is now "f.from-run-%d"`, n+1)) {
			t.Errorf("it says %q", r.Detail)
		}
	}
	// A removal against a change: the change wins on either side.
	must(t, e.Workspace().Remove("gone-here"))
	must(t, os.WriteFile(filepath.Join(e.dir(t), "gone-here"), []byte("changed there"), 0o600))
	e.put(t, "gone-there", "changed here")
	must(t, os.Remove(filepath.Join(e.dir(t), "gone-there")))
	if out := e.carried(t, ReadFile("gone-there")); out != "changed here\n" {
		t.Errorf("the code reads %q", out)
	}
	e.has(t, "gone-here", "changed there")
}

// A fresh instance finds everything that was brought back from the one before.
func TestMirrorAfterLoss(t *testing.T) {
	e := detached(t)
	e.put(t, "in", "given")
	e.carried(t, WriteFile("made", "by the code"))
	if !e.docker.Lose(e.latest().instance.ID(), sandbox.Ending{Cause: sandbox.Killed, Detail: "killed by the test"}) {
		t.Fatal("nothing to lose")
	}
	r, out := run(t, e.Session, RunRequest{}, ReadFile("in"), ReadFile("made"))
	want(t, r, sandbox.OK, wire.StateLost)
	if out != "given\nby the code\n" || len(r.NotCarried) > 0 {
		t.Errorf("the code reads %q; %q", out, r.Detail)
	}
	// What was not yet brought back is said to be gone.
	a := start(t.Context(), e.Session, RunRequest{}, WriteFile("lost", "x"), Print("there"), WaitFile("never"))
	<-a.began
	e.docker.Lose(e.latest().instance.ID(), sandbox.Ending{Cause: sandbox.Killed, Detail: "killed by the test"})
	if r := a.wait(t); r.Cause != sandbox.Killed || len(r.NotCarried) != 1 || !strings.Contains(r.Detail, "went with the instance") {
		t.Errorf("cause %s: %s", r.Cause, r.Detail)
	}
}

// A whole program's files come back although its instance takes nothing further,
// and those of a run that was ended by force.
func TestMirrorEnds(t *testing.T) {
	e := detached(t)
	r, _ := run(t, e.Session, RunRequest{Once: true}, WriteFile("made", "x"))
	if r.State != wire.StateEnded || len(r.NotCarried) > 0 {
		t.Errorf("%+v", r)
	}
	e.has(t, "made", "x")
	a := start(t.Context(), e.Session, RunRequest{Timeout: 300e6}, WriteFile("half", "done"), Deaf())
	if r := a.wait(t); r.Cause != sandbox.Timeout || len(r.NotCarried) > 0 {
		t.Errorf("cause %s (%s)", r.Cause, r.Detail)
	}
	e.has(t, "half", "done")
}

// Links and special files are named, once, and nothing follows them.
func TestMirrorNamesWhatItCannot(t *testing.T) {
	e := detached(t)
	secret := filepath.Join(t.TempDir(), "secret")
	must(t, os.WriteFile(secret, []byte("secret"), 0o600))
	must(t, os.Symlink(secret, filepath.Join(e.home.workspace, "host-link")))
	e.put(t, "plain", "x")
	r, _ := run(t, e.Session, RunRequest{}, Plant("symlink", "link", secret), WriteFile("made", "x"))
	if r.Cause != sandbox.OK || len(r.NotCarried) != 2 || !strings.Contains(r.Detail, `"link" was not carried: it is a link`) || !strings.Contains(r.Detail, `"host-link"`) {
		t.Errorf("cause %s: %s", r.Cause, r.Detail)
	}
	e.has(t, "made", "x")
	for _, path := range []string{filepath.Join(e.home.workspace, "link"), filepath.Join(e.dir(t), "host-link")} {
		if _, err := os.Lstat(path); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: %v", path, err)
		}
	}
	e.carried(t, Print("x"))
}

// A file that the host has no room for stays where it is, is named, and is brought
// when there is room; the host keeps what it had.
func TestMirrorQuota(t *testing.T) {
	e := detached(t, func(o *Options) { o.Config.Limits.Workspace = 1 << 20 })
	e.put(t, "big", "old")
	e.carried(t, Print("x"))
	must(t, os.WriteFile(filepath.Join(e.dir(t), "big"), make([]byte, 3<<20), 0o600))
	must(t, os.WriteFile(filepath.Join(e.dir(t), "small"), []byte("fits"), 0o600))
	r, _ := run(t, e.Session, RunRequest{}, Print("x"))
	if r.Cause != sandbox.OK || len(r.NotCarried) != 1 || !strings.Contains(r.NotCarried[0], `"big" was not carried`) {
		t.Errorf("cause %s: %q", r.Cause, r.NotCarried)
	}
	e.has(t, "big", "old")
	e.has(t, "small", "fits")
	must(t, os.WriteFile(filepath.Join(e.dir(t), "big"), []byte("shorter"), 0o600))
	e.carried(t, Print("x"))
	e.has(t, "big", "shorter")
}

// More files than one list holds.
func TestMirrorMany(t *testing.T) {
	e := detached(t)
	const n = 350
	done := e.Workspace().Batch()
	for i := range n {
		e.put(t, fmt.Sprintf("here/%d/%d", i%7, i), fmt.Sprint(i))
		name := filepath.Join(e.dir(t), fmt.Sprintf("there/%d/%d", i%7, i))
		must(t, os.MkdirAll(filepath.Dir(name), 0o700))
		must(t, os.WriteFile(name, []byte(fmt.Sprint(i)), 0o600))
	}
	done()
	e.carried(t, Print("x"))
	for i := range n {
		e.has(t, fmt.Sprintf("there/%d/%d", i%7, i), fmt.Sprint(i))
		if b, err := os.ReadFile(filepath.Join(e.dir(t), fmt.Sprintf("here/%d/%d", i%7, i))); err != nil || string(b) != fmt.Sprint(i) {
			t.Fatalf("%d: %q, %v", i, b, err)
		}
	}
	before, err := e.Workspace().Snapshot()
	must(t, err)
	e.carried(t, Print("x"))
	if changed, err := e.Workspace().Changed(before); err != nil || len(changed) > 0 {
		t.Errorf("a run that changed nothing changed %v, %v", changed, err)
	}
}

// Who finds both sides full, as after a restart, compares them and moves nothing.
func TestMirrorTakenUp(t *testing.T) {
	e := detached(t)
	e.put(t, "same", "content")
	e.put(t, "differs", "before")
	e.carried(t, WriteFile("made", "x"))
	must(t, os.WriteFile(filepath.Join(e.dir(t), "differs"), []byte("beside"), 0o600))
	m := newMirror(e.files, e.latest().instance)
	notes := m.after(t.Context()).notes
	if len(notes) != 1 || !strings.Contains(notes[0], `"differs" was changed by the code and outside of it`) {
		t.Errorf("it says %q", notes)
	}
	e.has(t, "same", "content")
	e.has(t, "differs", "before")
	e.has(t, "differs.from-run-1", "beside")
	entries, _, err := e.Workspace().List("", 0)
	if err != nil || len(entries) != 4 {
		t.Errorf("%v, %v", entries, err)
	}
}

// crooked answers the calls of a mirror as a test says.
type crooked struct {
	sandbox.Instance
	list func(after string) wire.ListBody
	get  func(out io.Writer) error
}

func (c crooked) Call(ctx context.Context, req wire.Control, in io.Reader, out io.Writer) (wire.Reply, error) {
	switch req.Op {
	case wire.OpList:
		body, err := json.Marshal(c.list(req.Args.After))
		return wire.Reply{Body: body}, err
	case wire.OpGet:
		return wire.Reply{}, c.get(out)
	}
	return c.Instance.Call(ctx, req, in, out)
}

// An instance that lies about its files gets nothing written outside of the
// workspace, and brig neither loops nor fills up.
func TestMirrorHostile(t *testing.T) {
	page := func(names ...string) func(string) wire.ListBody {
		return func(string) wire.ListBody {
			var b wire.ListBody
			for _, name := range names {
				b.Entries = append(b.Entries, wire.Entry{Path: name, Kind: "file", Size: 3})
			}
			return b
		}
	}
	n := 0
	for _, c := range []struct {
		name string
		list func(string) wire.ListBody
		says string
	}{
		{"names that lead out", page("../x", "/etc/x", "a/../../x"), "was not carried"},
		{"a list out of order", page("b", "a"), "not in order"},
		{"one name twice", page("a", "a"), "not in order"},
		{"a list that never ends", func(string) wire.ListBody {
			n++
			return wire.ListBody{Entries: []wire.Entry{{Path: fmt.Sprintf("%09d", n), Kind: "dir"}}, Omitted: 1}
		}, "no more than"},
		{"a list that does not go on", func(string) wire.ListBody { return wire.ListBody{Omitted: 5} }, "does not go on"},
		{"a file without an end", page("endless"), "was not carried"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			files, err := workspace.OpenLimited(filepath.Join(mkdir(t, dir, "ws")), workspace.Limits{Bytes: 1 << 20, File: 1 << 16})
			must(t, err)
			defer files.Close()
			m := newMirror(files, crooked{list: c.list, get: func(out io.Writer) error {
				for {
					if _, err := out.Write(make([]byte, 1024)); err != nil {
						return err
					}
				}
			}})
			notes := m.after(t.Context()).notes
			if !slices.ContainsFunc(notes, func(s string) bool { return strings.Contains(s, c.says) }) {
				t.Errorf("it says %q", notes)
			}
			if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
				t.Errorf("beside the workspace: %v, %v", left, err)
			}
			if left, err := os.ReadDir(filepath.Join(dir, "ws")); err != nil || len(left) != 0 {
				t.Errorf("in the workspace: %v, %v", left, err)
			}
		})
	}
}

func mkdir(t *testing.T, parts ...string) string {
	t.Helper()
	dir := filepath.Join(parts...)
	must(t, os.MkdirAll(dir, 0o700))
	return dir
}

// slowly is a backend whose instances take for ever to take or give a file.
type slowly struct {
	*Memory
	op wire.Op
}

type slowPrepared struct {
	sandbox.Prepared
	op wire.Op
}

type slowInstance struct {
	sandbox.Instance
	op wire.Op
}

func (s slowly) Prepare(ctx context.Context, base sandbox.Base, workspace string) (sandbox.Prepared, error) {
	p, err := s.Memory.Prepare(ctx, base, workspace)
	return slowPrepared{p, s.op}, err
}

func (p slowPrepared) Bind(ctx context.Context, claim sandbox.Claim) (sandbox.Instance, error) {
	i, err := p.Prepared.Bind(ctx, claim)
	return slowInstance{i, p.op}, err
}

func (i slowInstance) Call(ctx context.Context, req wire.Control, in io.Reader, out io.Writer) (wire.Reply, error) {
	if req.Op == i.op {
		<-ctx.Done()
		return wire.Reply{}, context.Cause(ctx)
	}
	return i.Instance.Call(ctx, req, in, out)
}

// A transfer ends with an interrupt, with its caller and with the session, and is bounded.
func TestMirrorInterrupted(t *testing.T) {
	for _, op := range []wire.Op{wire.OpPut, wire.OpGet} {
		bubble(t, func(t *testing.T) {
			o := pretended(sandbox.Docker)
			o.Detached = true
			s := newRig(t, func(options *Options) { options.Backends = []sandbox.Backend{slowly{NewMemory(o), op}} }).open(t, SessionOptions{})
			steps := []Step{Print("ran"), WriteFile("made", "x")}
			if op == wire.OpPut {
				if _, err := s.Workspace().Put("big", strings.NewReader("x"), 0); err != nil {
					t.Fatal(err)
				}
			}
			type ended struct {
				r   Result
				err error
			}
			begin := func() chan ended {
				done := make(chan ended, 1)
				go func() {
					r, err := s.Run(context.Background(), RunRequest{Source: Program(steps).Source()}, nil)
					done <- ended{r, err}
				}()
				return done
			}
			done := begin()
			synctest.Wait()
			must(t, s.Interrupt(context.Background()))
			got := <-done
			if op == wire.OpPut && got.r.Cause != sandbox.Interrupted {
				t.Errorf("before the run: cause %s (%s), %v", got.r.Cause, got.r.Detail, got.err)
			}
			if op == wire.OpGet && (got.r.Cause != sandbox.OK || len(got.r.NotCarried) == 0) {
				t.Errorf("after the run: cause %s (%s), %v", got.r.Cause, got.r.Detail, got.err)
			}
			// Without an interrupt it ends by itself.
			got = <-begin()
			if op == wire.OpPut && (got.err == nil || !strings.Contains(got.err.Error(), `"big" was not carried`)) {
				t.Errorf("before the run: %v", got.err)
			}
			if op == wire.OpGet && (got.r.Cause != sandbox.OK || !strings.Contains(got.r.Detail, `"made" was not carried`)) {
				t.Errorf("after the run: cause %s (%s), %v", got.r.Cause, got.r.Detail, got.err)
			}
			done = begin()
			synctest.Wait()
			shut(t, s)
			if got := <-done; got.err == nil && got.r.Cause == "" {
				t.Errorf("during Close: %+v", got)
			}
		})
	}
}
