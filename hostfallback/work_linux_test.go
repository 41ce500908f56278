package hostfallback

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"brig/orchestrator/sandbox"
	"brig/orchestrator/sandbox/sandboxtest"
	"brig/orchestrator/wire"
	files "brig/orchestrator/workspace"
)

// needWhole skips a test on a machine that does not offer every layer.
func needWhole(t *testing.T) {
	t.Helper()
	rows, err := testBackend(t).Capabilities(testContext(t), testBase())
	if err != nil {
		t.Fatal(err)
	}
	gaps := sandbox.Posture{Layers: rows, Promised: promised(testBase())}.Warnings()
	if len(gaps) > 0 {
		sandboxtest.Skip(t, "Landlock of ABI 6 or newer, seccomp and user namespaces", strings.Join(gaps, "; "))
	}
}

// TestWork: what programs ordinarily do with the standard library works inside.
func TestWork(t *testing.T) {
	programs := map[string]string{
		"subprocess": `
import subprocess, sys
print(subprocess.run([sys.executable, "-c", "print(41+1)"], capture_output=True, text=True, check=True).stdout.strip())
print(subprocess.run("echo shell | tr a-z A-Z", shell=True, capture_output=True, text=True).stdout.strip())
assert subprocess.run(["true"], start_new_session=True).returncode == 0`,
		"threads": `
from concurrent.futures import ThreadPoolExecutor
import threading
with ThreadPoolExecutor(16) as p: assert sum(p.map(lambda x: x*x, range(100))) == 328350
ts = [threading.Thread(target=lambda: None) for _ in range(50)]
[t.start() for t in ts]; [t.join() for t in ts]`,
		"process pool": `
from concurrent.futures import ProcessPoolExecutor
import math
with ProcessPoolExecutor(2) as p: print(list(p.map(math.factorial, range(5))))
assert True`,
		"multiprocessing": `
import multiprocessing as mp
lock, q, v = mp.Lock(), mp.Queue(), mp.Value("i", 0)
def work(n):
    with lock: v.value += n
    q.put(n)
ps = [mp.Process(target=work, args=(i,)) for i in range(4)]
[p.start() for p in ps]; got = sorted(q.get() for _ in ps); [p.join() for p in ps]
assert got == [0, 1, 2, 3] and v.value == 6
a, b = mp.Pipe(); a.send("x"); assert b.recv() == "x"
with mp.Pool(2) as p: assert p.map(abs, [-1, -2]) == [1, 2]
from multiprocessing import shared_memory
s = shared_memory.SharedMemory(create=True, size=1000); s.buf[0] = 7; s.close(); s.unlink()`,
		"asyncio": `
import asyncio, sys
async def main():
    p = await asyncio.create_subprocess_exec(sys.executable, "-c", "print('sub')", stdout=-1)
    out, _ = await p.communicate(); assert out == b"sub\n"
    loop = asyncio.get_running_loop()
    assert await loop.run_in_executor(None, lambda: 5) == 5
    await asyncio.sleep(0.01)
asyncio.run(main())`,
		"files": `
import os, shutil, sqlite3, tempfile, zipfile, tarfile, pathlib
with tempfile.NamedTemporaryFile() as f: f.write(b"x")
d = tempfile.mkdtemp(); pathlib.Path(d, "a").write_text("a"); os.chmod(d + "/a", 0o755)
shutil.copytree(d, "copy"); shutil.copy2("copy/a", "b"); os.utime("b", (1e9, 1e9)); os.symlink("b", "c")
with zipfile.ZipFile("z.zip", "w") as z: z.write("b")
zipfile.ZipFile("z.zip").extractall("unzipped")
with tarfile.open("t.tgz", "w:gz") as f: f.add("copy")
tarfile.open("t.tgz").extractall("untarred")
db = sqlite3.connect("x.db"); db.execute("pragma journal_mode=wal"); db.execute("create table t(a)"); db.execute("insert into t values(1)"); db.commit()
assert db.execute("select * from t").fetchall() == [(1,)]
os.mkfifo("fifo"); os.replace("b", "e"); os.makedirs("x/y/z"); shutil.rmtree("x"); shutil.move(d + "/a", "moved")
open("/dev/null", "w").write("x"); assert len(open("/dev/urandom", "rb").read(8)) == 8`,
		"system": `
import getpass, locale, platform, pwd, random, ssl, socket, time, uuid, zoneinfo, ctypes, hashlib, os, signal
platform.platform(); os.cpu_count(); os.getloadavg(); uuid.uuid4(); ssl.create_default_context(); time.localtime()
zoneinfo.ZoneInfo("Europe/Berlin"); pwd.getpwuid(0); locale.getlocale(); os.sched_getaffinity(0); os.nice(0)
os.sched_setaffinity(0, os.sched_getaffinity(0)); a, b = socket.socketpair(); a.send(b"x"); assert b.recv(1) == b"x"
signal.alarm(0); r, w = os.pipe(); import resource; resource.getrlimit(resource.RLIMIT_NOFILE)`,
		"network errors": `
import socket, urllib.request, time
begin = time.monotonic()
for f in (lambda: socket.create_connection(("127.0.0.1", 9)), lambda: urllib.request.urlopen("http://example.invalid/"),
          lambda: socket.getaddrinfo("example.invalid", 80)):
    try: f(); raise SystemExit("reached")
    except OSError: pass
assert time.monotonic() - begin < 3
assert socket.gethostbyname("localhost") == "127.0.0.1" or True`,
	}
	backends := map[string]*Backend{"whole": testBackend(t), "no namespaces": poorBackend(t, "namespaces")}
	for machine, b := range backends {
		t.Run(machine, func(t *testing.T) {
			i := openInstance(t, b, testBase())
			for name, program := range programs {
				t.Run(name, func(t *testing.T) {
					out, exit := output(t, i, wire.RunID(strings.ReplaceAll(name, " ", "-")), program)
					if exit.Outcome != wire.OutcomeOK {
						t.Errorf("%+v\n%s", exit, out)
					}
				})
			}
		})
	}
}

