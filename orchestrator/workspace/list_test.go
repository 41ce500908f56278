package workspace_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"brig/orchestrator/workspace"
)

func TestList(t *testing.T) {
	s := newStage(t, workspace.Limits{})
	for _, name := range []string{"b.txt", "a/2", "a/1", "a/c/x", "z"} {
		s.write(t, name, "12345")
	}
	all := []string{"a", "a/1", "a/2", "a/c", "a/c/x", "b.txt", "z"}
	for _, c := range []struct {
		prefix  string
		limit   int
		want    []string
		omitted int
	}{
		{"", 0, all, 0},
		{".", 0, all, 0},
		{"./", 0, all, 0},
		{"", 3, all[:3], 4},
		{"", 7, all, 0},
		{"a", 0, all[1:5], 0},
		{"a/", 1, all[1:2], 3},
		{"a/c/x", 0, []string{"a/c/x"}, 0},
	} {
		got, omitted, err := s.List(c.prefix, c.limit)
		if err != nil || omitted != c.omitted || !slices.Equal(paths(got), c.want) {
			t.Errorf("List(%q, %d) is %q, %d omitted, %v; want %q, %d", c.prefix, c.limit, paths(got), omitted, err, c.want, c.omitted)
		}
	}
	got, _, err := s.List("", 2)
	must(t, err)
	if got[0].Kind != workspace.Dir || got[0].Size != 0 || got[1].Kind != workspace.File || got[1].Size != 5 || time.Since(got[1].ModTime) > time.Hour {
		t.Errorf("entries are %+v", got)
	}
	for _, c := range []struct {
		prefix string
		kind   error
	}{{"..", workspace.ErrEscapes}, {"../outside", workspace.ErrEscapes}, {"/", workspace.ErrEscapes}, {"a/..", workspace.ErrEscapes}, {"a\x00", workspace.ErrName}, {"no", fs.ErrNotExist}} {
		if _, _, err := s.List(c.prefix, 0); !errors.Is(err, c.kind) {
			t.Errorf("List(%q) is %v, want %v", c.prefix, err, c.kind)
		}
	}
}

// A huge directory is listed in bounded memory and with an exact count of the rest.
func TestListHuge(t *testing.T) {
	const n = 8_000
	s := newStage(t, workspace.Limits{})
	must(t, os.Mkdir(s.path("huge"), 0o700))
	for i := range n {
		f, err := os.Create(s.path(fmt.Sprintf("huge/%05d", i)))
		must(t, err)
		must(t, f.Close())
	}
	got, omitted, err := s.List("huge", 10)
	if err != nil || omitted != n-10 || len(got) != 10 || got[9].Path != "huge/00009" {
		t.Fatalf("list: %q, %d omitted, %v", paths(got), omitted, err)
	}
	_, files, err := s.Usage()
	if err != nil || files != n+1 {
		t.Fatalf("usage counts %d, %v", files, err)
	}
	must(t, s.Remove("huge"))
	if _, files, err := s.Usage(); err != nil || files != 0 {
		t.Fatalf("after Remove usage counts %d, %v", files, err)
	}
}

// Code that makes more files than a walk looks at gets an error, not our time.
func TestTooMany(t *testing.T) {
	s := newStage(t, workspace.Limits{})
	for i := range 20 {
		s.write(t, fmt.Sprintf("d%d/f", i), "x")
	}
	workspace.Shorten(s.Workspace, 10)
	got, omitted, err := s.List("", 4)
	wantKind(t, err, workspace.ErrTooMany)
	if len(got) != 4 || omitted < 1 || omitted > 6 {
		t.Errorf("listed %q and %d more", paths(got), omitted)
	}
	_, _, err = s.Usage()
	wantKind(t, err, workspace.ErrTooMany)
	_, err = s.Snapshot()
	wantKind(t, err, workspace.ErrTooMany)
	_, err = s.Changed(workspace.Snapshot{})
	wantKind(t, err, workspace.ErrTooMany)
	_, err = s.Put("f", strings.NewReader(""), 0)
	wantKind(t, err, workspace.ErrQuota)
	must(t, s.Clear()) // and it can be removed all the same
	if left, err := os.ReadDir(s.dir); err != nil || len(left) != 0 {
		t.Fatalf("after Clear there is %v, %v", left, err)
	}
}

