package runner

import (
	"crypto/sha256"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"brig/orchestrator/wire"
)

func TestFiles(t *testing.T) {
	each(t, func(t *testing.T, p interpreter) {
		r := start(t, p)
		for _, content := range []string{"", "one", strings.Repeat("x", 300_000)} {
			if err := r.put("a/b/c.txt", content); err != nil {
				t.Fatal(err)
			}
			if got, err := r.get("a/b/c.txt"); got != content {
				t.Errorf("%d bytes came back as %d, %v", len(content), len(got), err)
			}
		}
		if got := r.ok("import os; print(oct(os.stat('a/b/c.txt').st_mode), os.listdir('a/b'))"); got.out != "0o100600 ['c.txt']\n" {
			t.Errorf("%s", got.out)
		}
		put := wire.Control{Op: wire.OpPut, Args: wire.ControlArgs{Path: "tool", Mode: 0o755}}
		if _, err := r.Call(limited(t), put, strings.NewReader("#!"), nil); err != nil {
			t.Fatal(err)
		}
		if got := r.ok("print(oct(os.stat('tool').st_mode))"); got.out != "0o100755\n" {
			t.Errorf("%s", got.out)
		}

		r.ok("os.mkfifo('pipe'); os.symlink('/etc', 'link'); os.makedirs('a/empty'); os.utime('tool', ns=(5, 7)); open('a-b', 'w').close()")
		var list wire.ListBody
		r.call(wire.OpList, wire.ControlArgs{}, &list)
		var lines []string
		for _, e := range list.Entries {
			lines = append(lines, e.Path+" "+e.Kind)
		}
		want := "a dir;a-b file;a/b dir;a/b/c.txt file;a/empty dir;link link;pipe other;tool file"
		if got := strings.Join(lines, ";"); got != want || list.Omitted != 0 {
			t.Errorf("list: %s, want %s", got, want)
		}
		if last := list.Entries[len(list.Entries)-1]; last.Size != 2 || last.ModUnix != 7 {
			t.Errorf("%+v", last)
		}
		r.call(wire.OpList, wire.ControlArgs{Path: "a", Limit: 2}, &list)
		if len(list.Entries) != 2 || list.Entries[0].Path != "a/b" || list.Omitted != 1 {
			t.Errorf("list with a limit: %+v", list)
		}

		for _, path := range []string{"a", "pipe", "link"} {
			r.call(wire.OpRemove, wire.ControlArgs{Path: path}, nil)
		}
		if got := r.ok("print(sorted(os.listdir()), os.path.exists('/etc/passwd'))"); got.out != "['a-b', 'tool'] True\n" {
			t.Errorf("%s", got.out)
		}
	})
}

