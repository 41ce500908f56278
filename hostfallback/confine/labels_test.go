package confine

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// fakeLabels are labels as a Windows keeps them, without one.
type fakeLabels struct {
	is      map[string]string
	refuses string // a path whose label cannot be set
	lies    bool   // accepts and keeps nothing
}

func (f *fakeLabels) of(path string) (string, error) { return f.is[path], nil }

func (f *fakeLabels) set(path, sddl string) error {
	switch {
	case path == f.refuses:
		return errors.New("access is denied")
	case f.lies:
	case sddl == LabelNone:
		delete(f.is, path)
	default:
		f.is[path] = sddl
	}
	return nil
}

const highLabel = "S:(ML;;NW;;;HI)"

func labelled(t *testing.T) (f *fakeLabels, p Policy, home, file, link, outside string) {
	t.Helper()
	dir := t.TempDir()
	home = filepath.Join(dir, "home")
	p = Policy{Mode: ModeBestEffort, Workspace: filepath.Join(dir, "workspace"), Scratch: filepath.Join(home, "scratch")}
	outside = filepath.Join(dir, "outside")
	for _, d := range []string{filepath.Join(p.Workspace, "sub"), p.Scratch, outside} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	file, link = filepath.Join(p.Workspace, "sub", "file"), filepath.Join(p.Workspace, "link")
	for _, name := range []string{file, filepath.Join(outside, "theirs")} {
		if err := os.WriteFile(name, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(outside, link); err != nil {
		t.Fatal(err)
	}
	return &fakeLabels{is: map[string]string{}}, p, home, file, link, outside
}

func journalled(home string) bool {
	_, err := os.Stat(filepath.Join(home, journalFile))
	return !errors.Is(err, fs.ErrNotExist)
}

func TestLabelAndRestore(t *testing.T) {
	f, p, home, file, link, outside := labelled(t)
	if err := label(f, home, p.Labels()); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		p.Workspace: labelDirectory, filepath.Dir(file): labelDirectory, file: labelEntry, p.Scratch: labelDirectory, link: labelEntry,
		outside: "", filepath.Join(outside, "theirs"): "", home: "",
	} {
		if f.is[path] != want {
			t.Errorf("%s has %q, want %q", path, f.is[path], want)
		}
	}
	if !journalled(home) {
		t.Error("there is no journal while the label stands")
	}
	// What code makes inherits the label; what it moves here has one of its own.
	made := filepath.Join(p.Workspace, "made")
	if err := os.WriteFile(made, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	f.is[made] = "S:AI(ML;ID;NW;;;LW)"
	if err := restoreLabels(f, home); err != nil {
		t.Fatal(err)
	}
	delete(f.is, p.Scratch) // goes with the home
	if len(f.is) != 0 || journalled(home) {
		t.Errorf("left are %v, journal %v", f.is, journalled(home))
	}
	if err := restoreLabels(f, home); err != nil {
		t.Errorf("a second time: %v", err)
	}
}

func TestLabelsOfSomebodyElseStay(t *testing.T) {
	f, p, home, file, _, _ := labelled(t)
	f.is[file] = highLabel
	f.is[p.Workspace] = "S:(ML;OICI;NW;;;ME)"
	if err := label(f, home, p.Labels()); err != nil {
		t.Fatal(err)
	}
	if f.is[p.Workspace] != labelDirectory {
		t.Errorf("the workspace has %q", f.is[p.Workspace])
	}
	if f.is[file] != highLabel {
		t.Errorf("a file of high integrity became %q", f.is[file])
	}
	if err := restoreLabels(f, home); err != nil {
		t.Fatal(err)
	}
	if f.is[file] != highLabel || f.is[p.Workspace] != "S:(ML;OICI;NW;;;ME)" {
		t.Errorf("after: %v", f.is)
	}
}

// TestLowBefore: a workspace that its user has made low stays so, and has no journal.
func TestLowBefore(t *testing.T) {
	f, p, home, _, _, _ := labelled(t)
	f.is[p.Workspace] = labelDirectory
	if err := label(f, home, p.Labels()); err != nil {
		t.Fatal(err)
	}
	if journalled(home) {
		t.Error("it would be restored")
	}
	if err := restoreLabels(f, home); err != nil || f.is[p.Workspace] != labelDirectory {
		t.Errorf("%v, %v", f.is, err)
	}
}

// TestRefusedLabel: what was labelled before the refusal is restored.
func TestRefusedLabel(t *testing.T) {
	f, p, home, file, _, _ := labelled(t)
	f.refuses = file
	if err := label(f, home, p.Labels()); err == nil {
		t.Fatal("it was labelled")
	}
	if len(f.is) == 0 {
		t.Fatal("the control: nothing was labelled before")
	}
	f.refuses = ""
	if err := restoreLabels(f, home); err != nil || len(f.is) != 0 {
		t.Errorf("%v, %v", f.is, err)
	}
}

func TestLabelThatIsOnlyAccepted(t *testing.T) {
	f, p, home, _, _, _ := labelled(t)
	f.lies = true
	if err := label(f, home, p.Labels()); err == nil || !strings.Contains(err.Error(), "accepted") {
		t.Errorf("%v", err)
	}
}

// TestRestoreThatFails keeps the journal for the next.
func TestRestoreThatFails(t *testing.T) {
	f, p, home, file, _, _ := labelled(t)
	if err := label(f, home, p.Labels()); err != nil {
		t.Fatal(err)
	}
	f.refuses = file
	if err := restoreLabels(f, home); err == nil || !journalled(home) {
		t.Errorf("%v, journal %v", err, journalled(home))
	}
	f.refuses = ""
	if err := os.RemoveAll(p.Workspace); err != nil {
		t.Fatal(err)
	}
	if err := restoreLabels(f, home); err != nil || journalled(home) {
		t.Errorf("of a workspace that is gone: %v, journal %v", err, journalled(home))
	}
}
