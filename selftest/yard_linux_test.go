package selftest

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func yardOptions(t *testing.T) Options {
	t.Helper()
	dir := t.TempDir()
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Fatal(err)
	}
	own := map[string]string{}
	for _, name := range []string{"state", "config", "runtime", "data", "cache"} {
		own[name] = filepath.Join(dir, "own", name, "brig")
	}
	home := filepath.Join(dir, "home")
	if err := os.MkdirAll(filepath.Join(home, "thing"), 0o700); err != nil {
		t.Fatal(err)
	}
	return Options{Root: filepath.Join(dir, "run", "selftest"), Own: own, Home: home, Python: python, Environ: os.Environ()}
}

func mustYard(t *testing.T, o Options) *yard {
	t.Helper()
	y, err := openYard(o)
	if err != nil {
		t.Fatal(err)
	}
	return y
}

// yardProbes is one probe of each way to be seen.
func yardProbes() []Probe {
	return []Probe{
		{ID: "l-tcp4", Witness: Listener},
		{ID: "l-tcp6", Witness: Listener},
		{ID: "l-udp", Witness: Listener},
		{ID: "l-machine", Witness: Listener},
		{ID: "l-unix", Witness: Listener},
		{ID: "l-abstract", Witness: Listener},
		{ID: "l-dgram", Witness: Listener},
		{ID: "l-fifo", Witness: Listener},
		{ID: "c-read", Witness: Canary},
		{ID: "c-list", Witness: Canary},
		{ID: "c-chmod", Witness: Canary},
		{ID: "c-create", Witness: Canary},
		{ID: "c-own-read", Witness: Canary},
		{ID: "c-own-write", Witness: Canary},
		{ID: "c-shm", Witness: Canary},
		{ID: "c-public", Witness: Canary},
		{ID: "c-env", Witness: Canary},
		{ID: "c-fd", Witness: Canary},
		{ID: "c-brig-mem", Witness: Canary},
		{ID: "c-brig-fd", Witness: Canary},
		{ID: "d-environ", Witness: Decoy},
		{ID: "d-mem", Witness: Decoy},
		{ID: "d-sysv", Witness: Decoy},
		{ID: "d-signal", Witness: Decoy, Trace: "signal:USR1"},
		{ID: "d-nice", Witness: Decoy, Trace: "nice"},
		{ID: "d-nofile", Witness: Decoy, Trace: "nofile"},
		{ID: "d-oom", Witness: Decoy, Trace: "oom"},
		{ID: "d-sched", Witness: Decoy, Trace: "sched"},
		{ID: "d-exit", Witness: Decoy, Trace: "exit"},
	}
}

const yardAttempts = `
import ctypes, json, os, resource, signal, socket, sys
def line(id): return b"brig-selftest %s %s\n" % (T["token"].encode(), id.encode())
def stream(id, family, address):
    s = socket.socket(family, socket.SOCK_STREAM); s.settimeout(1); s.connect(address); s.sendall(line(id)); assert s.recv(8) == b"ok\n"
def udp(id):
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.settimeout(1); s.sendto(line(id), tuple(T["udp4"])); assert s.recv(8) == b"ok\n"
def dgram(id): socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM).sendto(line(id), T["dgram"])
def fifo(id): os.write(os.open(T["fifo"], os.O_WRONLY | os.O_NONBLOCK), line(id))
def out(id, name="canary"): return os.path.join(T["outside"], id, name)
def pid(id): return T["decoys"][id]["pid"]
def own(name): return os.path.join(T["own"]["state"], "selftest-" + T["token"], name)
def memory(id):
    with open("/proc/%d/mem" % pid(id), "rb", 0) as f: return os.pread(f.fileno(), T["decoy"]["length"], T["decoy"]["address"]).decode()
def sysv(id):
    libc = ctypes.CDLL(None); libc.shmat.restype = ctypes.c_void_p
    return ctypes.string_at(libc.shmat(T["sysv"], None, 0x1000), len(T["secret"])).decode()
def machine(id):
    for address in T["machine_tcp"]: stream(id, socket.AF_INET6 if ":" in address[0] else socket.AF_INET, tuple(address)); break
    else: stream(id, socket.AF_INET, tuple(T["tcp4"]))
A = {
 "l-tcp4": lambda i: stream(i, socket.AF_INET, tuple(T["tcp4"])), "l-tcp6": lambda i: stream(i, socket.AF_INET6, tuple(T["tcp6"])) if T["tcp6"] else stream(i, socket.AF_INET, tuple(T["tcp4"])),
 "l-udp": udp, "l-machine": machine, "l-unix": lambda i: stream(i, socket.AF_UNIX, T["sockets"]["engine"]), "l-abstract": lambda i: stream(i, socket.AF_UNIX, "\0" + T["abstract"]),
 "l-dgram": dgram, "l-fifo": fifo,
 "c-read": lambda i: open(out(i)).read(), "c-list": lambda i: " ".join(os.listdir(os.path.dirname(out(i)))), "c-chmod": lambda i: os.chmod(out(i), 0o640),
 "c-create": lambda i: open(out(i, "new"), "w").close(), "c-own-read": lambda i: open(own("canary")).read(), "c-own-write": lambda i: open(own(i), "w").close(),
 "c-shm": lambda i: open(T["shm"]).read(), "c-public": lambda i: open(os.path.join(T["public"], "canary")).read(), "c-env": lambda i: os.environ[T["env"]], "c-fd": lambda i: os.pread(T["fd"], 100, 0).decode(),
 "c-brig-mem": lambda i: os.pread(os.open("/proc/%d/mem" % T["brig"]["pid"], os.O_RDONLY), T["brig"]["length"], T["brig"]["address"]).decode(),
 "c-brig-fd": lambda i: open("/proc/%d/fd/%d" % (T["brig"]["pid"], T["fd"])).read(),
 "d-environ": lambda i: open("/proc/%d/environ" % pid(i)).read(), "d-mem": memory, "d-sysv": sysv,
 "d-signal": lambda i: os.kill(pid(i), signal.SIGUSR1), "d-nice": lambda i: os.setpriority(os.PRIO_PROCESS, pid(i), 15),
 "d-nofile": lambda i: resource.prlimit(pid(i), resource.RLIMIT_NOFILE, (20, 20)), "d-oom": lambda i: open("/proc/%d/oom_score_adj" % pid(i), "w").write("900"),
 "d-sched": lambda i: os.sched_setscheduler(pid(i), os.SCHED_BATCH, os.sched_param(0)), "d-exit": lambda i: os.kill(pid(i), signal.SIGKILL),
}
for i in IDS:
    try: r = [True, A[i](i) or ""]
    except Exception as e: r = [False, repr(e)]
    print(json.dumps([i] + r), flush=True)
`