// TestFileTraps: what user code plants is never followed, waited for or read.
func TestFileTraps(t *testing.T) {
	each(t, func(t *testing.T, p interpreter) {
		r := start(t, p)
		outside := filepath.Join(r.scratch, "outside")
		if err := os.WriteFile(outside, []byte("outside"), 0o666); err != nil {
			t.Fatal(err)
		}
		r.ok(sprintf(`
import os
open('real', 'w').write('real'); os.link('real', 'hard')
os.symlink(%q, 'link'); os.symlink('.', 'here'); os.symlink(%q, 'dir'); os.symlink('loop', 'loop')
os.mkfifo('fifo'); os.mkdir('sub'); os.mkdir('closed'); open('closed/x', 'w').close(); os.chmod('closed', 0)
open('secret', 'w').close(); os.chmod('secret', 0)
import socket; s = socket.socket(socket.AF_UNIX); s.bind('sock')`, outside, r.scratch))
		cases := []struct {
			op   wire.Op
			path string
			code string
		}{
			{wire.OpGet, "nothing", "not-found"},
			{wire.OpGet, "no/thing", "not-found"},
			{wire.OpGet, "link", "invalid"},
			{wire.OpGet, "loop", "invalid"},
			{wire.OpGet, "dir/outside", "invalid"},
			{wire.OpGet, "here/here/real", "invalid"},
			{wire.OpGet, "hard", "invalid"},
			{wire.OpGet, "real", "invalid"},
			{wire.OpGet, "fifo", "invalid"},
			{wire.OpGet, "sock", "invalid"},
			{wire.OpGet, "sub", "invalid"},
			{wire.OpGet, "secret", "denied"},
			{wire.OpGet, "real/x", "invalid"},
			{wire.OpGet, "", "invalid"},
			{wire.OpGet, "..", "invalid"},
			{wire.OpGet, "/etc/passwd", "invalid"},
			{wire.OpGet, "sub/../real", "invalid"},
			{wire.OpGet, "a//b", "invalid"},
			{wire.OpGet, "x\x00y", "invalid"},
			{wire.OpGet, strings.Repeat("n", 300), "invalid"},
			{wire.OpGet, strings.Repeat("d/", 3000) + "x", "invalid"},
			{wire.OpPut, "sub", "invalid"},
			{wire.OpPut, "dir/new", "invalid"},
			{wire.OpPut, "../new", "invalid"},
			{wire.OpPut, "real/new", "invalid"},
			{wire.OpPut, "closed/new", "denied"},
			{wire.OpRemove, "nothing", "not-found"},
			{wire.OpRemove, "dir/outside", "invalid"},
			{wire.OpRemove, ".", "invalid"},
			{wire.OpList, "dir", "ok"},
			{wire.OpList, "dir/x", "invalid"},
			{wire.OpList, "nothing", "not-found"},
			{wire.OpList, "closed", "denied"},
			{"no-such", "x", "unsupported"},
			{wire.OpPut, "link", "ok"},
			{wire.OpPut, "fifo", "ok"},
			{wire.OpPut, "hard", "ok"}, // replaced, not followed
			{wire.OpGet, "real", "ok"},
			{wire.OpRemove, "closed", "ok"},
			{wire.OpRemove, "dir", "ok"},
			{wire.OpRemove, "here", "ok"},
		}
		for _, c := range cases {
			var in io.Reader
			if c.op == wire.OpPut {
				in = strings.NewReader(strings.Repeat("new", 500_000))
			}
			_, err := r.Call(limited(t), wire.Control{Op: c.op, Args: wire.ControlArgs{Path: c.path}}, in, nil)
			if code(err) != c.code {
				t.Errorf("%s of %.40q: %v, want %s", c.op, c.path, err, c.code)
			}
		}
		if data, err := os.ReadFile(outside); string(data) != "outside" {
			t.Errorf("the file outside holds %q, %v", data, err)
		}
		if got := r.ok("print(open('real').read(), sorted(os.listdir()))"); got.out != "real ['fifo', 'hard', 'link', 'loop', 'real', 'secret', 'sock', 'sub']\n" {
			t.Errorf("%s", got.out)
		}
	})
}

// numbered yields so many bytes that depend on where they stand.
type numbered struct{ at, size int64 }

func (n *numbered) Read(p []byte) (int, error) {
	if n.at == n.size {
		return 0, io.EOF
	}
	p = p[:min(int64(len(p)), n.size-n.at)]
	for i := range p {
		p[i] = byte((n.at + int64(i)) * 2654435761 >> 13)
	}
	n.at += int64(len(p))
	return len(p), nil
}

// TestTransfersBesideARun: files travel while code spins and prints, and an
// interrupt does not wait for them.
func TestTransfersBesideARun(t *testing.T) {
	each(t, func(t *testing.T, p interpreter) {
		const size = 24 << 20
		r := start(t, p)
		run := r.background("print('ready', flush=True)\nwhile True: print('x' * 10_000)")
		run.until(t, "ready")
		sent, received := sha256.New(), sha256.New()
		if _, err := r.Call(limited(t), wire.Control{Op: wire.OpPut, Args: wire.ControlArgs{Path: "big"}}, io.TeeReader(&numbered{size: size}, sent), nil); err != nil {
			t.Fatal(err)
		}
		get := make(chan error, 1)
		blocked, release := io.Pipe()
		go func() { // this one stands still in the middle
			_, err := r.Call(limited(t), wire.Control{Op: wire.OpGet, Args: wire.ControlArgs{Path: "big"}}, nil, release)
			get <- err
		}()
		if _, err := io.CopyN(received, blocked, 1<<20); err != nil {
			t.Fatal(err)
		}
		r.call(wire.OpPing, wire.ControlArgs{}, nil)
		r.interrupt(run, wire.Soft, false)
		if got := <-run.done; got.err != nil || got.Outcome != wire.OutcomeInterrupted {
			t.Errorf("%s", got)
		}
		if _, err := io.CopyN(received, blocked, size-1<<20); err != nil {
			t.Fatal(err)
		}
		if err := <-get; err != nil {
			t.Error(err)
		}
		if string(sent.Sum(nil)) != string(received.Sum(nil)) {
			t.Error("the file came back different")
		}
	})
}

