package confine

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/windows"
)

// These run on Windows and, in .ci/wine, on what pretends to be one. A test that
// holds where limits are kept asks for them in the report, and says of the other
// that the report does not claim them either.

type windowsInstance struct {
	t       *testing.T
	plan    Plan
	stdin   *os.File
	control *os.File
	out     chan string // all output, at its end
	lines   chan string
	events  chan Event
}

// emptyDir is t.TempDir for a system where os.RemoveAll does not work, as in Wine.
func emptyDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "brig-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := RemoveTree(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}

func windowsPlan(t *testing.T, args ...string) Plan {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return planIn(emptyDir(t), self, args...)
}

func planIn(dir, self string, args ...string) Plan {
	p := Plan{Token: "t1", Command: append([]string{self, roleArgument}, args...), Home: filepath.Join(dir, "home")}
	p.Policy = Policy{
		Mode: ModeBestEffort, Network: NetworkDeny, Workspace: filepath.Join(dir, "workspace"), Scratch: filepath.Join(dir, "home", "scratch"),
		Limits: Limits{Memory: 256 << 20, Processes: 20, MilliCPU: 500, Disk: 1 << 30},
	}
	root, _ := windows.GetSystemWindowsDirectory()
	p.Env = WindowsPlace{Root: root, Python: self, Scratch: p.Scratch, Token: p.Token, Threads: 1}.Environment()
	for _, d := range []string{p.Workspace, p.Home, p.Scratch} {
		_ = os.MkdirAll(d, 0o700) // whoever needs it says so
	}
	return p
}