// tryAll runs the attempts of those probes as a control and returns what was seen of all probes.
func tryAll(t *testing.T, y *yard, p *plot, tried []Probe) map[string]Sight {
	t.Helper()
	told, err := json.Marshal(p.targets())
	if err != nil {
		t.Fatal(err)
	}
	ids := []string{}
	for _, pr := range tried {
		ids = append(ids, pr.ID)
	}
	list, _ := json.Marshal(ids)
	source := fmt.Sprintf("import json\nT = json.loads(%q)\nIDS = %s\n%s", told, list, yardAttempts)
	out, err := y.control(context.Background(), []byte(source), p)
	if err != nil {
		t.Fatal(err)
	}
	said := map[string]Outcome{}
	for line := range strings.Lines(string(out)) {
		var row [3]any
		if err := json.Unmarshal([]byte(line), &row); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		o := Outcome{Ran: true}
		o.OK, _ = row[1].(bool)
		o.Detail, _ = row[2].(string)
		id, _ := row[0].(string)
		if !o.OK {
			t.Errorf("%s: %s", id, o.Detail)
		}
		said[id] = o
	}
	seen := map[string]Sight{}
	for _, pr := range yardProbes() {
		seen[pr.ID] = p.sight(pr, said[pr.ID])
	}
	return seen
}

func TestEveryWayToBeSeen(t *testing.T) {
	o := yardOptions(t)
	y := mustYard(t, o)
	p, err := y.plot("control", yardProbes())
	if err != nil {
		t.Fatal(err)
	}
	for id, s := range tryAll(t, y, p, yardProbes()) {
		if s != SeenYes {
			t.Errorf("%s: %s", id, s)
		}
	}
	if err := y.close(); err != nil {
		t.Error(err)
	}
	nothingLeft(t, o, y)
}

// TestEachAttemptAlone tells that what one attempt did is not seen as another's.
func TestEachAttemptAlone(t *testing.T) {
	y := mustYard(t, yardOptions(t))
	defer y.close()
	// Each pair of probes is told apart by a digit of their numbers, both ways.
	for digit := 1; digit < len(yardProbes()); digit *= 2 {
		for _, set := range []bool{true, false} {
			p, err := y.plot("fresh", yardProbes())
			if err != nil {
				t.Fatal(err)
			}
			var tried []Probe
			in := map[string]bool{}
			for n, pr := range yardProbes() {
				if (n&digit != 0) == set {
					tried = append(tried, pr)
					in[pr.ID] = true
				}
			}
			for id, s := range tryAll(t, y, p, tried) {
				if (s == SeenYes) != in[id] {
					t.Errorf("after %v: %s is seen: %s", in, id, s)
				}
			}
		}
	}
}

// inUse: a run that lives, of whatever process, has it: it is locked, or somebody
// listens on a socket in it.
func inUse(path string) bool {
	if f, err := os.OpenFile(path, os.O_RDWR, 0); err == nil {
		defer f.Close()
		return unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) != nil
	}
	if f, err := os.OpenFile(filepath.Join(path, holdLock), os.O_RDWR, 0); err == nil {
		defer f.Close()
		return unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) != nil
	}
	sockets, _ := filepath.Glob(path + "/*")
	for _, s := range sockets {
		if c, err := net.Dial("unix", s); err == nil {
			_ = c.Close()
			return true
		}
	}
	_, err := os.Lstat(path)
	return err != nil // it is gone meanwhile
}

