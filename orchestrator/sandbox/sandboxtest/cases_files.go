package sandboxtest

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"

	"brig/orchestrator/wire"
)

func fileCases() []testCase {
	return []testCase{
		{name: "RoundTrip", run: caseFiles},
		{name: "BetweenProgramAndCaller", run: caseFilesShared},
		{name: "Large", run: caseLargeFile},
		{name: "List", run: caseList},
		{name: "ListPages", run: caseListPages},
		{name: "Names", run: caseFileNames},
		{name: "Planted", run: casePlanted},
		{name: "InterruptDuringLargePut", run: caseInterruptDuringPut},
		{name: "FailingInput", run: caseFailingInput},
	}
}

func (b *box) list(t testing.TB, args wire.ControlArgs) wire.ListBody {
	t.Helper()
	r := b.call(t, wire.OpList, args)
	var body wire.ListBody
	if err := json.Unmarshal(r.Body, &body); err != nil {
		t.Fatalf("read the list %s: %v", r.Body, err)
	}
	return body
}

func (b *box) remove(t testing.TB, path string) {
	t.Helper()
	b.call(t, wire.OpRemove, wire.ControlArgs{Path: path})
}

func caseFiles(t *testing.T, s *suite) {
	b := s.any(t)
	for _, text := range []string{"", "one", "a longer\nsecond text\x00\xff"} {
		b.put(t, "files/deep/a.txt", text)
		if got, err := b.get(t, "files/deep/a.txt"); err != nil || string(got) != text {
			t.Errorf("got %q, %v, want %q", head(got), err, text)
		}
	}
	b.remove(t, "files/deep/a.txt")
	_, err := b.get(t, "files/deep/a.txt")
	refused(t, "get of a removed file", err, wire.CodeNotFound)
	_, err = b.Call(limited(t), wire.Control{Op: wire.OpRemove, Args: wire.ControlArgs{Path: "files/deep/a.txt"}}, nil, nil)
	refused(t, "remove of a removed file", err, wire.CodeNotFound)
}

// caseListPages: what does not fit into one list comes in several, each entry once.
func caseListPages(t *testing.T, s *suite) {
	b := s.any(t)
	for n := range 25 {
		b.put(t, fmt.Sprintf("pages/%c/%02d", 'a'+n%3, n), "x")
	}
	whole := b.list(t, wire.ControlArgs{Path: "pages"})
	var paged []wire.Entry
	after, left := "", len(whole.Entries)
	for page := range len(whole.Entries) {
		body := b.list(t, wire.ControlArgs{Path: "pages", Limit: 7, After: after})
		left -= len(body.Entries)
		if body.Omitted != left {
			t.Fatalf("page %d has %d entries and omits %d, %d are left", page, len(body.Entries), body.Omitted, left)
		}
		paged = append(paged, body.Entries...)
		if body.Omitted == 0 {
			break
		}
		after = paged[len(paged)-1].Path
	}
	if len(whole.Entries) != 28 || !slices.Equal(paged, whole.Entries) {
		t.Errorf("in pages %v, as a whole %v", paged, whole.Entries)
	}
}

func caseFilesShared(t *testing.T, s *suite) {
	b := s.any(t)
	b.put(t, "shared-in", "naïve")
	o := b.ok(t, Program{ReadFile("shared-in"), WriteFile("shared-in", "over"), WriteFile("shared-out", "new")})
	if string(o.stdout) != "naïve\n" {
		t.Errorf("the program read %q", head(o.stdout))
	}
	for name, want := range map[string]string{"shared-in": "over", "shared-out": "new"} {
		if got, err := b.get(t, name); err != nil || string(got) != want {
			t.Errorf("%s holds %q, %v", name, head(got), err)
		}
	}
}

func caseLargeFile(t *testing.T, s *suite) {
	const size = 32 << 20
	b := s.any(t)
	sent, received := sha256.New(), sha256.New()
	put := wire.Control{Op: wire.OpPut, Args: wire.ControlArgs{Path: "large.bin", Mode: 0o644}}
	if _, err := b.Call(limited(t), put, io.TeeReader(Numbered.Reader(size), sent), nil); err != nil {
		t.Fatalf("put: %v", err)
	}
	get := wire.Control{Op: wire.OpGet, Args: wire.ControlArgs{Path: "large.bin"}}
	if _, err := b.Call(limited(t), get, nil, received); err != nil {
		t.Fatalf("get: %v", err)
	}
	if !bytes.Equal(sent.Sum(nil), received.Sum(nil)) {
		t.Error("the file came back different")
	}
	b.remove(t, "large.bin")
}

func caseList(t *testing.T, s *suite) {
	b := s.any(t)
	for i := range 5 {
		b.put(t, fmt.Sprintf("listed/%d", i), strings.Repeat("x", i))
	}
	body := b.list(t, wire.ControlArgs{Path: "listed"})
	if len(body.Entries) != 5 || body.Omitted != 0 {
		t.Fatalf("list: %+v", body)
	}
	for i, e := range body.Entries {
		if e.Path != fmt.Sprintf("listed/%d", i) || e.Kind != "file" || e.Size != int64(i) || e.ModUnix <= 0 {
			t.Errorf("entry %d: %+v", i, e)
		}
	}
	if body := b.list(t, wire.ControlArgs{Path: "listed", Limit: 2}); len(body.Entries) != 2 || body.Omitted != 3 {
		t.Errorf("list with a limit of 2: %+v", body)
	}
	b.remove(t, "listed")
	_, err := b.Call(limited(t), wire.Control{Op: wire.OpList, Args: wire.ControlArgs{Path: "listed"}}, nil, nil)
	refused(t, "list of a removed directory", err, wire.CodeNotFound)
}

