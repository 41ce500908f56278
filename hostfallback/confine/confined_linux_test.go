package confine

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const python = "/usr/bin/python3"

// openFiles prints the descriptors that are open, without opening one to look.
const openFiles = `
import os
def open_(fd):
    try: os.fstat(fd); return True
    except OSError: return False
print("fds", *[fd for fd in range(512) if open_(fd)])`

// TestHygiene: what the program finds is what the plan says, in the kernel's own words.
func TestHygiene(t *testing.T) {
	needPython(t)
	needWhole(t)
	// A descriptor that brig itself inherited and that nothing of brig knows.
	leak, err := os.CreateTemp(t.TempDir(), "secret")
	if err != nil {
		t.Fatal(err)
	}
	defer leak.Close()
	p := basePlan(t, "/bin/sh", "-c", `
		echo "umask $(umask)"; echo "cwd $(pwd)"; echo "env $(/usr/bin/env | /usr/bin/sort | tr '\n' ' ')"
		/usr/bin/python3 -I -c "$1"
		read -r stat < /proc/$$/stat; set -- $stat; echo "session $(( $1 == $6 )) tty $7"
		grep -E '^(Cap|NoNewPrivs|Seccomp:)' /proc/self/status; exit 7`, "sh", openFiles)
	out, ended, report := run(t, p)
	want := []string{
		"umask 0077", "cwd " + p.Scratch, "fds 0 1 2", "session 1 tty 0",
		"NoNewPrivs:\t1", "Seccomp:\t2", "CapEff:\t0000000000000000", "CapPrm:\t0000000000000000",
	}
	for _, w := range want {
		if !strings.Contains(out, w) {
			t.Errorf("missing %q", w)
		}
	}
	for _, line := range strings.Split(out, "\n") {
		if env, ok := strings.CutPrefix(line, "env "); ok {
			for _, entry := range strings.Fields(env) {
				name, _, _ := strings.Cut(entry, "=")
				if !strings.Contains("PATH HOME BRIG_INSTANCE PWD _ OLDPWD SHLVL", name) {
					t.Errorf("the environment has %s", entry)
				}
			}
		}
	}
	if ended.Cause != EndSelf || ended.Status != 7 {
		t.Errorf("ended: %+v", ended)
	}
	if t.Failed() {
		t.Logf("%s\n%+v", out, report)
	}
	if _, err := os.Stat(p.Home); !os.IsNotExist(err) {
		t.Errorf("the instance's directory was left: %v", err)
	}
}

// TestLimits: each limit of the plan is the one that the kernel enforces.
func TestLimits(t *testing.T) {
	needPython(t)
	needWhole(t)
	p := basePlan(t, python, "-I", "-c", `
import resource as r
for n in "CORE NOFILE FSIZE NPROC DATA".split(): print(n, *r.getrlimit(getattr(r, "RLIMIT_"+n)))
def attempt(name, f):
    try: f(); print(name, "allowed")
    except (OSError, MemoryError, ValueError) as e: print(name, type(e).__name__)
attempt("memory", lambda: bytearray(400<<20))
attempt("small-memory", lambda: bytearray(40<<20))
def big():
    with open("big", "wb") as f: f.write(bytes(3<<20))
attempt("file", big)
attempt("files", lambda: [open("/dev/null") for _ in range(80)])
attempt("raise", lambda: r.setrlimit(r.RLIMIT_NOFILE, (4096, 4096)))
import os
def bomb():
    pids = []
    try:
        for _ in range(60):
            pid = os.fork()
            if pid == 0:
                import time; time.sleep(60); os._exit(0)
            pids.append(pid)
    finally:
        print("forks", len(pids))
        for p in pids: os.kill(p, 9)
        for p in pids: os.waitpid(p, 0)
attempt("bomb", bomb)
`)
	p.Limits = Limits{Memory: 200 << 20, Processes: 40, OpenFiles: 64, FileSize: 1 << 20, Disk: 1 << 30}
	out, _, report := run(t, p)
	for _, w := range []string{
		"CORE 0 0", "NOFILE 64 64", "FSIZE 1048576 1048576", "DATA 209715200 209715200",
		"memory MemoryError", "small-memory allowed", "file OSError", "files OSError", "raise ValueError", "bomb BlockingIOError",
	} {
		if !strings.Contains(out, w+"\n") {
			t.Errorf("missing %q", w)
		}
	}
	if report.Namespace.Applied && !strings.Contains(out, "NPROC 40 40\n") {
		t.Errorf("in a user namespace the process limit is absolute")
	}
	if t.Failed() {
		t.Log(out)
	}
}

