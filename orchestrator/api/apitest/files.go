package apitest

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"brig/orchestrator/api"
)

func write(t *testing.T, b api.Brig, session, path, content string) api.File {
	t.Helper()
	f, err := b.WriteFile(within(t), session, path, strings.NewReader(content), api.WriteOptions{})
	must(t, err)
	return f
}

func read(t *testing.T, b api.Brig, session, path string, r api.Range) (string, api.File) {
	t.Helper()
	content, f, err := b.ReadFile(within(t), session, path, r)
	must(t, err)
	text, err := io.ReadAll(content)
	must(t, err)
	must(t, content.Close())
	return string(text), f
}

func files(t *testing.T, s Subject) {
	b := s.Agent
	x := open(t, b, api.SessionRequest{Name: "files"})
	first := write(t, b, "files", "data/a.txt", "0123456789")
	if first.Replaced || first.Bytes != 10 || first.Path != "data/a.txt" || first.Kind != "file" || first.ETag == "" || first.Modified.IsZero() {
		t.Errorf("%+v", first)
	}
	again, err := b.StatFile(within(t), x.ID, "data/a.txt")
	must(t, err)
	if again.ETag != first.ETag || again.Bytes != 10 || !again.Modified.Equal(first.Modified) {
		t.Errorf("%+v, and before %+v", again, first)
	}
	for _, c := range []struct {
		r    api.Range
		want string
	}{{api.Range{}, "0123456789"}, {api.Range{Offset: 4}, "456789"}, {api.Range{Offset: 4, Length: 2}, "45"}, {api.Range{Offset: 8, Length: 100}, "89"}} {
		if text, f := read(t, b, x.ID, "data/a.txt", c.r); text != c.want || f.ETag != first.ETag || f.Bytes != 10 {
			t.Errorf("%+v: %q of %+v", c.r, text, f)
		}
	}
	_, _, err = b.ReadFile(within(t), x.ID, "data/a.txt", api.Range{Offset: 10})
	wantCode(t, "a part beyond the end", err, api.CodeRange)
	_, _, err = b.ReadFile(within(t), x.ID, "none", api.Range{})
	wantCode(t, "a file that is not there", err, api.CodeNotFound)
	_, err = b.StatFile(within(t), x.ID, "none")
	wantCode(t, "a file that is not there", err, api.CodeNotFound)
	_, err = b.StatFile(within(t), x.ID, "data")
	wantCode(t, "a directory", err, api.CodeUnusable)

	second, err := b.WriteFile(within(t), x.ID, "data/a.txt", strings.NewReader("0123456789"), api.WriteOptions{IfMatch: first.ETag})
	must(t, err)
	if !second.Replaced || second.ETag == first.ETag {
		t.Errorf("%+v after %+v", second, first)
	}
	for what, o := range map[string]api.WriteOptions{
		"the ETag of before": {IfMatch: first.ETag}, "there is something": {New: true}, "an ETag of nothing": {IfMatch: `"x"`},
	} {
		_, err = b.WriteFile(within(t), x.ID, "data/a.txt", strings.NewReader("lost"), o)
		wantCode(t, what, err, api.CodePrecondition)
	}
	_, err = b.WriteFile(within(t), x.ID, "new.txt", strings.NewReader("x"), api.WriteOptions{IfMatch: "*"})
	wantCode(t, "there is nothing", err, api.CodePrecondition)
	if text, _ := read(t, b, x.ID, "data/a.txt", api.Range{}); text != "0123456789" {
		t.Errorf("what was refused was written: %q", text)
	}
	_, err = b.WriteFile(within(t), x.ID, "new.txt", strings.NewReader(""), api.WriteOptions{New: true})
	must(t, err)
	if _, err := b.WriteFile(within(t), x.ID, "data/a.txt/below", strings.NewReader("x"), api.WriteOptions{}); err == nil {
		t.Error("a file below a file was written")
	}

	if s.Other != nil {
		_, err = s.Other.StatFile(within(t), x.ID, "data/a.txt")
		wantCode(t, "another agent's file", err, api.CodeNotFound)
		_, err = s.Other.WriteFile(within(t), x.ID, "data/a.txt", strings.NewReader("x"), api.WriteOptions{})
		wantCode(t, "another agent's file", err, api.CodeNotFound)
	}

	wantCode(t, "remove a directory", b.RemoveFile(within(t), x.ID, "data", api.RemoveOptions{}), api.CodeConflict)
	wantCode(t, "remove with an old ETag", b.RemoveFile(within(t), x.ID, "data/a.txt", api.RemoveOptions{IfMatch: first.ETag}), api.CodePrecondition)
	must(t, b.RemoveFile(within(t), x.ID, "data/a.txt", api.RemoveOptions{IfMatch: second.ETag}))
	wantCode(t, "remove it again", b.RemoveFile(within(t), x.ID, "data/a.txt", api.RemoveOptions{}), api.CodeNotFound)
	must(t, b.RemoveFile(within(t), x.ID, "data", api.RemoveOptions{Recursive: true}))
}