// caseFileNames: no name leads out of the workspace.
func caseFileNames(t *testing.T, s *suite) {
	b := s.any(t)
	for _, name := range []string{"", ".", "..", "../outside", "/etc/hostname", "a/../../outside", "nul\x00name"} {
		for _, op := range []wire.Op{wire.OpPut, wire.OpGet, wire.OpRemove} {
			var in io.Reader
			if op == wire.OpPut {
				in = strings.NewReader("x")
			}
			_, err := b.Call(limited(t), wire.Control{Op: op, Args: wire.ControlArgs{Path: name}}, in, nil)
			refused(t, fmt.Sprintf("%s of %q", op, name), err)
		}
	}
	b.usable(t)
}

// casePlanted: what a program leaves in place of a file is neither read nor
// written through.
func casePlanted(t *testing.T, s *suite) {
	if !plantable {
		t.Log("left out: this system has no named pipes in directories")
		return
	}
	b := s.own(t)
	b.put(t, "real", "real")
	b.ok(t, Program{
		Plant("symlink", "link", "/etc/hostname"), Plant("symlink", "up", ".."), Plant("symlink", "dir", "/etc"),
		Plant("hardlink", "hard", "real"), Plant("fifo", "fifo", ""),
	})
	for _, name := range []string{"link", "up", "dir/hostname", "hard", "real", "fifo"} {
		got, err := b.get(t, name)
		refused(t, "get of "+name, err)
		if len(got) > 0 {
			t.Errorf("get of %s gave %q", name, head(got))
		}
	}
	put := wire.Control{Op: wire.OpPut, Args: wire.ControlArgs{Path: "dir/brig-suite-was-here"}}
	_, err := b.Call(limited(t), put, strings.NewReader("x"), nil)
	refused(t, "put through a link", err)

	kinds := make(map[string]string)
	for _, e := range b.list(t, wire.ControlArgs{}).Entries {
		kinds[e.Path] = e.Kind
	}
	for name, want := range map[string]string{"link": "link", "dir": "link", "fifo": "other", "hard": "file"} {
		if kinds[name] != want {
			t.Errorf("%s is listed as %q, want %q", name, kinds[name], want)
		}
	}
	// What stands at the end of a name is replaced.
	b.put(t, "link", "now a file")
	if got, err := b.get(t, "link"); err != nil || string(got) != "now a file" {
		t.Errorf("after a put over a link: %q, %v", head(got), err)
	}
	b.usable(t)
}

// endless yields bytes until it is stopped; it counts what was taken.
type endless struct {
	mu      sync.Mutex
	taken   int64
	stopped bool
}

func (e *endless) Read(p []byte) (int, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.stopped || e.taken > 256<<20 {
		return 0, io.EOF
	}
	clear(p)
	e.taken += int64(len(p))
	return len(p), nil
}

func (e *endless) stop() { e.mu.Lock(); defer e.mu.Unlock(); e.stopped = true }

func (e *endless) beyond(n int64) bool { e.mu.Lock(); defer e.mu.Unlock(); return e.taken > n }

// caseInterruptDuringPut: a transfer does not stand in the way of an interrupt.
func caseInterruptDuringPut(t *testing.T, s *suite) {
	b := s.own(t)
	l := b.start(limited(t), t, Program{Print("ready"), Spin()})
	l.until(t, "ready\n")
	in := &endless{}
	put := make(chan error, 1)
	ctx := limited(t)
	go func() {
		_, err := b.Call(ctx, wire.Control{Op: wire.OpPut, Args: wire.ControlArgs{Path: "endless"}}, in, nil)
		put <- err
	}()
	await(t, "the transfer to be under way", func() bool { return in.beyond(2 << 20) })
	b.interrupt(t, l, wire.Soft, false)
	if o := l.wait(); o.exit.Outcome != wire.OutcomeInterrupted || o.err != nil {
		t.Errorf("ended %s, %v", describe(o.exit), o.err)
	}
	in.stop()
	if err := <-put; err != nil {
		t.Errorf("put: %v", err)
	}
	b.remove(t, "endless")
}

// caseFailingInput: a put whose input fails leaves nothing behind.
func caseFailingInput(t *testing.T, s *suite) {
	b := s.any(t)
	b.put(t, "failing", "old")
	in := io.MultiReader(Numbered.Reader(1<<20), failingReader{})
	_, err := b.Call(limited(t), wire.Control{Op: wire.OpPut, Args: wire.ControlArgs{Path: "failing"}}, in, nil)
	if err == nil {
		t.Error("a put whose input failed succeeded")
	}
	if got, err := b.get(t, "failing"); err != nil || string(got) != "old" {
		t.Errorf("the file holds %d bytes, %v", len(got), err)
	}
}

type failingReader struct{}

func (failingReader) Read([]byte) (int, error) { return 0, errStop }
