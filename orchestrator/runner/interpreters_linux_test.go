package runner

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"brig/orchestrator/sandbox/sandboxtest"
)

// wanted are the minor versions of Python 3 that the program has to work with.
var wanted = []string{"3.8", "3.9", "3.10", "3.11", "3.12", "3.13"}

// nobody is who runs user code in these tests: root would hide mistakes.
const nobody = 65534

// An interpreter is one Python that was found, readable for nobody.
type interpreter struct {
	minor   string // such as 3.8
	version string // such as 3.8.18
	path    string // of the executable
	prefix  string
	env     []string // what a copy needs to find its own shared library
}

// machine is what the tests of this process share: made by TestMain.
type machine struct {
	dir          string // world readable
	script       string // the installed program
	interpreters []interpreter
	arguments    []string // of the program, see spawned_linux_test.go
}

var shared machine

func TestMain(m *testing.M) { os.Exit(testMain(m)) }

func testMain(m *testing.M) int {
	dir, err := os.MkdirTemp("", "brig-runner-test-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	if err := prepare(dir); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

func prepare(dir string) error {
	if err := os.Chmod(dir, 0o755); err != nil {
		return err
	}
	script, err := Install(filepath.Join(dir, "runner"))
	if err != nil {
		return err
	}
	shared = machine{dir: dir, script: script}
	if os.Getenv(spawnedVariable) != "" {
		shared.arguments = []string{"--spawned"}
	}
	if os.Getenv(darwinVariable) != "" {
		if err := prepareDarwin(&shared); err != nil {
			return err
		}
	}
	for _, found := range findInterpreters() {
		if len(shared.arguments) > 0 && (found.minor == "3.12" || found.minor == "3.13") {
			continue // they warn of a fork beside a thread, and the doorbell is one; Windows has no fork
		}
		if os.Getuid() == 0 && !readableByAll(found.path) {
			target := filepath.Join(dir, "python"+found.minor)
			if err := copyTree(found.prefix, target); err != nil {
				return fmt.Errorf("copy %s: %w", found.prefix, err)
			}
			relative, err := filepath.Rel(found.prefix, found.path)
			if err != nil {
				return err
			}
			found.path, found.prefix = filepath.Join(target, relative), target
			found.env = []string{"LD_LIBRARY_PATH=" + filepath.Join(target, "lib")}
		}
		shared.interpreters = append(shared.interpreters, found)
	}
	if len(shared.arguments) > 0 && len(shared.interpreters) > 1 {
		shared.interpreters = shared.interpreters[len(shared.interpreters)-1:]
	}
	return precompile()
}

// precompile makes the byte code that images and caches have too. A copied
// interpreter finds its library only with its environment, hence the detour.
func precompile() error {
	for _, p := range shared.interpreters {
		python := p.path
		if len(p.env) > 0 {
			python = p.path + "-with-library"
			script := fmt.Sprintf("#!/bin/sh\n%s exec %s \"$@\"\n", p.env[0], p.path)
			if err := os.WriteFile(python, []byte(script), 0o755); err != nil {
				return err
			}
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := Precompile(ctx, python, shared.script); err != nil {
			return fmt.Errorf("python %s: %w", p.version, err)
		}
	}
	return nil
}

// findInterpreters asks every candidate what it is and keeps the first of each
// wanted version: those of BRIG_TEST_PYTHONS, those of pyenv, those on PATH.
func findInterpreters() []interpreter {
	candidates := filepath.SplitList(os.Getenv("BRIG_TEST_PYTHONS"))
	root := os.Getenv("PYENV_ROOT")
	if root == "" {
		if home, err := os.UserHomeDir(); err == nil {
			root = filepath.Join(home, ".pyenv")
		}
	}
	installed, _ := filepath.Glob(filepath.Join(root, "versions", "3*", "bin", "python3"))
	candidates = append(candidates, installed...)
	for _, minor := range append(slices.Clone(wanted), "3") {
		for _, dir := range filepath.SplitList(os.Getenv("PATH")) {
			candidates = append(candidates, filepath.Join(dir, "python"+minor))
		}
	}
	found := make(map[string]interpreter)
	for _, path := range candidates {
		if i, ok := ask(path); ok && found[i.minor].path == "" {
			found[i.minor] = i
		}
	}
	var sorted []interpreter
	for _, minor := range wanted {
		if i, ok := found[minor]; ok {
			sorted = append(sorted, i)
		}
	}
	return sorted
}

func ask(path string) (interpreter, bool) {
	info, err := os.Stat(path)
	if err != nil || info.IsDir() {
		return interpreter{}, false
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	const question = `import sys, os
print("%d.%d" % sys.version_info[:2]); print("%d.%d.%d" % sys.version_info[:3])
print(os.path.realpath(sys.executable)); print(sys.base_prefix)`
	out, err := exec.CommandContext(ctx, path, "-I", "-c", question).Output()
	if err != nil {
		return interpreter{}, false
	}
	answer := strings.Split(strings.TrimSpace(string(out)), "\n")
	if len(answer) != 4 {
		return interpreter{}, false
	}
	return interpreter{minor: answer[0], version: answer[1], path: answer[2], prefix: answer[3]}, true
}

// readableByAll tells whether every directory on the way to path is open to others.
func readableByAll(path string) bool {
	for dir := filepath.Dir(path); ; dir = filepath.Dir(dir) {
		info, err := os.Stat(dir)
		if err != nil || info.Mode().Perm()&0o005 != 0o005 {
			return false
		}
		if dir == filepath.Dir(dir) {
			return true
		}
	}
}

// copyTree makes an interpreter's tree again below to, with hard links where
// they work: an interpreter finds its library from where it lies itself.
func copyTree(from, to string) error {
	return filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		target := filepath.Join(to, relative)
		switch {
		case d.IsDir():
			switch d.Name() {
			case "test", "tests", "idlelib", "tkinter", "turtledemo", "include":
				return fs.SkipDir
			}
			return os.Mkdir(target, 0o755)
		case d.Type()&fs.ModeSymlink != 0:
			link, err := os.Readlink(path)
			if err != nil {
				return err
			}
			return os.Symlink(link, target)
		case !d.Type().IsRegular():
			return nil
		}
		if os.Link(path, target) == nil {
			return nil
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		return os.WriteFile(target, data, info.Mode().Perm()|0o444)
	})
}

// TestInterpreters says which Pythons the other tests run on, and misses none quietly.
func TestInterpreters(t *testing.T) {
	var found, missing []string
	for _, minor := range wanted {
		at := slices.IndexFunc(shared.interpreters, func(i interpreter) bool { return i.minor == minor })
		if at < 0 {
			missing = append(missing, minor)
			continue
		}
		i := shared.interpreters[at]
		found = append(found, i.version)
		t.Logf("python %s: %s", i.version, i.path)
	}
	if len(missing) > 0 {
		sandboxtest.Skip(t, "Python "+strings.Join(missing, ", "), "only "+strings.Join(found, ", "))
	}
}

// each runs a test on every interpreter, two at a time.
func each(t *testing.T, test func(t *testing.T, p interpreter)) {
	t.Helper()
	if len(shared.interpreters) == 0 {
		sandboxtest.Skip(t, "a Python from 3.8 on", "none in BRIG_TEST_PYTHONS, below PYENV_ROOT or on PATH")
	}
	slots := make(chan struct{}, 2)
	for _, p := range shared.interpreters {
		t.Run(p.minor, func(t *testing.T) {
			t.Parallel()
			slots <- struct{}{}
			defer func() { <-slots }()
			test(t, p)
		})
	}
}

// unprivileged makes a command run as nobody where the test is root.
func unprivileged(cmd *exec.Cmd) {
	if os.Getuid() == 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	}
}
