package confine

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// inside looks around, tries what must not work and what must, and says what came of it.
const inside = `
import errno, os, shutil, socket, sys, tempfile
outside, workspace, scratch = sys.argv[1:]
def attempt(name, f):
    try: print(name, f() or "ok")
    except OSError as e: print(name, errno.errorcode[e.errno])
for name in "/home", "/root", "/run", "/var", "/boot", "/srv", outside, outside + "/secret":
    attempt("stat", lambda: os.stat(name) and "there " + name)
attempt("chdir", lambda: os.chdir(outside))
attempt("chmod-outside", lambda: os.chmod(outside + "/secret", 0o640))
attempt("setxattr", lambda: os.setxattr(outside + "/secret", "user.x", b"y"))
attempt("write-root", lambda: open("/x", "w").close())
attempt("write-usr", lambda: open("/usr/x", "w").close())
attempt("write-way", lambda: open(os.path.dirname(workspace) + "/x", "w").close())
attempt("list-way", lambda: os.listdir(os.path.dirname(workspace)) and "ok")
attempt("move-way", lambda: os.rename(os.path.dirname(scratch), os.path.dirname(scratch) + "x"))
attempt("move-workspace", lambda: os.rename(workspace, workspace + "x"))
def unix_socket(path):
    s = socket.socket(socket.AF_UNIX); s.settimeout(5); s.connect(path)
attempt("unix-path", lambda: unix_socket(outside + "/listener"))
attempt("unix-abstract", lambda: unix_socket("\0" + outside))
attempt("tmp", lambda: " ".join(n for n in os.listdir("/tmp") if not (workspace + scratch).count("/tmp/" + n)) or "empty")
attempt("shm", lambda: " ".join(os.listdir("/dev/shm")) or "empty")
attempt("pids", lambda: " ".join(sorted(p for p in os.listdir("/proc") if p.isdigit())))
attempt("host", lambda: socket.gethostname())
attempt("proc", lambda: open("/proc/meminfo").read(9) + open("/proc/cpuinfo").read(0) + os.readlink("/proc/self"))
attempt("proc-write", lambda: open("/proc/self/oom_score_adj", "w").close())
def own_socket():
    a = socket.socket(socket.AF_UNIX); a.bind(workspace + "/s"); a.listen()
    unix_socket(workspace + "/s")
attempt("own-socket", own_socket)
def work(dir):
    os.makedirs(dir + "/a/b"); open(dir + "/a/f", "w").write("x"); os.chmod(dir + "/a/f", 0o700); os.utime(dir + "/a/f", (1, 1))
    os.rename(dir + "/a/f", dir + "/a/b/f"); shutil.copytree(dir + "/a", dir + "/c"); os.link(dir + "/a/b/f", dir + "/c/l")
    shutil.rmtree(dir + "/a"); shutil.rmtree(dir + "/c")
for dir in workspace, scratch: attempt("work", lambda: work(dir))
attempt("tmp-work", lambda: work("/tmp/mine"))
attempt("tempfile", lambda: tempfile.NamedTemporaryFile(dir="/tmp").close())
attempt("cgroup", lambda: max(l.split(":")[2].strip().replace("/..", "").count("/") for l in open("/proc/self/cgroup")) > 1 and "far" or "near")
attempt("null", lambda: open("/dev/stdout", "w").close() or open("/dev/null", "w").write("x") and "ok")
attempt("zero", lambda: open("/dev/zero", "rb").read(4) and "ok")
attempt("kill-first", lambda: os.kill(1, 9))
print("mounts", [l.split()[4] for l in open("/proc/self/mountinfo") if l.split()[5].startswith("rw")])
`

