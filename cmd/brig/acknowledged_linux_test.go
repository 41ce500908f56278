package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"brig/orchestrator/api"
	"brig/orchestrator/sandbox/sandboxtest"
)

// callMade is one system call of a trace, by the numbers of the lines where it
// begins and ends.
type callMade struct {
	name, path, text string
	begin, end       int
}

var (
	callLine = regexp.MustCompile(`^(\d+) +(?:<\.\.\. (\w+) resumed>|(\w+)\()(.*)$`)
	callPath = regexp.MustCompile(`^\d+<([^>]*)>`)
)

func callsOf(trace string) []callMade {
	var all []callMade
	open := map[string]int{} // by thread
	for n, line := range strings.Split(trace, "\n") {
		m := callLine.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		if at, waits := open[m[1]]; m[2] != "" && waits {
			all[at].end = n
			delete(open, m[1])
			continue
		}
		c := callMade{name: m[3], text: m[4], begin: n, end: n}
		if p := callPath.FindStringSubmatch(m[4]); p != nil {
			c.path = p[1]
		}
		if strings.HasSuffix(line, "<unfinished ...>") {
			open[m[1]], c.end = len(all), 1<<60
		}
		all = append(all, c)
	}
	return all
}

// find is the first call of one of those names whose path and text contain what is said.
func find(all []callMade, names, path, text string) (callMade, bool) {
	for _, c := range all {
		if strings.Contains(names, c.name+" ") && strings.Contains(c.path, path) && strings.Contains(c.text, text) {
			return c, true
		}
	}
	return callMade{}, false
}

// A real brig under a trace of its system calls: what it answers was on the disk
// before the answer went to the socket.
func TestAnswersAreOnTheDisk(t *testing.T) {
	strace, err := exec.LookPath("strace")
	if err != nil {
		sandboxtest.Skip(t, "strace on PATH", "none")
	}
	if os.Geteuid() != 0 {
		sandboxtest.Skip(t, "root, so that a trace follows into the host sandbox", "an ordinary user")
	}
	home, out := t.TempDir(), filepath.Join(t.TempDir(), "trace")
	dir := func(name string) string { return filepath.Join(home, name) }
	must(t, os.Mkdir(dir("run"), 0o700))
	var said bytes.Buffer
	cmd := exec.CommandContext(t.Context(), strace, "-f", "-y", "-qq", "-s", "20000", "-e", "signal=none", "-o", out,
		"-e", "trace=write,pwrite64,pwritev,fsync,fdatasync", copyOfTest(t), "up", "--headless")
	cmd.Env = append(os.Environ(), "HOME="+home, "XDG_CONFIG_HOME="+dir("config"), "XDG_STATE_HOME="+dir("state"), "XDG_DATA_HOME="+dir("data"),
		"XDG_CACHE_HOME="+dir("cache"), "XDG_RUNTIME_DIR="+dir("run"), "DOCKER_HOST=unix:///nonexistent/docker.sock", "BRIG_SERVER_LISTEN=none")
	cmd.Stdout, cmd.Stderr = &said, &said
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	must(t, cmd.Start())
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	for {
		if _, err := api.Find(ctx, filepath.Join(dir("run"), "brig"), api.Operator); err == nil {
			break
		}
		if ctx.Err() != nil {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
			t.Fatalf("brig up does not answer\n%s", said.String())
		}
		time.Sleep(20 * time.Millisecond)
	}
	client := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", filepath.Join(dir("run"), "brig", "operator.sock"))
	}}}
	ask := func(method, path, prefer, content, body string) {
		t.Helper()
		r, err := http.NewRequestWithContext(ctx, method, "http://localhost/v1"+path, strings.NewReader(body))
		must(t, err)
		r.Header.Set("Content-Type", content)
		if prefer != "" {
			r.Header.Set("Prefer", prefer)
		}
		a, err := client.Do(r)
		must(t, err)
		defer a.Body.Close()
		text, err := io.ReadAll(a.Body)
		if err != nil || a.StatusCode > 299 {
			t.Fatalf("%s %s: %s %v\n%s", method, path, a.Status, err, text)
		}
	}
	const json = "application/json"
	ask("POST", "/sessions", "", json, `{"name":"traced-session"}`)
	ask("POST", "/sessions/traced-session/runs", "", json, `{"code":"print('mark-'+'run')"}`)
	ask("POST", "/sessions/traced-session/runs", "respond-async", json, `{"code":"'mark-async'"}`)
	ask("PUT", "/sessions/traced-session/files/traced.csv", "", "application/octet-stream", "mark,file\n1,2\n")
	ask("PUT", "/sessions/traced-session/datasets/traced_table", "", json, `{"path":"traced.csv"}`)
	ask("POST", "/sessions/traced-session/token", "", json, ``)
	ask("POST", "/shutdown", "", json, ``)
	if err := cmd.Wait(); err != nil {
		t.Fatalf("brig up: %v\n%s", err, said.String())
	}

	trace, err := os.ReadFile(out)
	must(t, err)
	all := callsOf(string(trace))
	const writes = "write pwrite64 pwritev "
	for _, c := range []struct {
		what, path, text, answer string
		flushed                  bool
	}{
		{"what weakens a session", "/audit/audit-", `\"event\":\"bound\"`, `\"name\":\"traced-session\"`, true},
		{"the end of a run", "brig.db-wal", "mark-run", `\"text\":\"mark-run\\n\"`, true},
		{"the line about its end", "/audit/audit-", `\"cause\":\"ok\"`, `\"text\":\"mark-run\\n\"`, false},
		{"an accepted run", "brig.db-wal", "'mark-async'", "HTTP/1.1 202", true},
		{"a file", "/workspace/", `mark,file\n1,2`, `\"path\":\"traced.csv\"`, true},
		{"a dataset", "brig.db-wal", "traced_table", `\"name\":\"traced_table\"`, true},
		{"the line about a token", "/audit/audit-", `\"kind\":\"token\"`, `\"token\":`, true},
	} {
		written, was := find(all, writes, c.path, c.text)
		answer, answered := find(all, "write ", "socket:", c.answer)
		if !was || !answered || !strings.Contains(answer.text, "HTTP/1.1 2") {
			t.Errorf("%s: the trace shows that it was written: %v, and an answer: %v", c.what, was, answered)
			continue
		}
		flushed := false
		for _, f := range all {
			flushed = flushed || strings.Contains("fsync fdatasync", f.name) && f.path == written.path && f.begin > written.end && f.end < answer.begin
		}
		if written.end > answer.begin || c.flushed && !flushed {
			t.Errorf("%s was answered before it was safe: written at %d, answered at %d, flushed between: %v", c.what, written.end, answer.begin, flushed)
		}
	}
	if t.Failed() {
		keep := filepath.Join(os.TempDir(), fmt.Sprintf("brig-trace-%d", os.Getpid()))
		t.Logf("the trace is kept in %s: %v", keep, os.WriteFile(keep, trace, 0o600))
	}
}