// What a walk cannot reach is not passed over in silence: the directory at which
// it stopped is listed, also among what changed.
func TestDeepChange(t *testing.T) {
	s := newStage(t, workspace.Limits{})
	before, err := s.Snapshot()
	must(t, err)
	reached := strings.Repeat("d/", workspace.MaxDepth-1) + "last"
	s.write(t, reached, "x")
	changed, err := s.Changed(before)
	must(t, err)
	if len(changed) != 1 || changed[0].Path != reached || changed[0].Problem != "" {
		t.Fatalf("control: %+v", changed)
	}
	stopped := strings.Repeat("d/", workspace.MaxDepth-1) + "e"
	s.write(t, stopped+"/lost", "x")
	changed, err = s.Changed(before)
	must(t, err)
	listed, _, err := s.List("", 1000)
	must(t, err)
	for name, entries := range map[string][]workspace.Entry{"changed": changed, "list": listed} {
		i := slices.IndexFunc(entries, func(e workspace.Entry) bool { return e.Path == stopped })
		if i < 0 || entries[i].Kind != workspace.Dir || !strings.Contains(entries[i].Problem, "more than 64 parts deep") {
			t.Errorf("%s: %+v", name, entries)
		}
	}
}

// A measurement sees what no list shows, and what it cannot see it does not leave
// out in silence.
func TestUsageOfADeepTree(t *testing.T) {
	s := newStage(t, workspace.Limits{Bytes: 1 << 20})
	for _, c := range []struct {
		deep int
		err  error
	}{{70, nil}, {workspace.MaxNesting, nil}, {workspace.MaxNesting + 1, workspace.ErrTooDeep}, {2000, workspace.ErrTooDeep}} {
		makeDeep(t, s.dir, c.deep)
		used, files, err := s.Usage()
		if !errors.Is(err, c.err) || err == nil && files != 2*c.deep {
			t.Errorf("%d deep: %d bytes, %d files, %v", c.deep, used, files, err)
		}
		_, err = s.Put("f", strings.NewReader(""), 0)
		if c.err == nil {
			must(t, err)
		} else if wantKind(t, err, workspace.ErrQuota); !strings.Contains(err.Error(), "nested deeper than 256") {
			t.Errorf("put beside %d directories below each other: %v", c.deep, err)
		}
		must(t, s.Clear())
	}
	makeDeep(t, s.dir, 70)
	bottom, err := os.OpenRoot(s.path(strings.Repeat("d/", 70)))
	must(t, err)
	defer bottom.Close()
	must(t, bottom.WriteFile("big", make([]byte, 4<<20), 0o600))
	if used, _, err := s.Usage(); err != nil || used < 4<<20 {
		t.Errorf("4 MiB at the bottom are %d bytes, %v", used, err)
	}
	_, err = s.Put("f", strings.NewReader("x"), 0)
	wantKind(t, err, workspace.ErrQuota)
}

func TestDeepTree(t *testing.T) {
	s := newStage(t, workspace.Limits{})
	makeDeep(t, s.dir, 600)
	got, _, err := s.List("", 1000)
	must(t, err)
	deepest := strings.TrimSuffix(strings.Repeat("d/", workspace.MaxDepth), "/")
	for _, e := range got {
		if (e.Problem != "") != (e.Path == deepest) {
			t.Fatalf("entry %+v", e)
		}
	}
	if len(got) != 2*workspace.MaxDepth-1 {
		t.Fatalf("list has %d entries", len(got))
	}
	s.write(t, "keep", "x")
	must(t, s.Remove("d"))
	left, err := os.ReadDir(s.dir)
	if err != nil || len(left) != 1 {
		t.Fatalf("after Remove there is %v, %v", left, err)
	}
	makeDeep(t, s.dir, 600)
	must(t, s.Clear())
	if left, err := os.ReadDir(s.dir); err != nil || len(left) != 0 {
		t.Fatalf("after Clear there is %v, %v", left, err)
	}
}