// TestLargeTree: a tree of many files, and one deeper than descriptors go, is
// listed and removed, and other calls are answered meanwhile.
func TestLargeTree(t *testing.T) {
	each(t, func(t *testing.T, p interpreter) {
		r := start(t, p)
		r.ok(`
import os
os.mkdir('deep'); d = os.open('deep', os.O_RDONLY)
for i in range(200):
    os.mkdir('x', dir_fd=d); below = os.open('x', os.O_RDONLY, dir_fd=d); os.close(d); d = below
os.close(d); os.mkdir('wide')
for i in range(5000): open('wide/%04d' % i, 'w').close()`)
		listed := make(chan error, 1)
		var body wire.ListBody
		go func() {
			_, err := r.Call(limited(t), wire.Control{Op: wire.OpList}, nil, nil)
			listed <- err
		}()
		r.call(wire.OpPing, wire.ControlArgs{}, nil)
		if err := <-listed; err != nil {
			t.Fatal(err)
		}
		r.call(wire.OpList, wire.ControlArgs{Path: "wide", Limit: 10_000}, &body)
		if len(body.Entries)+body.Omitted != 5000 || len(body.Entries) < 200 || body.Entries[7].Path != "wide/0007" {
			t.Errorf("%d entries, %d omitted", len(body.Entries), body.Omitted)
		}
		seen, after := 0, ""
		for range 30 {
			var page wire.ListBody
			r.call(wire.OpList, wire.ControlArgs{Path: "wide", Limit: 10_000, After: after}, &page)
			if seen += len(page.Entries); page.Omitted == 0 {
				break
			}
			after = page.Entries[len(page.Entries)-1].Path
		}
		if seen != 5000 {
			t.Errorf("%d entries on all pages", seen)
		}
		var whole wire.ListBody
		r.call(wire.OpList, wire.ControlArgs{Path: "deep"}, &whole)
		closed := 0
		for _, e := range whole.Entries {
			if e.Closed {
				closed++
			}
		}
		if closed != 1 {
			t.Errorf("of %d directories in one another %d are said to be cut off", len(whole.Entries), closed)
		}
		r.call(wire.OpRemove, wire.ControlArgs{Path: "deep"}, nil)
		r.call(wire.OpRemove, wire.ControlArgs{Path: "wide"}, nil)
		if got := r.ok("print(os.listdir())"); got.out != "[]\n" {
			t.Errorf("left: %.300s", got.out)
		}
	})
}

// TestNamesThatAreNoText: a name of arbitrary bytes is listed, and harms nothing.
func TestNamesThatAreNoText(t *testing.T) {
	each(t, func(t *testing.T, p interpreter) {
		r := start(t, p)
		r.ok("import os\nopen(b'caf\\xe9', 'w').close(); open('new\\nline \\x1b[31m', 'w').close()")
		var body wire.ListBody
		r.call(wire.OpList, wire.ControlArgs{}, &body)
		if len(body.Entries) != 2 || body.Entries[0].Path != "caf\ufffd" || body.Entries[1].Path != "new\nline \x1b[31m" {
			t.Errorf("%+v", body)
		}
		r.call(wire.OpRemove, wire.ControlArgs{Path: body.Entries[1].Path}, nil)
	})
}