// TestPrivateRoot: what is not granted does not exist, wherever workspace and
// scratch lie and through whichever links; what is granted works as outside.
func TestPrivateRoot(t *testing.T) {
	needPython(t)
	needWhole(t)
	for name, place := range map[string]func(t *testing.T, p *Plan){
		"below /tmp": func(*testing.T, *Plan) {},
		"blanks and letters": func(t *testing.T, p *Plan) {
			p.Workspace = filepath.Join(filepath.Dir(p.Workspace), "a b\tc", "ünï \\040", "w")
		},
		"through links": func(t *testing.T, p *Plan) {
			real := t.TempDir()
			if err := os.Symlink(real, p.Home+"/linked"); err != nil {
				t.Fatal(err)
			}
			p.Grants.Read = append(p.Grants.Read, p.Home+"/linked")
		},
		"in /dev/shm": func(t *testing.T, p *Plan) {
			dir, err := os.MkdirTemp("/dev/shm", "brig-test-")
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = os.RemoveAll(dir) })
			p.Workspace = dir + "/w"
		},
		"one in the other": func(t *testing.T, p *Plan) { p.Scratch = p.Workspace + "/scratch" },
	} {
		t.Run(name, func(t *testing.T) {
			outside := t.TempDir()
			if err := os.WriteFile(outside+"/secret", []byte("x"), 0o600); err != nil {
				t.Fatal(err)
			}
			for _, address := range []string{outside + "/listener", "@" + outside} {
				l, err := net.Listen("unix", address)
				if err != nil {
					t.Fatal(err)
				}
				defer func() { _ = l.Close() }()
			}
			p := basePlan(t, python, "-I", "-c", inside, outside, "", "")
			place(t, &p)
			for _, dir := range []string{p.Workspace, p.Scratch} {
				if err := os.MkdirAll(dir, 0o700); err != nil {
					t.Fatal(err)
				}
			}
			copy(p.Command[5:], []string{p.Workspace, p.Scratch})
			out, ended, report := run(t, p)
			if n := report.Namespaces; !n.Root.Applied || !n.Process.Applied || !n.Network.Applied || ended.Status != 0 {
				t.Fatalf("%+v %+v\n%s", n, ended, out)
			}
			lines := strings.Split(out, "\n")
			count := func(line string) (n int) {
				for _, l := range lines {
					if l == line {
						n++
					}
				}
				return n
			}
			refused := func(name string) bool { // by one of the layers that each suffice
				return count(name+" ENOENT")+count(name+" EROFS")+count(name+" EACCES")+count(name+" EBUSY")+count(name+" EXDEV") == 1
			}
			for _, name := range []string{
				"chdir", "chmod-outside", "setxattr", "write-root", "write-usr", "write-way", "list-way", "move-way", "move-workspace", "unix-path", "proc-write",
			} {
				inWorkspace := name == "move-way" && strings.HasPrefix(p.Scratch, p.Workspace)
				if !refused(name) && !inWorkspace {
					t.Errorf("%s was not refused", name)
				}
			}
			if n := count("stat ENOENT"); n != 8 {
				t.Errorf("%d of 8 are not there", n)
			}
			for _, line := range []string{
				"unix-abstract ECONNREFUSED", "tmp empty", "pids 1", "host localhost", "proc MemTotal:1", "own-socket ok",
				"tmp-work ok", "tempfile ok", "cgroup near", "null ok", "zero ok", "kill-first ok",
			} {
				if count(line) != 1 {
					t.Errorf("it does not say %q", line)
				}
			}
			if n := count("work ok"); n != 2 {
				t.Errorf("%d of 2 directories can be worked in", n)
			}
			if t.Failed() {
				t.Log(out)
			}
			// The control: without a private root the same finds it all.
			p = basePlan(t, python, "-I", "-c", inside, outside, p.Workspace, p.Workspace)
			p.Mode = ModeOff
			if out, _, _ := run(t, p); !strings.Contains(out, "stat there "+outside+"/secret\n") || !strings.Contains(out, "unix-path ok\n") || !strings.Contains(out, "chdir ok\n") {
				t.Errorf("control: %s", out)
			}
		})
	}
}