// makeDeep nests n directories named d, with a file beside each; their path is
// longer than any system call takes.
func makeDeep(t *testing.T, dir string, n int) {
	t.Helper()
	root, err := os.OpenRoot(dir)
	must(t, err)
	for range n {
		must(t, root.Mkdir("d", 0o700))
		next, err := root.OpenRoot("d")
		must(t, err)
		must(t, next.WriteFile("f", nil, 0o600))
		must(t, root.Close())
		root = next
	}
	must(t, root.Close())
}

func TestSnapshotAndChanged(t *testing.T) {
	s := newStage(t, workspace.Limits{})
	for _, name := range []string{"same", "grown", "rewritten", "gone", "d/moved"} {
		s.write(t, name, "0123456789")
	}
	old := time.Now().Add(-time.Hour)
	must(t, os.Chtimes(s.path("rewritten"), old, old))
	snap, err := s.Snapshot()
	must(t, err)
	if snap.Len() != 5 {
		t.Fatalf("the snapshot has %d files", snap.Len())
	}
	if got, err := s.Changed(snap); err != nil || len(got) != 0 {
		t.Fatalf("nothing changed, but %q, %v", paths(got), err)
	}
	s.write(t, "grown", "0123456789+")
	s.write(t, "rewritten", "9876543210")
	s.write(t, "new/file", "")
	must(t, os.Remove(s.path("gone")))
	must(t, os.Rename(s.path("d/moved"), s.path("d/moved2")))
	got, err := s.Changed(snap)
	must(t, err)
	if want := []string{"d/moved2", "grown", "new/file", "rewritten"}; !slices.Equal(paths(got), want) {
		t.Fatalf("changed are %q, want %q", paths(got), want)
	}
	if got, err := s.Changed(workspace.Snapshot{}); err != nil || len(got) != 5 {
		t.Fatalf("against nothing everything is new, but %q, %v", paths(got), err)
	}
}

func TestRemove(t *testing.T) {
	s := newStage(t, workspace.Limits{})
	s.write(t, "f", "")
	s.write(t, "d/e/f", "")
	must(t, s.Remove("f"))
	must(t, s.Remove("d"))
	for _, c := range []struct {
		name string
		kind error
	}{{"f", fs.ErrNotExist}, {"no/no", fs.ErrNotExist}, {".", workspace.ErrName}, {"", workspace.ErrName}, {"..", workspace.ErrEscapes}, {"../outside", workspace.ErrEscapes}} {
		if err := s.Remove(c.name); !errors.Is(err, c.kind) {
			t.Errorf("Remove(%q) is %v, want %v", c.name, err, c.kind)
		}
	}
	must(t, s.Clear())
	must(t, s.Clear())
}

func TestOpenAndClose(t *testing.T) {
	s := newStage(t, workspace.Limits{})
	s.write(t, "f", "content")
	for _, dir := range []string{"", s.path("no"), s.path("f")} {
		w, err := workspace.Open(dir)
		if err == nil {
			t.Fatalf("Open(%q) gave %v", dir, w)
		}
		var e *workspace.Error
		if !errors.As(err, &e) {
			t.Fatalf("Open(%q): %v is a %T", dir, err, err)
		}
	}
	w, err := workspace.Open(s.dir)
	must(t, err)
	r, _, err := w.Get("f", 0)
	must(t, err)
	must(t, w.Close())
	must(t, w.Close())
	b := make([]byte, 7)
	if n, err := r.Read(b); err != nil || string(b[:n]) != "content" {
		t.Fatalf("a reader after Close read %q, %v", b[:n], err)
	}
	must(t, r.Close())
	if _, err := w.Put("g", strings.NewReader(""), 0); !errors.Is(err, os.ErrClosed) {
		t.Fatalf("Put after Close: %v", err)
	}
	if _, _, err := w.List("", 0); !errors.Is(err, os.ErrClosed) {
		t.Fatalf("List after Close: %v", err)
	}
}
