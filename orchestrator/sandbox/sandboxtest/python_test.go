package sandboxtest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// python finds the interpreter that the rendered programs are tried with.
func python(t *testing.T) string {
	t.Helper()
	path, err := exec.LookPath("python3")
	if err != nil {
		Skip(t, "python3 on PATH", err.Error())
	}
	return path
}

// bare is what a program did under Python alone.
type bare struct {
	stdout, stderr string
	status         int
}

// runBare runs a program with nothing around it.
func runBare(t *testing.T, dir string, p Program) bare {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), python(t), "-I", "-")
	cmd.Dir = dir
	file := filepath.Join(t.TempDir(), "program.py")
	if err := os.WriteFile(file, p.Source(), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd.Args = []string{cmd.Path, "-I", file, "argument"}
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	cmd.WaitDelay = patience
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatalf("run python3: %v; stderr %s", err, stderr.Bytes())
	}
	return bare{stdout.String(), stderr.String(), cmd.ProcessState.ExitCode()}
}

// TestRenderedProgramsCompile compiles every step alone; the broken ones must not.
func TestRenderedProgramsCompile(t *testing.T) {
	const compile = `import sys
for name in sys.argv[1:]:
    try:
        compile(open(name, "rb").read(), name, "exec")
    except (SyntaxError, ValueError) as error:
        print(name.rpartition("/")[2], error)
`
	dir := t.TempDir()
	args := []string{"-I", "-c", compile}
	steps := append(vocabulary(), Broken("syntax"), Broken("nul"), Broken("utf-8"))
	for i, s := range steps {
		name := filepath.Join(dir, fmt.Sprintf("%s-%d", s.Act, i))
		if err := os.WriteFile(name, Program{s}.Source(), 0o600); err != nil {
			t.Fatal(err)
		}
		args = append(args, name)
	}
	out, err := exec.CommandContext(t.Context(), python(t), args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	for _, line := range lines {
		if !strings.HasPrefix(line, "broken-") {
			t.Error(line)
		}
	}
	if len(lines) != 3 {
		t.Errorf("%d sources do not compile, want the three broken ones: %q", len(lines), lines)
	}
}

func TestProgramsUnderPython(t *testing.T) {
	const odd = "\U0001f600 é \" \\ \t"
	signalled := -1 // what os.ProcessState reports for a signal
	for name, c := range map[string]struct {
		program Program
		want    bare
	}{
		"print":       {Program{Print(odd), PrintErr("err")}, bare{stdout: odd + "\n", stderr: "err\n"}},
		"numbered":    {Program{Write(Stdout, Numbered, 200_001)}, bare{stdout: string(Numbered.Range(0, 200_001))}},
		"random":      {Program{Write(Stderr, Random, 100_003)}, bare{stderr: string(Random.Range(0, 100_003))}},
		"split":       {Program{Split(Stdout, odd), Split(Stderr, odd)}, bare{stdout: odd, stderr: odd}},
		"empty":       {Program{EmptyWrites(1000)}, bare{}},
		"variables":   {Program{Set("x", 7), Show("x"), Value(1), SetUnpicklable("g")}, bare{stdout: "7\n"}},
		"exit":        {Program{Exit(137)}, bare{status: 137}},
		"exit text":   {Program{ExitText("bye")}, bare{stderr: "bye\n", status: 1}},
		"hard exit":   {Program{HardExit(3)}, bare{status: 3}},
		"own signal":  {Program{KillSelf(9), Print("never")}, bare{status: signalled}},
		"sleep":       {Program{Sleep(time.Millisecond), Print("x")}, bare{stdout: "x\n"}},
		"files":       {Program{WriteFile("f", "é"), WaitFile("f"), ReadFile("f")}, bare{stdout: "é\n"}},
		"at exit":     {Program{AtExit("bye"), Thread("thread"), Print("main")}, bare{stdout: "main\nthread\nbye\n"}},
		"unflushed":   {Program{Unflushed("u", "x")}, bare{}},
		"children":    {Program{Holder(time.Millisecond), HolderExec(time.Millisecond), Orphans(6)}, bare{}},
		"daemon":      {Program{Daemon(100 * time.Millisecond), Print("on")}, bare{stdout: "on\n"}},
		"late":        {Program{WriteFile("go", ""), Late(Stdout, "late", "go"), WaitFile("go.done")}, bare{stdout: "late"}},
		"hog":         {Program{Hog(8 << 20)}, bare{stdout: "held 8388608\n"}},
		"hog child":   {Program{HogChild(8 << 20)}, bare{stdout: "the child ended with status 0\n"}},
		"plant":       {Program{WriteFile("r", "x"), Plant("hardlink", "h", "r"), Plant("symlink", "s", "r"), Plant("fifo", "p", ""), ReadFile("s")}, bare{stdout: "x\n"}},
		"broken line": {Program{Print("a\u2028b\x00")}, bare{stdout: "a\u2028b\x00\n"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := runBare(t, t.TempDir(), c.program); got != c.want {
				t.Errorf("got %d bytes, %d bytes, status %d: %q, %q; want %q, %q, %d", len(got.stdout), len(got.stderr), got.status,
					head([]byte(got.stdout)), head([]byte(got.stderr)), head([]byte(c.want.stdout)), head([]byte(c.want.stderr)), c.want.status)
			}
		})
	}
}

func TestExceptionsUnderPython(t *testing.T) {
	for _, p := range []Program{{Raise("ValueError", "no good")}, {Show("missing")}, {Broken("syntax")}} {
		if got := runBare(t, t.TempDir(), p); got.status != 1 || !strings.Contains(got.stderr, "Error") {
			t.Errorf("%+v: %+v", p, got)
		}
	}
}

func TestReportsUnderPython(t *testing.T) {
	t.Setenv("BRIG_TEST_CANARY", "a-canary")
	o := runBare(t, t.TempDir(), Program{ShowContext(), ShowFDs(), ShowEnviron("a-canary")})
	lines := strings.Split(strings.TrimSuffix(o.stdout, "\n"), "\n")
	if len(lines) != 3 {
		t.Fatalf("%d lines: %q, stderr %q", len(lines), head([]byte(o.stdout)), head([]byte(o.stderr)))
	}
	var (
		context contextReport
		fds     descriptorReport
		environ environReport
	)
	for i, v := range []any{&context, &fds, &environ} {
		if err := json.Unmarshal([]byte(lines[i]), v); err != nil {
			t.Fatalf("line %d is %q: %v", i, lines[i], err)
		}
	}
	if context.Name != "__main__" || len(context.Argv) != 1 || fds.Own["1"] == "" || fds.Executed["1"] == "" || fds.Forked["1"] == "" {
		t.Errorf("%+v, %+v", context, fds)
	}
	// Without a sandbox the canary shines through: the search can find it.
	if len(environ.Values) != 1 || len(environ.Processes) == 0 {
		t.Errorf("the canary was not found: %+v", environ)
	}
}

// TestAttackSucceedsUnprotected is the control of the suite's case: against a
// parent that nothing protects, the same attempts do reach it.
func TestAttackSucceedsUnprotected(t *testing.T) {
	dir := t.TempDir()
	program := filepath.Join(dir, "program.py")
	if err := os.WriteFile(program, Program{AttackParent()}.Source(), 0o600); err != nil {
		t.Fatal(err)
	}
	const parent = `import os, sys
child = os.posix_spawn(sys.executable, [sys.executable, "-I", sys.argv[1]], os.environ,
    file_actions=[(os.POSIX_SPAWN_OPEN, 1, sys.argv[2], os.O_WRONLY | os.O_CREAT, 0o600)])
os.waitpid(child, 0)
`
	rowsFile, prize := filepath.Join(dir, "rows"), filepath.Join(dir, "prize")
	stdout, err := os.Create(prize)
	if err != nil {
		t.Fatal(err)
	}
	defer stdout.Close()
	cmd := exec.CommandContext(t.Context(), python(t), "-I", "-c", parent, program, rowsFile)
	cmd.Stdout = stdout
	if err := cmd.Run(); err != nil {
		t.Fatalf("run the parent: %v", err)
	}
	text, err := os.ReadFile(rowsFile)
	if err != nil {
		t.Fatal(err)
	}
	var rows []attempt
	if err := json.Unmarshal(text, &rows); err != nil {
		t.Fatalf("read %q: %v", head(text), err)
	}
	worked := make(map[string]bool)
	for _, r := range rows {
		if r.Target == "self" && r.Result != "ok" {
			t.Errorf("a control failed: %+v", r)
		}
		worked[r.Op] = worked[r.Op] || (r.Target != "self" && r.Result == "ok")
	}
	for _, op := range []string{"list", "forge", "steal", "read"} {
		if !worked[op] {
			t.Errorf("the attempt to %s did not work: %+v", op, rows)
		}
	}
	if got, err := os.ReadFile(prize); err != nil || !bytes.Contains(got, []byte(`"run":"forged"`)) {
		t.Errorf("the forged frame did not arrive: %q, %v", head(got), err)
	}
}

// TestWaitsUnderPython: what waits for ever really does, until it is interrupted;
// what is deaf ignores even that.
func TestWaitsUnderPython(t *testing.T) {
	for _, c := range []struct {
		step    Step
		survive bool
	}{{Sleep(ages), false}, {Spin(), false}, {BlockedRead(), false}, {Deaf(), true}} {
		t.Run(string(c.step.Act), func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "program.py")
			if err := os.WriteFile(file, Program{Print("deaf"), c.step}.Source(), 0o600); err != nil {
				t.Fatal(err)
			}
			cmd := exec.CommandContext(t.Context(), python(t), "-I", "-u", file)
			out, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			ready := "deaf\n"
			if c.survive {
				ready = "deaf\ndeaf\n"
			}
			got := make([]byte, len(ready))
			for n := 0; n < len(got); {
				m, err := out.Read(got[n:])
				if err != nil {
					t.Fatalf("read %q: %v", got[:n], err)
				}
				n += m
			}
			if err := cmd.Process.Signal(os.Interrupt); err != nil {
				t.Fatal(err)
			}
			if c.survive {
				// A signal that were not ignored would have ended it before the kill.
				if err := cmd.Process.Kill(); err != nil {
					t.Fatal(err)
				}
			}
			_ = cmd.Wait() // the state says more
			if killed := cmd.ProcessState.String() == "signal: killed"; killed != c.survive {
				t.Errorf("ended with %s", cmd.ProcessState)
			}
		})
	}
}