func superviseTest(t *testing.T, plan Plan) *windowsInstance {
	t.Helper()
	i := &windowsInstance{t: t, plan: plan, out: make(chan string, 1), lines: make(chan string, 100), events: make(chan Event, 8)}
	pipe := func() (*os.File, *os.File) {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		return r, w
	}
	inR, inW := pipe()
	outR, outW := pipe()
	controlR, controlW := pipe()
	statusR, statusW := pipe()
	errW, err := os.OpenFile(filepath.Join(plan.Home, "stderr"), os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	i.stdin, i.control = inW, controlW
	returned := make(chan struct{})
	go func() {
		var all strings.Builder
		buffer := make([]byte, 4096)
		for {
			n, err := outR.Read(buffer)
			all.Write(buffer[:n])
			if n > 0 {
				i.lines <- string(buffer[:n])
			}
			if err != nil {
				i.out <- all.String()
				return
			}
		}
	}()
	go func() {
		defer close(i.events)
		for d := json.NewDecoder(statusR); ; {
			var e Event
			if d.Decode(&e) != nil {
				return
			}
			i.events <- e
		}
	}()
	go func() {
		Supervise(plan, Streams{inR, outW, errW}, controlR, statusW)
		_ = statusW.Close()
		close(returned)
	}()
	t.Cleanup(func() {
		_, _ = controlW.Close(), inW.Close()
		<-returned
		_ = outR.Close()
	})
	return i
}

func (i *windowsInstance) next() Event {
	i.t.Helper()
	select {
	case e, ok := <-i.events:
		if !ok {
			i.t.Fatal("the supervisor said nothing more")
		}
		return e
	case <-time.After(time.Minute):
		i.t.Fatal("no event in a minute")
	}
	return Event{}
}

func (i *windowsInstance) started() Started {
	i.t.Helper()
	e := i.next()
	if e.Started == nil {
		i.t.Fatalf("want started, got %+v %v", e, e.Failed)
	}
	return *e.Started
}

// run lets it come to its end.
func (i *windowsInstance) run() (Started, Ended, string) {
	i.t.Helper()
	s := i.started()
	_ = i.stdin.Close()
	e := i.next()
	if e.Ended == nil {
		i.t.Fatalf("want the end, got %+v", e)
	}
	return s, *e.Ended, <-i.out
}

// says waits for a word in the output.
func (i *windowsInstance) says(word string) {
	i.t.Helper()
	for text := ""; ; {
		select {
		case line := <-i.lines:
			if text += line; strings.Contains(text, word) {
				return
			}
		case <-time.After(time.Minute):
			i.t.Fatalf("no %q in %q", word, text)
		}
	}
}

func alive(pid int) bool {
	h, err := windows.OpenProcess(windows.SYNCHRONIZE, false, uint32(pid))
	if err != nil {
		return false
	}
	defer func() { _ = windows.CloseHandle(h) }()
	s, err := windows.WaitForSingleObject(h, 0)
	return err == nil && s == uint32(windows.WAIT_TIMEOUT)
}

func TestJobIsAppliedOrNotClaimed(t *testing.T) {
	s, ended, out := superviseTest(t, windowsPlan(t, "level")).run()
	w := s.Report.Windows
	t.Logf("emulated %q, born in the job %v, got %+v of %+v, rate %d of %d, %s, %v, labelled %v (%s)",
		w.Emulated, w.Born, w.Got, w.Want, w.GotRate, w.WantRate, w.Integrity, w.Privileges, w.Labelled, w.Unlabelled)
	if !w.Job.Applied {
		t.Error("the runner is in no job")
	}
	if ended.Cause != EndSelf || ended.Status != 0 {
		t.Errorf("ended %+v", ended)
	}
	if !strings.Contains(out, w.Integrity) {
		t.Errorf("the report says %s, the process itself %s", w.Integrity, out)
	}
	if len(w.Privileges) == 1 && !strings.Contains(out, "["+PrivilegeKept+"]") {
		t.Errorf("the report says %v, the process itself %s", w.Privileges, out)
	}
	if w.Emulated == "" && (w.Got != w.Want || !w.Low() || !w.Labelled) {
		t.Errorf("on Windows: %+v", w)
	}
}

// TestLimitsHoldIfReported: what reads back holds, and what does not hold does not read back.
func TestLimitsHoldIfReported(t *testing.T) {
	s, ended, out := superviseTest(t, windowsPlan(t, "hold", "600")).run()
	held := strings.Contains(out, "held 600")
	if reported := s.Report.Windows.Got.JobMemory == 256<<20; held == reported {
		t.Errorf("600 MiB were held: %v; a limit of 256 MiB read back: %v; %+v %s", held, reported, ended, out)
	}
	s, _, out = superviseTest(t, windowsPlan(t, "spawn", "40")).run()
	all := strings.Contains(out, "started 40")
	if reported := s.Report.Windows.Got.ActiveProcesses == 20; all == reported {
		t.Errorf("40 processes were started: %v; a limit of 20 read back: %v; %s", all, reported, out)
	}
}

func TestWriteOutsideOnlyIfReported(t *testing.T) {
	p := windowsPlan(t)
	p.Command = append(p.Command, "write", filepath.Join(p.Workspace, "a"), filepath.Join(p.Scratch, "b"), filepath.Join(p.Home, "outside"))
	s, _, out := superviseTest(t, p).run()
	words := strings.Fields(out)
	if len(words) != 6 || words[1] != "true" || words[3] != "true" {
		t.Fatalf("workspace and scratch must be writable: %q", out)
	}
	if outside := words[5] == "true"; outside == s.Report.Windows.Low() {
		t.Errorf("it wrote beside its scratch: %v; the low level read back: %v", outside, s.Report.Windows.Low())
	}
}

// TestTreeEnds: grandchildren too, when it is ordered and when the runner ends by itself.
func TestTreeEnds(t *testing.T) {
	for _, order := range []bool{true, false} {
		t.Run(fmt.Sprint("ordered ", order), func(t *testing.T) {
			i := superviseTest(t, windowsPlan(t, "tree", "3"))
			s := i.started()
			i.says("ready")
			time.Sleep(2 * time.Second) // for the grandchildren
			if !alive(s.PID) {
				t.Fatal("the control: the runner does not live")
			}
			if order {
				_ = i.control.Close()
			} else {
				_ = i.stdin.Close()
			}
			e := i.next().Ended
			if e == nil || len(e.Left) > 0 {
				t.Fatalf("ended %+v", e)
			}
			if e.Killed < 6 {
				t.Errorf("only %d processes were ended, and six were below the runner", e.Killed)
			}
			if alive(s.PID) {
				t.Error("the runner lives on")
			}
		})
	}
}

// parent is a brig that is going to be killed.
func parent(dir string) {
	self, _ := os.Executable()
	inR, _, _ := os.Pipe()
	_, outW, _ := os.Pipe()
	_, errW, _ := os.Pipe()
	control, _, _ := os.Pipe()
	Supervise(planIn(dir, self, "tree", "2"), Streams{inR, outW, errW}, control, os.Stdout)
}

func TestTreeEndsWithItsBrig(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := emptyDir(t)
	cmd := exec.Command(self, roleArgument, "parent", dir)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var e Event
	if err := json.NewDecoder(out).Decode(&e); err != nil || e.Started == nil {
		t.Fatalf("%+v %v", e, err)
	}
	time.Sleep(2 * time.Second)
	pid := e.Started.PID
	if !alive(pid) {
		t.Fatal("the control: the runner does not live")
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	for deadline := time.Now().Add(10 * time.Second); alive(pid); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the runner lives on although its brig was killed")
		}
	}
	if err := RestoreLabels(filepath.Join(dir, "home")); err != nil {
		t.Errorf("restore what the killed one labelled: %v", err)
	}
}

// TestHandles: a handle that may be inherited, and is not among the three, is not.
func TestHandles(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _, _ = r.Close(), w.Close() }()
	h := windows.Handle(w.Fd())
	if err := windows.SetHandleInformation(h, windows.HANDLE_FLAG_INHERIT, windows.HANDLE_FLAG_INHERIT); err != nil {
		t.Fatal(err)
	}
	word := strconv.FormatUint(uint64(h), 10)
	if out := inherited(t, word); !strings.Contains(out, word+"=true") {
		t.Fatalf("the control inherits it: %q", out)
	}
	s, _, out := superviseTest(t, windowsPlan(t, "open", word)).run()
	if !strings.Contains(out, word+"=false") {
		t.Errorf("it was inherited: %q", out)
	}
	if s.Report.Windows.Handles != 3 {
		t.Errorf("%d handles", s.Report.Windows.Handles)
	}
}