// TestGrants: what is granted works, what is not is refused, and a control shows
// that only the confinement makes the difference.
func TestGrants(t *testing.T) {
	needPython(t)
	needWhole(t)
	outside := t.TempDir()
	secret := filepath.Join(outside, "secret")
	if err := os.WriteFile(secret, []byte("canary"), 0o600); err != nil {
		t.Fatal(err)
	}
	script := `
import os, sys
secret, workspace = sys.argv[1:]
def attempt(name, f):
    try: f(); print(name, "allowed")
    except OSError as e: print(name, "refused")
attempt("read-outside", lambda: open(secret).read())
attempt("list-outside", lambda: os.listdir(os.path.dirname(secret)))
attempt("write-outside", lambda: open(secret + ".new", "w"))
attempt("append-outside", lambda: open(secret, "a"))
attempt("truncate-outside", lambda: os.truncate(secret, 0))
attempt("chmod-outside", lambda: os.chmod(secret, 0o640))
attempt("utime-outside", lambda: os.utime(secret, (1, 1)))
attempt("link-out", lambda: os.link(secret, workspace + "/hard"))
attempt("unlink-outside", lambda: os.unlink(secret))
os.symlink(secret, workspace + "/soft")
attempt("read-through-link", lambda: open(workspace + "/soft").read())
attempt("read-workspace", lambda: open(workspace + "/mine", "w").close())
attempt("chmod-workspace", lambda: os.chmod(workspace + "/mine", 0o640))
attempt("rename", lambda: os.rename(workspace + "/mine", workspace + "/moved"))
attempt("null", lambda: open("/dev/null", "w").write("x"))
attempt("tty", lambda: open("/dev/tty"))
`
	lines := func(mode Mode) map[string]string {
		p := basePlan(t, python, "-I", "-c", script, secret, "")
		p.Command[len(p.Command)-1] = p.Workspace
		p.Mode, p.Namespace = mode, mode != ModeOff
		out, _, _ := run(t, p)
		got := make(map[string]string)
		for _, line := range strings.Split(out, "\n") {
			name, value, _ := strings.Cut(line, " ")
			got[name] = value
		}
		if len(got) < 15 {
			t.Fatalf("%s: the probe did not finish: %s", mode, out)
		}
		return got
	}
	confined := lines(ModeBestEffort)
	content, err := os.ReadFile(secret)
	if err != nil || string(content) != "canary" {
		t.Fatalf("the canary was touched: %q %v", content, err)
	}
	if _, err := os.Stat(secret + ".new"); !os.IsNotExist(err) {
		t.Errorf("a file was made outside: %v", err)
	}
	control := lines(ModeOff)
	for name, got := range confined {
		if !strings.Contains(name, "outside") && name != "link-out" && name != "read-through-link" {
			continue
		}
		if got != "refused" {
			t.Errorf("%s was %s", name, got)
		}
		if control[name] != "allowed" && name != "unlink-outside" && name != "read-through-link" {
			t.Errorf("control: %s was %s without confinement", name, control[name])
		}
	}
	for _, name := range []string{"read-workspace", "chmod-workspace", "rename", "null"} {
		if confined[name] != "allowed" {
			t.Errorf("%s was %s", name, confined[name])
		}
	}
}