// oddNames are file names as agents and people make them up.
func oddNames() []string {
	return []string{
		"a b", "per%cent", "per%25cent", "q?x=1", "hash#tag", "plus+", "semi;colon", "amp&", `quote"'`, "back\\slash", "ünï/cödé", "日本/☃.txt", "~tilde", "-dash",
		".hidden", "a.b/.c/d", "...", "star*", "{x}", "[y]", "<z>", "a:b", "dollar$(x)", strings.Repeat("n", 255), strings.Repeat("d/", 60) + "deep", "e\u0301", "\u202e.txt",
	}
}

func fileNames(t *testing.T, s Subject) {
	b := s.Agent
	x := open(t, b, api.SessionRequest{})
	for _, name := range oddNames() {
		f, err := b.WriteFile(within(t), x.ID, name, strings.NewReader(name), api.WriteOptions{})
		if err != nil {
			t.Errorf("%.40q: %v", name, err)
			continue
		}
		if text, _ := read(t, b, x.ID, name, api.Range{}); text != name || f.Path != name {
			t.Errorf("%.40q is %.40q and holds %.40q", name, f.Path, text)
		}
	}
	for _, name := range []string{"../up", "a/../../up", "tab\tname", "line\nbreak", "escape\x1b[2J", "nul", strings.Repeat("n", 256), strings.Repeat("d/", 70) + "x"} {
		_, err := b.WriteFile(within(t), x.ID, name, strings.NewReader("x"), api.WriteOptions{})
		var p *api.Problem
		if !errors.As(err, &p) || p.Status >= 500 {
			t.Errorf("%.40q: %v", name, err)
		} else if strings.Contains(p.Detail, name) && len(name) > 3 {
			t.Errorf("%.40q is repeated: %q", name, p.Detail)
		}
	}

	var seen []string
	for page := (api.Page{Limit: 7}); ; {
		list, err := b.Files(within(t), x.ID, "", page)
		must(t, err)
		if len(list.Files) > 7 || list.Omitted {
			t.Fatalf("%d files on a page of 7", len(list.Files))
		}
		for _, f := range list.Files {
			seen = append(seen, f.Path)
			if f.Kind != "file" {
				continue
			}
			now, err := b.StatFile(within(t), x.ID, f.Path)
			must(t, err)
			if f.ETag != "" && f.ETag != now.ETag || f.Bytes != now.Bytes {
				t.Errorf("in a list %+v, alone %+v", f, now)
			}
		}
		if list.Next == "" {
			break
		}
		page.Cursor = list.Next
	}
	if !slices.IsSorted(seen) || len(slices.Compact(slices.Clone(seen))) != len(seen) {
		t.Errorf("pages are not in order, or name a file twice: %.200q", seen)
	}
	for _, name := range oddNames() {
		if !slices.Contains(seen, name) {
			t.Errorf("%.40q is in no page", name)
		}
	}
	below, err := b.Files(within(t), x.ID, "日本", api.Page{})
	must(t, err)
	if len(below.Files) != 1 || below.Files[0].Path != "日本/☃.txt" {
		t.Errorf("%+v", below)
	}
	_, err = b.Files(within(t), x.ID, "", api.Page{Cursor: "!"})
	wantCode(t, "a made up cursor", err, api.CodeInvalid)
	_, err = b.Files(within(t), x.ID, "no/such", api.Page{})
	wantCode(t, "a directory that is not there", err, api.CodeNotFound)
}

// endless is a file of that many bytes.
func endless(n int64) io.Reader { return io.LimitReader(zeros{}, n) }

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

func quota(t *testing.T, s Subject) {
	b := s.Agent
	x := open(t, b, api.SessionRequest{Limits: &api.LimitsRequest{WorkspaceBytes: 1 << 20, FileBytes: 512 << 10}})
	write(t, b, x.ID, "mine", "x")
	_, err := b.WriteFile(within(t), x.ID, "large", endless(1<<40), api.WriteOptions{Bytes: 1 << 40})
	wantCode(t, "a file that is too large, said before", err, api.CodeTooLarge)
	_, err = b.WriteFile(within(t), x.ID, "large", endless(600<<10), api.WriteOptions{})
	wantCode(t, "a file that turns out too large", err, api.CodeTooLarge)
	err = nil
	for i := 0; i < 5 && err == nil; i++ {
		_, err = b.WriteFile(within(t), x.ID, fmt.Sprint("full", i), endless(400<<10), api.WriteOptions{Bytes: 400 << 10})
	}
	wantCode(t, "a full workspace", err, api.CodeQuota)
	list, err := b.Files(within(t), x.ID, "", api.Page{})
	must(t, err)
	if len(list.Files) != 3 {
		t.Errorf("unfinished files are left: %+v", list.Files)
	}
	if text, _ := read(t, b, x.ID, "mine", api.Range{}); text != "x" {
		t.Errorf("%q", text)
	}
}