// TestProtected: what others run stays as it is inside the workspace, and no
// directory above it can be put aside. Without a private root it can be written
// to, which the control shows.
func TestProtected(t *testing.T) {
	needPython(t)
	needWhole(t)
	program := `
import errno, os, sys
os.chdir(sys.argv[1])
def attempt(name, f):
    try: f(); print(name, "ok")
    except OSError as e: print(name, errno.errorcode[e.errno])
attempt("read", lambda: open(".git/hooks/pre").read())
attempt("plant", lambda: open(".git/hooks/post", "w").close())
attempt("change", lambda: open(".git/hooks/pre", "a").close())
attempt("mode", lambda: os.chmod(".git/hooks/pre", 0o777))
attempt("config", lambda: open(".git/config", "a").close())
attempt("unlink", lambda: os.unlink(".git/config"))
attempt("replace", lambda: (open("new", "w").close(), os.rename("new", ".git/config")))
attempt("rename-hooks", lambda: os.rename(".git/hooks", ".git/other"))
attempt("rename-git", lambda: os.rename(".git", "other"))
attempt("beside", lambda: open(".git/index", "w").close())
attempt("rest", lambda: open("file", "w").close())
`
	of := func(kernel ...string) (string, Report) {
		p := basePlan(t, python, "-I", "-c", program, "")
		p.Command[4] = p.Workspace
		if err := os.MkdirAll(p.Workspace+"/.git/hooks", 0o700); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"/.git/hooks/pre", "/.git/config"} {
			if err := os.WriteFile(p.Workspace+name, []byte("x"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		p.Protected = []string{p.Workspace + "/.git/hooks", p.Workspace + "/.git/config", p.Workspace + "/.envrc"}
		out, _, report := run(t, p, kernel...)
		return out, report
	}
	out, report := of()
	for _, line := range []string{
		"read ok", "plant EROFS", "change EROFS", "mode EROFS", "config EROFS", "unlink EBUSY", "replace EXDEV",
		"rename-hooks EBUSY", "rename-git EBUSY", "beside ok", "rest ok",
	} {
		if !strings.Contains(out, line+"\n") {
			t.Errorf("it does not say %q:\n%s", line, out)
		}
	}
	if u := report.Namespaces.Unprotected; len(u) != 1 || !strings.HasSuffix(u[0], "/.envrc") {
		t.Errorf("unprotected: %q", u)
	}
	if out, _ := of(answers("pivot_root", unix.EPERM)); !strings.Contains(out, "plant ok\n") || !strings.Contains(out, "rename-git ok\n") {
		t.Errorf("control: %s", out)
	}
}

// TestFirst: the runner is the first process of its namespace. Nothing inside can
// end it, everything outside can, and how it ended is told as for any other.
func TestFirst(t *testing.T) {
	needPython(t)
	needWhole(t)
	t.Run("killed from outside", func(t *testing.T) {
		i := launch(t, basePlan(t, python, "-I", "-c", `import os, time; os.kill(1, 9); os.kill(1, 15); print("ready", os.getpid(), flush=True); time.sleep(600)`))
		s := i.started()
		i.ready("ready 1")
		if err := unix.Kill(s.PID, unix.SIGKILL); err != nil {
			t.Fatal(err)
		}
		if e := i.ended(); e.Cause != EndSelf || e.Signal != int(unix.SIGKILL) || e.Status != -1 {
			t.Errorf("ended: %+v", e)
		}
		i.wait()
	})
	t.Run("supervisor told to end", func(t *testing.T) {
		i := launch(t, basePlan(t, python, "-I", "-c", `import time; print("ready", flush=True); time.sleep(600)`))
		i.started()
		i.ready("ready")
		if err := i.cmd.Process.Signal(unix.SIGTERM); err != nil {
			t.Fatal(err)
		}
		if e := i.ended(); e.Cause != EndOrdered || e.Signal != int(unix.SIGKILL) || len(e.Left) > 0 {
			t.Errorf("ended: %+v", e)
		}
		i.wait()
	})
	t.Run("crash", func(t *testing.T) {
		_, e, _ := run(t, basePlan(t, python, "-I", "-c", `import ctypes; ctypes.string_at(0)`))
		if e.Cause != EndSelf || e.Signal != int(unix.SIGSEGV) {
			t.Errorf("ended: %+v", e)
		}
	})
}

// TestLo: the loopback device of the own stack is up only where the policy has it.
func TestLo(t *testing.T) {
	needPython(t)
	needWhole(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	program := fmt.Sprintf(`
import socket
def attempt(name, f):
    try: f(); print(name, "ok")
    except OSError as e: print(name, type(e).__name__)
def own():
    s = socket.create_server(("127.0.0.1", 0))
    socket.create_connection(s.getsockname(), 5)
attempt("own", own)
attempt("machine", lambda: socket.create_connection(("127.0.0.1", %d), 5))
attempt("far", lambda: socket.create_connection(("192.0.2.1", 80), 0.2))
`, l.Addr().(*net.TCPAddr).Port)
	for network, want := range map[Network]string{
		NetworkDeny: "own PermissionError\nmachine PermissionError\nfar PermissionError\n", NetworkLoopback: "own ok\nmachine ConnectionRefusedError\nfar OSError\n",
		NetworkAllow: "own ok\nmachine ok\n",
	} {
		p := basePlan(t, python, "-I", "-c", program)
		p.Network = network
		out, _, r := run(t, p)
		if !strings.HasPrefix(out, want) || r.Namespaces.Loopback != (network == NetworkLoopback) || r.Namespaces.Network.Applied == (network == NetworkAllow) {
			t.Errorf("%s: %+v\n%s", network, r.Namespaces, out)
		}
	}
	// Where there is no own stack, or its device stays down, no socket is made at all.
	for _, kernel := range []string{answers("newnet", unix.EPERM), answers("ioctl", unix.EPERM)} {
		p := basePlan(t, python, "-I", "-c", program)
		p.Network = NetworkLoopback
		out, _, r := run(t, p, kernel)
		if !strings.HasPrefix(out, "own PermissionError\nmachine PermissionError\n") || r.Namespaces.Network != (Layer{Code: CodeNetRefused, Errno: "EPERM"}) {
			t.Errorf("%s: %+v\n%s", kernel, r.Namespaces, out)
		}
	}
}

// TestTmpIsBounded: the private /tmp takes so many bytes and so many files.
func TestTmpIsBounded(t *testing.T) {
	needPython(t)
	needWhole(t)
	p := basePlan(t, python, "-I", "-c", `
import errno, os
def attempt(name, f):
    try: print(name, f() or "ok")
    except OSError as e: print(name, errno.errorcode[e.errno])
def many():
    os.mkdir("/tmp/many")
    for n in range(70000): os.mknod("/tmp/many/%d" % n)
attempt("some", lambda: open("/tmp/some", "wb").write(bytes(8 << 20)) and "ok")
attempt("full", lambda: open("/tmp/big", "wb").write(bytes(20 << 20)) and "ok")
attempt("files", many)`)
	p.Limits.Memory = 128 << 20
	if out, _, _ := run(t, p); out != "some ok\nfull ENOSPC\nfiles ENOSPC\n" {
		t.Errorf("it says %s", out)
	}
}

// TestMemoryOfTmp: what lies in the private /tmp counts as the tree's memory.
func TestMemoryOfTmp(t *testing.T) {
	needPython(t)
	needWhole(t)
	p := basePlan(t, python, "-I", "-c", `
import time
block = bytearray(b"x") * (85 << 20)
open("/dev/shm/b", "wb").write(bytes(85 << 20))
for n in range(1, 23): open("/tmp/%d" % n, "wb").write(bytes(1 << 20))
print("full", flush=True)
time.sleep(60)`)
	p.Limits.Memory = 190 << 20
	i := launch(t, p)
	i.started()
	if e := i.ended(); e.Cause != EndMemory || e.Used < p.Limits.Memory {
		t.Errorf("ended: %+v %s", e, i.out.String())
	}
	i.wait()
}
