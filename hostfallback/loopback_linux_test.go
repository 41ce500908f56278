package hostfallback

import (
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"

	"brig/orchestrator/sandbox"
)

// dial is code that connects to an address and says what came of it.
func dial(address string) string {
	host, port, _ := net.SplitHostPort(address)
	return fmt.Sprintf(`
import socket
try:
    with socket.create_connection((%q, %s), 5) as c:
        c.settimeout(5)
        print("answer", c.recv(5).decode())
except OSError as e:
    print(type(e).__name__)
`, host, port)
}

// TestLoopback: each instance has a loopback of its own. What listens on the
// machine's is not there, nor what another instance has listening on its own.
func TestLoopback(t *testing.T) {
	needWhole(t)
	outside, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = outside.Close() }()
	heard := make(chan string, 16)
	go func() {
		for {
			c, err := outside.Accept()
			if err != nil {
				return
			}
			_, _ = c.Write([]byte("hello"))
			heard <- c.RemoteAddr().String()
			_ = c.Close()
		}
	}()
	address := outside.Addr().String()

	base := testBase()
	base.Network = sandbox.NetworkAllow
	if out, _ := output(t, openInstance(t, testBackend(t), base), "control", dial(address)); out != "answer hello\n" {
		t.Fatalf("control: %s", out)
	}
	<-heard

	base.Network = sandbox.NetworkLoopback
	b := testBackend(t)
	one, other := openInstance(t, b, base), openInstance(t, b, base)
	out, _ := output(t, one, "own", `
import socket, threading
server = socket.create_server(("127.0.0.1", 0))
def serve():
    while True:
        c, _ = server.accept()
        c.sendall(b"hello")
        c.close()
threading.Thread(target=serve, daemon=True).start()
print("127.0.0.1:%d" % server.getsockname()[1])
`)
	own := strings.TrimSpace(out)
	if out, _ := output(t, one, "self", dial(own)); out != "answer hello\n" {
		t.Errorf("the own server at %s: %s", own, out)
	}
	if out, _ := output(t, other, "other", dial(own)); out != "ConnectionRefusedError\n" {
		t.Errorf("the server of another instance: %s", out)
	}
	for _, i := range []sandbox.Instance{one, other} {
		if out, _ := output(t, i, "machine", dial(address)); out != "ConnectionRefusedError\n" {
			t.Errorf("the machine's server: %s", out)
		}
	}
	select {
	case from := <-heard:
		t.Errorf("%s reached the machine's server", from)
	default:
	}
	for _, id := range []sandbox.LayerID{sandbox.NetOutbound, sandbox.NetLoopback} {
		if l := one.Posture().Layer(id); l.State != sandbox.Enforced || !strings.Contains(l.Mechanism, "network namespace") {
			t.Errorf("%+v", l)
		}
	}
}

// TestNoLoopback: where there is no network of one's own, nothing is given
// instead of it, in a forecast as in earnest.
func TestNoLoopback(t *testing.T) {
	needWhole(t)
	base := testBase()
	base.Network = sandbox.NetworkLoopback
	for lacks, because := range map[string]string{"newnet": "network namespace", "namespaces": "user namespace"} {
		b := poorBackend(t, lacks)
		_, forecast := b.Capabilities(testContext(t), base)
		_, prepared := b.Prepare(testContext(t), base, t.TempDir())
		for _, err := range []error{forecast, prepared} {
			var refused *sandbox.Unavailable
			if !errors.As(err, &refused) || refused.Code != codeNoLoopback || refused.Remedy == "" || !strings.Contains(refused.Reason, because) {
				// Which switch refuses users depends on the machine.
				if lacks == "newnet" || refused == nil || refused.Code != codeNoLoopback {
					t.Errorf("%s: %v", lacks, err)
				}
			}
		}
		base := testBase()
		if i := openInstance(t, b, base); i.Posture().Layer(sandbox.NetLoopback).State != sandbox.Enforced {
			t.Errorf("%s: without a loopback there is less than there could be", lacks)
		}
	}
}