// inherited starts a process that inherits every handle that may be.
func inherited(t *testing.T, handle string) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	outR, outW, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	out := windows.Handle(outW.Fd())
	if err := windows.SetHandleInformation(out, windows.HANDLE_FLAG_INHERIT, windows.HANDLE_FLAG_INHERIT); err != nil {
		t.Fatal(err)
	}
	line, err := windows.UTF16PtrFromString(windows.ComposeCommandLine([]string{self, roleArgument, "open", handle}))
	if err != nil {
		t.Fatal(err)
	}
	si := windows.StartupInfo{Flags: windows.STARTF_USESTDHANDLES, StdInput: out, StdOutput: out, StdErr: out}
	si.Cb = 104
	var pi windows.ProcessInformation
	if err := windows.CreateProcess(nil, line, nil, nil, true, windows.CREATE_NO_WINDOW, nil, nil, &si, &pi); err != nil {
		t.Fatal(err)
	}
	_, _ = windows.CloseHandle(pi.Thread), outW.Close()
	said, err := io.ReadAll(outR)
	_ = windows.CloseHandle(pi.Process)
	if err != nil {
		t.Fatal(err)
	}
	return string(said)
}

func TestEnvironmentIsMadeAnew(t *testing.T) {
	t.Setenv("BRIG_TEST_SECRET", "x")
	_, _, out := superviseTest(t, windowsPlan(t, "environ")).run()
	has := strings.Fields(strings.ReplaceAll(out, "has ", ""))
	if !slices.Contains(has, "TEMP") || slices.Contains(has, "BRIG_TEST_SECRET") {
		t.Errorf("it has %v", has)
	}
}

func TestCheckOnlyRunsNothing(t *testing.T) {
	p := windowsPlan(t)
	p.Command = append(p.Command, "write", filepath.Join(p.Workspace, "a"))
	p.CheckOnly = true
	i := superviseTest(t, p)
	if s := i.started(); s.Report.Windows == nil {
		t.Errorf("%+v", s)
	}
	for range i.events {
	}
	if _, err := os.Stat(filepath.Join(p.Workspace, "a")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("it ran: %v", err)
	}
}

// TestLabelsAreRestored: the workspace has the label while the instance lives, and
// none afterwards; or there is none and the report says so.
func TestLabelsAreRestored(t *testing.T) {
	p := windowsPlan(t, "tree", "0")
	file := filepath.Join(p.Workspace, "before")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	i := superviseTest(t, p)
	w := i.started().Report.Windows
	during, err := kernelLabels{}.of(p.Workspace)
	if err != nil {
		t.Fatal(err)
	}
	if isLow(during) != w.Labelled {
		t.Errorf("the label is %q, and the report says %v (%s)", during, w.Labelled, w.Unlabelled)
	}
	if !w.Labelled && w.Unlabelled == "" {
		t.Error("nothing says why there is no label")
	}
	_ = i.control.Close()
	for range i.events {
	}
	for _, path := range []string{p.Workspace, file} {
		if after, err := (kernelLabels{}).of(path); err != nil || isLow(after) {
			t.Errorf("%s keeps the label %q (%v)", path, after, err)
		}
	}
	if _, err := os.Stat(filepath.Join(p.Home, journalFile)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the journal stays: %v", err)
	}
}

// TestJournalKeepsItsHome: a home is not removed as long as it says what has to be
// restored and that cannot be done.
func TestJournalKeepsItsHome(t *testing.T) {
	home := filepath.Join(emptyDir(t), "home")
	if err := os.MkdirAll(filepath.Join(home, "scratch"), 0o700); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(home, journalFile)
	if err := os.WriteFile(file, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := RemoveTree(home); err == nil {
		t.Error("it was removed")
	}
	if _, err := os.Stat(file); err != nil {
		t.Errorf("the journal is gone: %v", err)
	}
	if err := os.WriteFile(file, []byte(`{"path":"C:\\no-such-directory"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := RemoveTree(home); err != nil {
		t.Errorf("with nothing to be restored: %v", err)
	}
	if _, err := os.Stat(home); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the home stays: %v", err)
	}
}

// TestRemoveTreeOnWindows: a file that is marked read-only goes, and so does a deep tree.
func TestRemoveTreeOnWindows(t *testing.T) {
	dir := filepath.Join(emptyDir(t), "tree")
	deep := filepath.Join(append([]string{dir}, slices.Repeat([]string{"directory"}, 40)...)...)
	if err := os.MkdirAll(deep, 0o700); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(deep, "file")
	if err := os.WriteFile(file, nil, 0o400); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(file, 0o400); err != nil {
		t.Fatal(err)
	}
	if err := RemoveTree(dir); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("it stays: %v", err)
	}
}
