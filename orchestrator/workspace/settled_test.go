package workspace

import (
	"os"
	"path/filepath"
	"testing"
)

// A file that code writes without a pause keeps nobody waiting: it has no tag.
func TestBusyFileHasNoTag(t *testing.T) {
	f, err := os.Create(filepath.Join(t.TempDir(), "f"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	looks := 0
	changing := func() int64 { // the clock of a moment in which the file changes
		looks++
		info, err := f.Stat()
		if err != nil {
			t.Fatal(err)
		}
		return nodeOf(info).changed
	}
	e, err := settled("f", f, changing)
	if err != nil {
		t.Fatal(err)
	}
	if e.Changed != 0 && (looks != settleMost || e.Tag() != "") {
		t.Errorf("%d looks, tag %q", looks, e.Tag())
	}
	if e, err = settled("f", f, func() int64 { return e.Changed + 1 }); err != nil || e.Tag() == "" {
		t.Errorf("a file at rest has no tag: %v", err)
	}
}
