package main

import (
	"os"
	"path/filepath"
	"testing"

	"brig/orchestrator/wire"
)

func TestFiguresNeverOverwrite(t *testing.T) {
	dir := t.TempDir()
	outside := filepath.Join(t.TempDir(), "outside")
	taken := filepath.Join(dir, "brig-figure-1.png")
	if err := os.WriteFile(taken, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(outside, filepath.Join(dir, "brig-figure-2.png")); err != nil {
		t.Logf("no symbolic links here: %v", err)
	}
	f := &figures{dir: dir}
	for i := range maxFigures + 5 {
		name, err := f.save(&wire.Part{MIME: "image/png", Data: []byte("new")}, "png")
		if err != nil {
			t.Fatal(err)
		}
		if (name == "") != (i >= maxFigures) {
			t.Fatalf("figure %d is named %q", i, name)
		}
	}
	if f.over != 5 {
		t.Errorf("%d figures were left out, want 5", f.over)
	}
	if got, err := os.ReadFile(taken); err != nil || string(got) != "mine" {
		t.Errorf("an existing file became %q, %v", got, err)
	}
	if _, err := os.Lstat(outside); err == nil {
		t.Error("a link was followed out of the directory")
	}
}

func TestPictureTakesTheBest(t *testing.T) {
	d := &wire.Display{Data: []wire.Part{{MIME: "text/plain"}, {MIME: "image/svg+xml"}, {MIME: "image/png"}}}
	if part, ending := picture(d); part == nil || part.MIME != "image/png" || ending != "png" {
		t.Errorf("picture = %v, %q", part, ending)
	}
	if part, _ := picture(&wire.Display{Data: []wire.Part{{MIME: "text/html"}}}); part != nil {
		t.Errorf("picture of HTML = %v", part)
	}
}