// nothingLeft looks for everything that a yard makes.
func nothingLeft(t *testing.T, o Options, y *yard) {
	t.Helper()
	for _, dir := range append([]string{o.Root}, o.Own["state"], o.Own["config"], filepath.Dir(filepath.Dir(o.Own["state"]))) {
		if _, err := os.Lstat(dir); err == nil {
			t.Errorf("%s is left", dir)
		}
	}
	for _, pattern := range []string{"/dev/shm/" + strayName + "*", filepath.Join(os.TempDir(), strayName+"*")} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range found {
			if inUse(path) {
				continue
			}
			time.Sleep(settleTime) // another run may just have made it, or be about to remove it
			if !inUse(path) {
				t.Errorf("%s is left", path)
			}
		}
	}
	for _, v := range os.Environ() {
		if strings.HasPrefix(v, "BRIG_ST_") {
			t.Errorf("%s is left in the environment", v)
		}
	}
	if pids := withMark(t, runMark+y.token); len(pids) != 0 {
		t.Errorf("processes %v are left", pids)
	}
}

func withMark(t *testing.T, mark string) []string {
	t.Helper()
	all, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, path := range all {
		if environ, err := os.ReadFile(path); err == nil && strings.Contains("\x00"+string(environ), "\x00"+mark+"\x00") {
			found = append(found, path)
		}
	}
	return found
}

func TestTwoYardsAtOnce(t *testing.T) {
	o := yardOptions(t)
	for _, dir := range o.Own {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	first := mustYard(t, o)
	p, err := first.plot("control", yardProbes())
	if err != nil {
		t.Fatal(err)
	}
	second := mustYard(t, o)
	q, err := second.plot("control", yardProbes())
	if err != nil {
		t.Fatal(err)
	}
	for id, s := range tryAll(t, first, p, yardProbes()) {
		if s != SeenYes {
			t.Errorf("with another run beside it, %s: %s", id, s)
		}
	}
	if err := first.close(); err != nil {
		t.Error(err)
	}
	for id, s := range tryAll(t, second, q, yardProbes()) {
		if s != SeenYes {
			t.Errorf("after the end of another run, %s: %s", id, s)
		}
	}
	if err := second.close(); err != nil {
		t.Error(err)
	}
	for _, dir := range o.Own {
		if err := os.Remove(dir); err != nil {
			t.Error(err)
		}
	}
	if err := os.RemoveAll(filepath.Dir(filepath.Dir(o.Own["state"]))); err != nil {
		t.Error(err)
	}
	nothingLeft(t, o, first)
	nothingLeft(t, o, second)
}

func TestOnlyItsUserMayLook(t *testing.T) {
	old := syscall.Umask(0)
	defer syscall.Umask(old)
	o := yardOptions(t)
	y := mustYard(t, o)
	defer y.close()
	p, err := y.plot("fresh", yardProbes())
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{o.Root, filepath.Join(o.Own["state"], ownName+p.token)} {
		err := filepath.Walk(dir, func(path string, info os.FileInfo, err error) error {
			if err == nil && info.Mode()&os.ModeSocket == 0 && info.Mode().Perm()&0o077 != 0 {
				t.Errorf("%s is %s", path, info.Mode())
			}
			return err
		})
		if err != nil {
			t.Error(err)
		}
	}
}

func TestLongPathsOfSockets(t *testing.T) {
	o := yardOptions(t)
	o.Root = filepath.Join(o.Root, strings.Repeat("long", 25))
	y := mustYard(t, o)
	p, err := y.plot("control", yardProbes())
	if err != nil {
		t.Fatal(err)
	}
	if s := tryAll(t, y, p, []Probe{{ID: "l-unix"}, {ID: "l-dgram"}}); s["l-unix"] != SeenYes || s["l-dgram"] != SeenYes {
		t.Error(s)
	}
	if err := y.close(); err != nil {
		t.Error(err)
	}
	nothingLeft(t, Options{Root: o.Root, Own: o.Own}, y)
}

func TestControlIsEnded(t *testing.T) {
	y := mustYard(t, yardOptions(t))
	defer y.close()
	p, err := y.plot("control", []Probe{{ID: "any"}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	source := "import os, time\nprint('before', flush=True)\nif os.fork() == 0:\n os.setsid()\n if os.fork(): os._exit(0)\nwhile True: time.sleep(9)\n"
	began := time.Now()
	out, err := y.control(ctx, []byte(source), p)
	if err == nil || string(out) != "before\n" || time.Since(began) > 5*time.Second {
		t.Errorf("got %q, %v after %s", out, err, time.Since(began))
	}
	for deadline := time.Now().Add(2 * time.Second); len(withMark(t, runMark+y.token)) > 1 && time.Now().Before(deadline); {
		time.Sleep(10 * time.Millisecond)
	}
	// The decoy is the one that stays.
	if pids := withMark(t, runMark+y.token); len(pids) != 1 {
		t.Errorf("processes %v are left", pids)
	}
}