// TestCauses: a limit that ends an instance is its cause, and the words say
// what was measured.
func TestCauses(t *testing.T) {
	cases := []struct {
		name    string
		limits  sandbox.Limits
		program string
		want    sandbox.Cause
	}{
		{"memory of a tree", sandbox.Limits{Memory: 200 << 20}, `
import os, time
for _ in range(4):
    if os.fork() == 0:
        x = bytearray(os.urandom(1 << 20) * 90); time.sleep(60)
time.sleep(60)`, sandbox.MemoryOut},
		{"disk", sandbox.Limits{Workspace: 20 << 20}, `
import time
for n in range(10):
    with open("f%d" % n, "wb") as f: f.write(bytes(5 << 20))
time.sleep(60)`, sandbox.DiskOut},
		{"disk of scratch", sandbox.Limits{Workspace: 20 << 20}, `
import tempfile, time, os
d = tempfile.mkdtemp()
for n in range(10):
    with open("%s/f%d" % (d, n), "wb") as f: f.write(bytes(5 << 20))
os.chmod(d, 0); time.sleep(60)`, sandbox.DiskOut},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			base := testBase()
			base.Limits = c.limits
			i := openInstance(t, testBackend(t), base)
			_, err := i.Run(testContext(t), wire.Run{ID: "r", Source: []byte(c.program)}, func(wire.Event) error { return nil })
			var lost *sandbox.Lost
			if !errors.As(err, &lost) || lost.Ending.Cause != c.want {
				t.Fatalf("run: %v", err)
			}
			if !strings.Contains(lost.Ending.Detail, "limit") {
				t.Errorf("detail: %s", lost.Ending.Detail)
			}
			t.Log(lost.Ending.Detail)
		})
	}
	t.Run("memory of one process", func(t *testing.T) {
		base := testBase()
		base.Limits.Memory = 200 << 20
		i := openInstance(t, testBackend(t), base)
		if out, exit := output(t, i, "r", "x = bytearray(300 << 20)"); exit.Exception == nil || exit.Exception.Name != "MemoryError" {
			t.Errorf("%+v %s", exit, out)
		}
		// Shared pages of forked processes count once.
		if out, exit := output(t, i, "r2", `
import os, time
x = bytearray(os.urandom(1 << 20) * 90)
pids = [os.fork() for _ in range(1)]
def child():
    time.sleep(1); os._exit(0)
if 0 in pids: child()
more = []
for _ in range(4):
    pid = os.fork()
    if pid == 0: child()
    more.append(pid)
for p in pids + more: os.waitpid(p, 0)`); exit.Outcome != wire.OutcomeOK {
			t.Errorf("%+v %s", exit, out)
		}
	})
	t.Run("bomb", func(t *testing.T) {
		base := testBase()
		base.Limits.Processes = 50
		i := openInstance(t, testBackend(t), base)
		out, exit := output(t, i, "r", `
import os, time
n = 0
try:
    while n < 200:
        if os.fork() == 0: time.sleep(60)
        n += 1
except BlockingIOError: print("refused after", n)`)
		if exit.Outcome != wire.OutcomeOK || !strings.Contains(out, "refused after") {
			t.Errorf("%+v %s", exit, out)
		}
	})
}

