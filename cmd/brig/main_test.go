package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"brig/orchestrator/sandbox/sandboxtest"
)

// copyVar names the copy of the test binary that an ordinary user may execute.
const copyVar = "BRIG_TEST_COPY"

// bareVar asks for a brig on a system where nothing contains code.
const bareVar = "BRIG_TEST_BARE"

// TestMain makes this binary both the test and brig: started under the name
// brig it is brig. The hidden roles of the host sandbox were served before,
// by package early.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"brig": func() {
		becomeBare()
		becomeOrdinary(os.Getenv(copyVar))
		main()
	}})
}

// TestScripts runs what needs no engine: there brig is an ordinary user, and
// where the engine would be there is nothing.
func TestScripts(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		sandboxtest.Skip(t, "python3 on PATH", "none")
	}
	copied := copyOfTest(t)
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireUniqueNames:  true,
		RequireExplicitExec: true,
		Cmds:                commands(),
		Condition:           conditions,
		UpdateScripts:       *update,
		Setup: func(env *testscript.Env) error {
			isolate(env, "unix:///nonexistent/docker.sock")
			env.Setenv("PYTHON", python)
			env.Setenv(copyVar, copied)
			if err := openParent(env.WorkDir); err != nil {
				return err
			}
			return giveToOrdinary(env.WorkDir)
		},
	})
}

// TestEngineScripts runs what needs a real engine, as the user who runs the test.
func TestEngineScripts(t *testing.T) {
	if out, err := exec.CommandContext(t.Context(), "docker", "version", "--format", "{{.Server.Version}}").CombinedOutput(); err != nil {
		sandboxtest.Skip(t, "a container engine", strings.TrimSpace(string(out)))
	}
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script/engine",
		RequireUniqueNames:  true,
		RequireExplicitExec: true,
		Cmds:                commands(),
		Condition:           conditions,
		UpdateScripts:       *update,
		Setup: func(env *testscript.Env) error {
			isolate(env, os.Getenv("DOCKER_HOST"))
			return nil
		},
	})
}

// isolate gives a script directories of its own for everything that brig reads or keeps.
func isolate(env *testscript.Env, engine string) {
	dir := func(name string) string { return filepath.Join(env.WorkDir, ".home", name) }
	for name, value := range map[string]string{
		"HOME": dir(""), "XDG_CONFIG_HOME": dir("config"), "XDG_STATE_HOME": dir("state"),
		"XDG_DATA_HOME": dir("data"), "XDG_CACHE_HOME": dir("cache"), "XDG_RUNTIME_DIR": dir("run"),
		"APPDATA": dir("config"), "LOCALAPPDATA": dir("data"), "USERPROFILE": dir(""),
		"DOCKER_HOST": engine, "LC_ALL": "C.UTF-8", "NO_COLOR": "",
	} {
		env.Setenv(name, value)
	}
	// Mirror settings of the machine belong to the build of an image.
	for _, name := range []string{"PIP_INDEX_URL", "PIP_CERT", "APT_MIRROR", "HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"} {
		if v := os.Getenv(name); v != "" {
			env.Setenv(name, v)
		}
	}
	if err := os.MkdirAll(dir("run"), 0o700); err != nil {
		env.T().Fatal(err)
	}
}

func conditions(name string) (bool, error) {
	if name == "root" {
		return os.Geteuid() == 0, nil
	}
	return false, fmt.Errorf("unknown condition %q", name)
}

func commands() map[string]func(ts *testscript.TestScript, neg bool, args []string) {
	return map[string]func(ts *testscript.TestScript, neg bool, args []string){
		"exits": cmdExits,
		"json":  cmdJSON,
		"lines": cmdLines,
		"bytes": cmdBytes,
		"large": cmdLarge,
	}
}

// cmdExits is "exits CODE PROGRAM ARGS...": the program ends with exactly that code, or
// with one of several: "exits 0,4 PROGRAM ARGS...".
func cmdExits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE PROGRAM ARGS...")
	}
	got := 0
	err := ts.Exec(args[1], args[2:]...)
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit):
		got = exit.ExitCode()
	case err != nil:
		ts.Fatalf("%v", err)
	}
	if !slices.Contains(strings.Split(args[0], ","), strconv.Itoa(got)) {
		ts.Fatalf("%s exited with %d, want %s", args[1], got, args[0])
	}
}

// cmdJSON is "json PATH [WANT]": standard output is exactly one JSON object, and
// the value at PATH ("a.b.0.c") prints as WANT, which may be a Go string literal;
// without WANT it is just there.
// Negated: there is no such value, or it is another one.
func cmdJSON(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 1 && len(args) != 2 {
		ts.Fatalf("usage: json PATH [WANT]")
	}
	dec := json.NewDecoder(strings.NewReader(ts.ReadFile("stdout")))
	dec.UseNumber()
	var v any
	ts.Check(dec.Decode(&v))
	if dec.More() {
		ts.Fatalf("standard output holds more than one JSON value")
	}
	found := true
	for _, key := range strings.Split(args[0], ".") {
		switch at := v.(type) {
		case map[string]any:
			v, found = at[key]
		case []any:
			i, err := strconv.Atoi(key)
			if found = err == nil && i < len(at); found {
				v = at[i]
			}
		default:
			found = false
		}
		if !found {
			break
		}
	}
	got := fmt.Sprint(v)
	if len(args) == 2 && strings.HasPrefix(args[1], `"`) {
		want, err := strconv.Unquote(args[1])
		ts.Check(err)
		args[1] = want
	}
	ok := found && (len(args) == 1 || got == args[1])
	if ok == neg {
		ts.Fatalf("json %s: found %v, value %q", args[0], found, got)
	}
}

// cmdLines is "lines stdout|stderr|FILE N": it has that many lines.
func cmdLines(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: lines FILE N")
	}
	want, err := strconv.Atoi(args[1])
	ts.Check(err)
	if got := strings.Count(ts.ReadFile(args[0]), "\n"); got != want {
		ts.Fatalf("%s has %d lines, want %d", args[0], got, want)
	}
}

// cmdBytes is "bytes FILE GO-STRING": FILE is made to hold what the Go string
// literal says, which a script file cannot hold itself.
func cmdBytes(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: bytes FILE GO-STRING")
	}
	text, err := strconv.Unquote(`"` + args[1] + `"`)
	ts.Check(err)
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(text), 0o644))
}

// cmdLarge is "large FILE SIZE": FILE is made with that many bytes, all zero.
func cmdLarge(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: large FILE SIZE")
	}
	size, err := strconv.ParseInt(args[1], 10, 64)
	ts.Check(err)
	name := ts.MkAbs(args[0])
	ts.Check(os.MkdirAll(filepath.Dir(name), 0o755))
	ts.Check(os.WriteFile(name, nil, 0o644))
	ts.Check(os.Truncate(name, size))
}
