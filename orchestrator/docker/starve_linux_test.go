package docker

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/containerd/errdefs"

	"brig/images"
)

// starving tries to keep the first process, which has the same user, from ever being
// scheduled again, so that even SIGKILL would wait: it is given the lowest policy, and one
// processor that a hundred programs spin on.
const starving = `
import os, resource
here = min(os.sched_getaffinity(0))
attempts = {
    "affinity": lambda: os.sched_setaffinity(1, {here}),
    "policy": lambda: os.sched_setscheduler(1, os.SCHED_IDLE, os.sched_param(0)),
    "parameter": lambda: os.sched_setparam(1, os.sched_param(0)),
    "priority": lambda: os.setpriority(os.PRIO_PROCESS, 1, 19),
    "priority of the user": lambda: os.setpriority(os.PRIO_USER, 0, 19),
    "limit": lambda: resource.prlimit(1, resource.RLIMIT_CPU, (1, 1)),
}
for name, attempt in attempts.items():
    try:
        attempt()
        print(name, "done")
    except PermissionError:
        print(name, "refused")
for _ in range(100):
    if os.fork() == 0:
        os.setsid()
        os.sched_setaffinity(0, {here})
        while True: pass
print("spinning", flush=True)
while True: pass
`

// TestStarvedRunner: a program that starves the runner is ended in time, and nothing of
// it is left. That the attempts get through without the filter is for TestSeccompRefuses
// to show: here they would leave a container that no engine can end.
func TestStarvedRunner(t *testing.T) {
	b := engineBackend(t, images.Core)
	base := coreBase()
	base.Limits.MilliCPU = 1000
	i := session(t, b, base, t.TempDir())
	ctx, cancel := context.WithTimeout(limited(t), 3*time.Second)
	defer cancel()
	began := time.Now()
	o := runUntil(ctx, i, starving, nil)
	if o.err == nil {
		t.Errorf("a program without an end ended: %+v", o.exit)
	}
	if got := o.stdout.String(); strings.Contains(got, "done") || strings.Count(got, "refused") != 6 || !strings.Contains(got, "spinning") {
		t.Errorf("it printed %q\n%s", got, o.stderr.String())
	}
	if err := i.Close(limited(t)); err != nil {
		t.Error(err)
	}
	if took := time.Since(began); took > 20*time.Second {
		t.Errorf("it took %s", took)
	}
	if _, err := i.box.engine.cli.ContainerInspect(limited(t), i.box.id); !errdefs.IsNotFound(err) {
		t.Errorf("the container is left: %v", err)
	}
}

// TestSeccompLeaves is what ordinary programs do with the calls that are narrowed.
func TestSeccompLeaves(t *testing.T) {
	i := session(t, engineBackend(t, images.Core), coreBase(), t.TempDir())
	for name, code := range map[string]string{
		"itself": `
import os, resource, signal, threading
os.sched_setaffinity(0, os.sched_getaffinity(0))
os.nice(1)
os.setpriority(os.PRIO_PROCESS, 0, 2)
os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (soft - 1, hard))
assert resource.prlimit(0, resource.RLIMIT_NOFILE) == (soft - 1, hard)
got = []
signal.signal(signal.SIGUSR2, lambda *_: got.append(1))
signal.pthread_kill(threading.get_ident(), signal.SIGUSR2)
os.kill(os.getpid(), signal.SIGUSR2)
signal.raise_signal(signal.SIGUSR2)
signal.pidfd_send_signal(os.pidfd_open(os.getpid()), signal.SIGUSR2)
assert len(got) == 4, got
import faulthandler, tempfile
with tempfile.TemporaryFile() as f:
    faulthandler.dump_traceback(f)
    assert f.tell()`,
		"http": `
import http.server, socket, threading, urllib.request
assert socket.getaddrinfo("localhost", 80, proto=socket.IPPROTO_TCP)
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200); self.end_headers(); self.wfile.write(b"hello")
    def log_message(self, *args): pass
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
threading.Thread(target=server.serve_forever, daemon=True).start()
assert urllib.request.urlopen("http://localhost:%d/" % server.server_port, timeout=10).read() == b"hello"
server.shutdown()
try:
    socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    raise AssertionError("datagrams")
except PermissionError: pass`,
		"asyncio": `
import asyncio
async def main():
    async def echo(reader, writer):
        writer.write(await reader.readline()); writer.close()
    server = await asyncio.start_server(echo, "localhost", 0)
    for s in server.sockets:
        reader, writer = await asyncio.open_connection(*s.getsockname()[:2])
        writer.write(b"hello\n")
        assert await reader.readline() == b"hello\n"
        writer.close()
    server.close()
    child = await asyncio.create_subprocess_exec("true")
    assert await child.wait() == 0
asyncio.run(main())`,
		"processes": `
import multiprocessing, socket
with multiprocessing.get_context("fork").Pool(2) as pool:
    assert pool.map(abs, [-1, 2]) == [1, 2]
a, b = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
a.send(b"x"); assert b.recv(1) == b"x"`,
	} {
		t.Run(name, func(t *testing.T) { ok(t, i, code) })
	}
}