// TestSweep removes what a killed brig and a killed supervisor left together,
// and nothing that lives or belongs to somebody else.
func TestSweep(t *testing.T) {
	b := testBackend(t)
	living := openInstance(t, b, testBase())
	dead := filepath.Join(b.options.instances(), "0123456789abcdef")
	foreign := filepath.Join(b.options.instances(), "fedcba9876543210")
	kept := filepath.Join(b.options.instances(), "00000000deadbeef")
	for dir, owner := range map[string]string{dead: "tests", foreign: "somebody", kept: "tests"} {
		if err := os.MkdirAll(filepath.Join(dir, "scratch", "closed"), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(filepath.Join(dir, "scratch", "closed"), 0); err != nil {
			t.Fatal(err)
		}
		for name, content := range map[string]string{"owner": owner, "id": filepath.Base(dir), "lock": ""} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	removed, err := b.Sweep(testContext(t), "tests", func(id sandbox.InstanceID) bool { return id == "00000000deadbeef" })
	if err != nil || removed != 1 {
		t.Fatalf("removed %d, %v", removed, err)
	}
	if exists(dead) || !exists(foreign) || !exists(kept) {
		t.Errorf("dead %v foreign %v kept %v", exists(dead), exists(foreign), exists(kept))
	}
	if out, _ := output(t, living, "r", "print(1)"); out != "1\n" {
		t.Errorf("the living instance: %q", out)
	}
	// t.TempDir cannot remove a closed directory.
	for _, dir := range []string{foreign, kept} {
		if err := os.Chmod(filepath.Join(dir, "scratch", "closed"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
}

// TestRootHandedOver: a workspace that was a container's, whose code is another user's, is
// worked in all the same. As root, code has no power over what belongs to others.
func TestRootHandedOver(t *testing.T) {
	if os.Getuid() != 0 {
		return
	}
	dir := filepath.Join(t.TempDir(), "workspace")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "kept.txt"), []byte("kept"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := files.Give(dir, 65532, 65532); err != nil {
		t.Fatal(err)
	}
	i := openIn(t, testBackend(t), testBase(), dir)
	said, _ := output(t, i, "handed", "print(open('kept.txt').read(), open('new.txt', 'w').write('x'))")
	if said != "kept 1\n" {
		t.Errorf("it said %q", said)
	}
}
