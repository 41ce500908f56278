package main

import (
	"errors"
	"strings"
	"testing"

	"brig/images"
	"brig/orchestrator"
)

// building is a build that fails in its second step.
func building(p *progress) {
	p.show(images.Progress{Step: 1, Total: 2, Text: "FROM base", Instruction: true})
	p.show(images.Progress{Step: 2, Total: 2, Text: "RUN install \x1b[31mthings", Instruction: true})
	p.show(images.Progress{Step: 2, Total: 2, Text: "fetching a\r"})
	p.show(images.Progress{Step: 2, Total: 2, Text: "no such package"})
}

func TestProgressWithoutATerminal(t *testing.T) {
	c, _, stderr := screen(false)
	p := newProgress(c.stderr)
	building(p)
	p.done(errors.New("failed"))
	want := "brig: step 1/2  FROM base\n" +
		`brig: step 2/2  RUN install \x1b[31mthings` + "\n" +
		`  fetching a\x0d` + "\n  no such package\n"
	if got := stderr.String(); got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestProgressOnATerminal(t *testing.T) {
	c, screenText, _ := screen(true)
	p := newProgress(c.stderr)
	building(p)
	p.done(nil)
	c.note("next")
	got := screenText.String()
	const wipe = "\r\x1b[K"
	for _, line := range strings.Split(got, wipe) {
		if n := len([]rune(strings.SplitN(line, "\n", 2)[0])); n > 60 {
			t.Errorf("%d characters do not fit on a line of 60: %q", n, line)
		}
		if strings.Contains(line, "\x1b") {
			t.Errorf("a control sequence of the build's got through: %q", line)
		}
	}
	if !strings.HasSuffix(got, wipe+"brig: image built in 0s\nbrig: next\n") {
		t.Errorf("the end is %q", got)
	}
}

// A session that stepped down from containers runs without the image.
func TestProgressOfABuildThatNobodyUses(t *testing.T) {
	c, _, stderr := screen(false)
	p := newProgress(c.stderr)
	building(p)
	p.done(builtFor(&orchestrator.Session{}, nil))
	if got := stderr.String(); strings.Contains(got, "built in") || !strings.HasSuffix(got, "  no such package\n") {
		t.Errorf("%q", got)
	}
}

func TestProgressSaysNothingWithoutABuild(t *testing.T) {
	c, _, stderr := screen(false)
	newProgress(c.stderr).done(nil)
	(*buildNotice)(nil).done(errors.New("something else"))
	if stderr.Len() > 0 {
		t.Errorf("%q", stderr)
	}
}
