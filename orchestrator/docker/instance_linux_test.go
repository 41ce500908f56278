package docker

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"image/png"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"brig/images"
	"brig/orchestrator/sandbox"
	"brig/orchestrator/wire"
)

func TestStandardTierAnalysesACSV(t *testing.T) {
	b := engineBackend(t, images.Standard)
	workspace := t.TempDir()
	const rows = 120_000
	var text strings.Builder
	text.WriteString("region,month,amount\n")
	sums := map[string]int{}
	random := rand.New(rand.NewPCG(1, 2))
	regions := []string{"north", "south", "east", "west"}
	for range rows {
		region, amount := regions[random.IntN(len(regions))], random.IntN(1000)
		sums[region] += amount
		fmt.Fprintf(&text, "%s,%d,%d\n", region, 1+random.IntN(12), amount)
	}
	if err := os.WriteFile(filepath.Join(workspace, "sales.csv"), []byte(text.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	base := coreBase()
	base.Image = string(images.Standard)
	i := session(t, b, base, workspace)
	o := ok(t, i, `
import pandas as pd, matplotlib.pyplot as plt, pyarrow.parquet, openpyxl
frame = pd.read_csv("sales.csv")
sums = frame.groupby("region")["amount"].sum()
for region, total in sums.items():
    print(region, total)
frame.groupby("month")["amount"].mean().plot.bar()
plt.savefig("months.png")
frame.to_parquet("sales.parquet")
sums.to_frame().to_excel("sums.xlsx")
`)
	for region, sum := range sums {
		if !strings.Contains(o.stdout.String(), fmt.Sprintf("%s %d\n", region, sum)) {
			t.Errorf("no %s %d in %q", region, sum, o.stdout.String())
		}
	}
	if o.stderr.Len() > 0 {
		t.Errorf("stderr %q", o.stderr.String())
	}
	figures := 0
	for _, d := range o.displays {
		for _, part := range d.Data {
			if part.MIME == "image/png" {
				figures++
				if _, err := png.Decode(bytes.NewReader(part.Data)); err != nil {
					t.Errorf("the figure is no PNG: %v", err)
				}
			}
		}
	}
	if figures != 1 {
		t.Errorf("%d figures arrived", figures)
	}
	for _, name := range []string{"months.png", "sales.parquet", "sums.xlsx"} {
		if info, err := os.Stat(filepath.Join(workspace, name)); err != nil || info.Size() == 0 {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestInsideTheContainer tries what must fail, and beside it what must not.
func TestInsideTheContainer(t *testing.T) {
	b := engineBackend(t, images.Core)
	i := session(t, b, coreBase(), t.TempDir())
	o := ok(t, i, `
import ctypes, os, pathlib, socket, subprocess, threading
def attempt(name, f):
    try:
        print(name, "ok" if f() is None else "ok")
    except OSError as e:
        print(name, type(e).__name__)
def serve():
    s = socket.create_server(("127.0.0.1", 0))
    c = socket.create_connection(s.getsockname()); s.accept(); c.close()
attempt("loopback", serve)
attempt("outbound", lambda: socket.create_connection(("192.0.2.1", 80), timeout=2))
attempt("workspace", lambda: pathlib.Path("/workspace/x").write_text("x"))
attempt("scratch", lambda: pathlib.Path("/scratch/x").write_text("x"))
attempt("root", lambda: pathlib.Path("/x").write_text("x"))
attempt("runner", lambda: pathlib.Path("/opt/brig/start.py").write_text("x"))
attempt("netlink", lambda: socket.socket(socket.AF_NETLINK, socket.SOCK_RAW).close())
attempt("packet", lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW).close())
attempt("vsock", lambda: socket.socket(40, socket.SOCK_STREAM).close())
attempt("alg", lambda: socket.socket(socket.AF_ALG, socket.SOCK_SEQPACKET).close())
attempt("setuid", lambda: os.setuid(0))
attempt("mknod", lambda: os.mknod("/scratch/null", 0o20600, os.makedev(1, 3)))
attempt("subprocess", lambda: subprocess.run(["true"], check=True))
from concurrent.futures import ProcessPoolExecutor
attempt("pool", lambda: list(ProcessPoolExecutor(2).map(abs, [-1, 2])))
print("hostname", socket.gethostname(), socket.gethostbyname("sandbox"), socket.gethostbyname("localhost"))
print("user", os.getuid(), os.getgid(), os.getgroups())
`)
	for _, want := range []string{
		"loopback ok", "outbound OSError", "workspace ok", "scratch ok", "root OSError", "runner PermissionError|runner OSError",
		"netlink PermissionError", "packet PermissionError", "vsock PermissionError", "alg PermissionError",
		"setuid PermissionError", "mknod PermissionError", "subprocess ok", "pool ok", "hostname sandbox 127.0.0.1 127.0.0.1",
	} {
		found := false
		for _, either := range strings.Split(want, "|") {
			found = found || strings.Contains(o.stdout.String(), either+"\n")
		}
		if !found {
			t.Errorf("no %q in\n%s%s", want, o.stdout.String(), o.stderr.String())
		}
	}
}

// TestWorkspaceOwnership: what brig put there code can change, and the other way round.
func TestWorkspaceOwnership(t *testing.T) {
	b := engineBackend(t, images.Core)
	workspace := t.TempDir()
	if err := os.MkdirAll(filepath.Join(workspace, "given"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(workspace, "given/file"), []byte("from brig"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/etc/passwd", filepath.Join(workspace, "planted")); err != nil {
		t.Fatal(err)
	}
	before, err := os.Stat("/etc/passwd")
	if err != nil {
		t.Fatal(err)
	}
	i := session(t, b, coreBase(), workspace)
	o := ok(t, i, `
p = "/workspace/given/file"
print(open(p).read())
open(p, "w").write("from code")
open("/workspace/new", "w").write("new")`)
	if o.stdout.String() != "from brig\n" {
		t.Errorf("stdout %q", o.stdout.String())
	}
	for name, want := range map[string]string{"given/file": "from code", "new": "new"} {
		if got, err := os.ReadFile(filepath.Join(workspace, name)); err != nil || string(got) != want {
			t.Errorf("%s holds %q, %v", name, got, err)
		}
	}
	if after, err := os.Stat("/etc/passwd"); err != nil || after.Mode() != before.Mode() || owner(after) != owner(before) {
		t.Error("a planted link was followed")
	}
}

func TestRefusals(t *testing.T) {
	b := engineBackend(t, images.Core)
	for _, c := range []struct {
		name, code string
		change     func(*sandbox.Base)
	}{
		{"tier", "image-unknown", func(b *sandbox.Base) { b.Image = "everything" }},
		{"runtime", "runtime-missing", func(b *sandbox.Base) { b.Runtime = "no-such-runtime" }},
		{"network", "network-not-offered", func(b *sandbox.Base) { b.Network = sandbox.NetworkAllow }},
		{"memory", "memory-too-small", func(b *sandbox.Base) { b.Limits.Memory = 1 << 20 }},
	} {
		t.Run(c.name, func(t *testing.T) {
			base := coreBase()
			c.change(&base)
			_, err := b.Prepare(limited(t), base, t.TempDir())
			var u *sandbox.Unavailable
			if !errors.As(err, &u) || u.Code != c.code || u.Remedy == "" || !u.Settings {
				t.Errorf("prepare: %v", err)
			}
			// What a start refuses, the forecast refuses in the same words.
			if _, forecast := b.Capabilities(limited(t), base); forecast == nil || forecast.Error() != u.Error() {
				t.Errorf("forecast %v, start %v", forecast, err)
			}
		})
	}
	if n := len(containersOf(t, b)); n != 0 {
		t.Errorf("%d containers are left", n)
	}
}

// TestMissingBase: nothing is pulled; the message ends with the command to type.
func TestMissingBase(t *testing.T) {
	engineBackend(t, images.Core)
	base := "brig-test.invalid/none:" + token()
	trust := images.New(images.Options{Base: base})
	b := newBackend(t, func(o *Options) { o.Images = trust })
	// The trusted image does not need its base any more, so ask for a build.
	_, err := trust.Rebuild(limited(t), b, images.Choice{Tier: images.Core}, nil)
	var missing *images.MissingBaseError
	if !errors.As(err, &missing) || !strings.HasSuffix(err.Error(), "docker pull "+base) {
		t.Errorf("%v", err)
	}
}

// TestThroughSSH puts a program that forwards to the engine's socket where ssh
// would be: the whole way of a remote engine, without a bound directory.
func TestThroughSSH(t *testing.T) {
	local := engineBackend(t, images.Core)
	e, err := local.current(limited(t))
	if err != nil {
		t.Fatal(err)
	}
	socket, isUnix := strings.CutPrefix(e.endpoint, "unix://")
	if !isUnix {
		t.Fatalf("the engine of this machine is at %s", e.endpoint)
	}
	fakeSSH(t, "export "+verb+"=dial-stdio BRIG_DOCKER_TEST_SOCKET="+socket+"; exec "+os.Args[0])
	b := newBackend(t, func(o *Options) { o.Endpoint = "ssh://somebody@somewhere" })
	i := session(t, b, coreBase(), t.TempDir())
	in := bytes.Repeat([]byte("0123456789abcdef"), 20_000)
	if _, err := i.Call(limited(t), wire.Control{Op: wire.OpPut, Args: wire.ControlArgs{Path: "in"}}, bytes.NewReader(in), nil); err != nil {
		t.Fatal(err)
	}
	ok(t, i, "open('out', 'wb').write(open('in', 'rb').read()[::-1])")
	var out bytes.Buffer
	if _, err := i.Call(context.WithoutCancel(t.Context()), wire.Control{Op: wire.OpGet, Args: wire.ControlArgs{Path: "out"}}, nil, &out); err != nil {
		t.Fatal(err)
	}
	if out.Len() != len(in) || out.Bytes()[0] != 'f' {
		t.Errorf("%d bytes came back", out.Len())
	}
	p := i.Posture()
	if len(p.Weakened()) != 0 || p.Layer(sandbox.DiskLimit).State != sandbox.Enforced {
		t.Errorf("posture: %v, disk %+v", p.Warnings(), p.Layer(sandbox.DiskLimit))
	}
	if !strings.Contains(strings.Join(p.Notes, "\n"), "files travel through the runner") {
		t.Errorf("notes: %v", p.Notes)
	}
}

// TestThroughTLS puts TLS in front of the engine's socket: ordinary requests and
// the attached stream both pass.
func TestThroughTLS(t *testing.T) {
	local := engineBackend(t, images.Core)
	e, err := local.current(limited(t))
	if err != nil {
		t.Fatal(err)
	}
	socket := strings.TrimPrefix(e.endpoint, "unix://")
	secure := httptest.NewTLSServer(http.NotFoundHandler()) // for its certificate
	defer secure.Close()
	l, err := tls.Listen("tcp", "127.0.0.1:0", secure.TLS.Clone())
	if err != nil {
		t.Fatal(err)
	}
	var forwarding sync.WaitGroup
	defer forwarding.Wait()
	defer l.Close()
	forwarding.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			forwarding.Go(func() { forward(conn, socket) })
		}
	})
	dir := certificates(t, secure)
	b := newBackend(t, func(o *Options) {
		o.Env = env("DOCKER_HOST", "tcp://"+l.Addr().String(), "DOCKER_TLS_VERIFY", "1", "DOCKER_CERT_PATH", dir)
	})
	i := session(t, b, coreBase(), t.TempDir())
	if o := ok(t, i, "print('x' * 100_000)"); o.stdout.Len() != 100_001 {
		t.Errorf("%d bytes came back", o.stdout.Len())
	}
	if err := errors.Join(i.Close(limited(t)), b.Close(limited(t))); err != nil {
		t.Error(err)
	}
}

func forward(conn net.Conn, socket string) {
	defer conn.Close()
	to, err := net.Dial("unix", socket)
	if err != nil {
		return
	}
	defer to.Close()
	go func() { // ends with the connections
		_, _ = io.Copy(to, conn)
		_ = to.Close()
	}()
	_, _ = io.Copy(conn, to)
}
