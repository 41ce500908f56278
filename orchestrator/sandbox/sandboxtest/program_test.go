package sandboxtest

import (
	"io/fs"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"brig/orchestrator/wire"
)

// vocabulary is every step once, such that each of them ends soon.
func vocabulary() Program {
	return Program{
		Print("out"), PrintErr("err"), Write(Stdout, Numbered, 100), Split(Stdout, "é"), EmptyWrites(3),
		Set("x", 1), SetUnpicklable("y"), Show("x"), Value(1), Display("text/html", 32),
		Sleep(time.Millisecond), Spin(), BlockedRead(), Deaf(), Raise("ValueError", "no"),
		Exit(1), ExitText("bye"), HardExit(2), KillSelf(9),
		Holder(time.Millisecond), HolderExec(time.Millisecond), Daemon(time.Millisecond), Orphans(1),
		Late(Stdout, "late", "go"), WriteFile("f", "x"), ReadFile("f"), WaitFile("f"), Plant("symlink", "l", "f"),
		Hog(1), HogChild(1), ShowPlace("C"), ShowContext(), ShowFDs(), Babble(), ShowEnviron("canary"), Attack(), AtExit("bye"), Thread("t"), Unflushed("u", "x"),
	}
}

// TestVocabularyIsComplete: every act has a Python file, every file an act.
func TestVocabularyIsComplete(t *testing.T) {
	files, err := fs.Glob(stepFiles, "steps/*.py")
	if err != nil {
		t.Fatal(err)
	}
	var acts []string
	for _, s := range vocabulary() {
		if name := "steps/" + string(s.Act) + ".py"; !slices.Contains(acts, name) {
			acts = append(acts, name)
		}
	}
	slices.Sort(acts)
	if !slices.Equal(acts, files) {
		t.Errorf("acts %v, files %v", acts, files)
	}
}

func TestSourceRoundTrip(t *testing.T) {
	p := append(vocabulary(), Print("all of it: \x00 \x7f \" ' \\ \n \u2028 é \U0001f600"), Broken("syntax"))
	got, err := parse(p.Source())
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, p) {
		t.Errorf("got %+v, want %+v", got, p)
	}
}

func TestParseRefusesOtherSources(t *testing.T) {
	for _, source := range []string{"", "print(1)\n", "# brigtest\n", header + "{}\n", header + "[{\n"} {
		if p, err := parse([]byte(source)); err == nil {
			t.Errorf("%q is the program %+v", source, p)
		}
	}
}

// TestMemoryRefusesOtherSources: the fake never pretends to have run Python.
func TestMemoryRefusesOtherSources(t *testing.T) {
	s := memorySuite(t, MemoryOptions{})
	plain := func([]byte) []byte { return []byte("print(6*7)\n") }
	o := s.own(t).run(t, nil, withSource(plain))
	if o.exit.Outcome != wire.OutcomeException || o.exit.Exception.Name != "NotImplementedError" {
		t.Errorf("plain Python ended %s", describe(o.exit))
	}
}

func TestFillRangesAgree(t *testing.T) {
	for _, f := range []Fill{Numbered, Random} {
		whole := f.Range(0, 3*block+7)
		for _, at := range []int64{0, 1, block - 1, block, 2*block + 5} {
			if got := f.Range(at, 100); !slices.Equal(got, whole[at:at+100]) {
				t.Errorf("%s at %d: %q, want %q", f, at, got[:20], whole[at:at+20])
			}
		}
	}
	if got := string(Numbered.Range(block, 17)); got != "000000000000001,x" {
		t.Errorf("the second block opens with %q", got)
	}
	if strings.Contains(string(Numbered.Range(0, 2*block)), "\n") {
		t.Error("the numbered pattern is not one line")
	}
}
