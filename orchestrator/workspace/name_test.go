package workspace_test

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"brig/orchestrator/workspace"
)

func TestClean(t *testing.T) {
	long := strings.Repeat("x", 255)
	for _, c := range []struct {
		name, want string
		kind       error
	}{
		{"a", "a", nil},
		{"a/b/c.csv", "a/b/c.csv", nil},
		{"./a//b/./c/", "a/b/c", nil},
		{"..a/b..", "..a/b..", nil},
		{"...", "...", nil},
		{"naïve ☃.txt", "naïve ☃.txt", nil},
		{" leading", " leading", nil},
		{long, long, nil},
		{long + "/" + long, long + "/" + long, nil},
		{strings.TrimSuffix(strings.Repeat("d/", 64), "/"), strings.TrimSuffix(strings.Repeat("d/", 64), "/"), nil},
		{"", "", workspace.ErrName},
		{".", "", workspace.ErrName},
		{"./.", "", workspace.ErrName},
		{"a\x00b", "", workspace.ErrName},
		{long + "x", "", workspace.ErrName},
		{"a/" + long + "x/b", "", workspace.ErrName},
		{strings.Repeat("d/", 65), "", workspace.ErrName},
		{strings.Repeat("dd/", 1400), "", workspace.ErrName},
		{"..", "", workspace.ErrEscapes},
		{"../a", "", workspace.ErrEscapes},
		{"a/..", "", workspace.ErrEscapes},
		{"a/../b", "", workspace.ErrEscapes},
		{"a/../../b", "", workspace.ErrEscapes},
		{"/", "", workspace.ErrEscapes},
		{"/etc/passwd", "", workspace.ErrEscapes},
		{"//a", "", workspace.ErrEscapes},
	} {
		got, err := workspace.Clean(c.name)
		if c.kind == nil {
			if err != nil || got != c.want {
				t.Errorf("Clean(%.40q) is %.40q, %v; want %.40q", c.name, got, err, c.want)
			}
			continue
		}
		if got != "" {
			t.Errorf("Clean(%.40q) returned %q beside an error", c.name, got)
		}
		if !errors.Is(err, c.kind) {
			t.Errorf("Clean(%.40q) is %v, want %v", c.name, err, c.kind)
		}
	}
}

func TestCleanNew(t *testing.T) {
	for _, name := range []string{
		"a\nb", "a\x1b[2Jb", "a\x7f", "\xff\xfe", "caf\xe9",
		"con", "CON", "nul.txt", "a/Aux.csv", "com1", "LPT9.log", "COM¹", "prn .txt", "conin$",
	} {
		if got, err := workspace.CleanNew(name); !errors.Is(err, workspace.ErrName) {
			t.Errorf("workspace.CleanNew(%q) is %q, %v; want workspace.ErrName", name, got, err)
		}
	}
	for _, name := range []string{"console.py", "com.txt", "com10", "nulls.csv", "lpt", "auxiliary/x", "a b"} {
		if _, err := workspace.CleanNew(name); err != nil {
			t.Errorf("workspace.CleanNew(%q): %v", name, err)
		}
	}
}

func FuzzClean(f *testing.F) {
	for _, seed := range []string{
		"a", "a/b", "../a", "/a", "a//b/./c", "\xff", "a\x00", "C:\\x", `\\host\share`, "con", "..\\a", ".. /a", "a/\u2024\u2024/b",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, name string) {
		got, err := workspace.Clean(name)
		if err != nil {
			if got != "" {
				t.Fatalf("Clean(%q) returned %q beside %v", name, got, err)
			}
			if !errors.Is(err, workspace.ErrName) && !errors.Is(err, workspace.ErrEscapes) {
				t.Fatalf("Clean(%q): %v is of no kind", name, err)
			}
			if strings.ContainsAny(err.Error(), "\n\x00\x1b") {
				t.Fatalf("Clean(%q): control characters in %q", name, err)
			}
			return
		}
		if !filepath.IsLocal(filepath.FromSlash(got)) {
			t.Fatalf("Clean(%q) is %q, which is not local", name, got)
		}
		for part := range strings.SplitSeq(got, "/") {
			if part == "" || part == "." || part == ".." || len(part) > workspace.MaxPart || strings.IndexByte(part, 0) >= 0 {
				t.Fatalf("Clean(%q) is %q with the part %q", name, got, part)
			}
		}
		if again, err := workspace.Clean(got); err != nil || again != got {
			t.Fatalf("Clean(%q) is %q, and cleaned again %q, %v", name, got, again, err)
		}
	})
}
