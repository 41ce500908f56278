package load

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"brig/orchestrator/api"
	"brig/orchestrator/sandbox/sandboxtest"
)

// longVar asks for the full numbers, which take minutes.
const longVar = "BRIG_TEST_LONG"

func long() bool { return os.Getenv(longVar) != "" }

var built struct {
	sync.Once
	path string
	err  error
}

func TestMain(m *testing.M) { os.Exit(testMain(m)) }

func testMain(m *testing.M) int {
	dir, err := os.MkdirTemp("", "brig-load-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	built.path = filepath.Join(dir, "brig")
	return m.Run()
}

// program is the brig that these tests start, as it ships.
func program(t *testing.T) string {
	t.Helper()
	built.Do(func() {
		out, err := exec.Command("go", "build", "-o", built.path, "brig/cmd/brig").CombinedOutput()
		if err != nil {
			built.err = fmt.Errorf("%w: %s", err, out)
		}
	})
	if built.err != nil {
		t.Fatal(built.err)
	}
	return built.path
}

// brig is one that stays, in directories of its own. It can be killed and started again.
type brig struct {
	t       *testing.T
	dir     string
	env     []string
	runtime string
	cmd     *exec.Cmd
	said    *bytes.Buffer
	ended   chan struct{}
}

// newBrig makes the directories of one for that backend; settings are variables.
func newBrig(t *testing.T, backend string, settings ...string) *brig {
	t.Helper()
	if backend == "docker" {
		if out, err := exec.Command("docker", "version", "--format", "{{.Server.Version}}").CombinedOutput(); err != nil {
			sandboxtest.Skip(t, "a container engine and its command", strings.TrimSpace(string(out)))
		}
	}
	dir, err := os.MkdirTemp("", "brig-l-") // short: there are sockets in it
	if err != nil {
		t.Fatal(err)
	}
	b := &brig{t: t, dir: dir, runtime: filepath.Join(dir, "r", "brig")}
	b.env = []string{
		"PATH=" + os.Getenv("PATH"), "LC_ALL=C.UTF-8", "HOME=" + dir, "BRIG_SERVER_LISTEN=127.0.0.1:0", "BRIG_DOCKER_TIER=core",
		"BRIG_EXECUTION_BACKEND=" + backend, "BRIG_EXECUTION_FALLBACK=none",
	}
	for name, at := range map[string]string{"CONFIG_HOME": "c", "STATE_HOME": "s", "DATA_HOME": "d", "CACHE_HOME": "h", "RUNTIME_DIR": "r"} {
		b.env = append(b.env, "XDG_"+name+"="+filepath.Join(dir, at))
		if err := os.Mkdir(filepath.Join(dir, at), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"DOCKER_HOST", "LD_LIBRARY_PATH"} {
		if v := os.Getenv(name); v != "" {
			b.env = append(b.env, name+"="+v)
		}
	}
	if python, _, _ := strings.Cut(os.Getenv("BRIG_TEST_PYTHONS"), string(os.PathListSeparator)); python != "" {
		b.env = append(b.env, "BRIG_HOST_PYTHON="+python)
	}
	b.env = append(b.env, settings...)
	t.Cleanup(func() {
		b.kill()
		if left := b.orphans(); len(left) > 0 {
			t.Errorf("processes are left:\n%s", strings.Join(left, "\n"))
		}
		if backend == "docker" {
			b.containers()
		}
		if t.Failed() && b.said != nil {
			t.Logf("brig said:\n%s", b.said.Bytes())
			if log, err := os.ReadFile(filepath.Join(dir, "s", "brig", "log", "brig.log")); err == nil {
				t.Logf("the end of its log:\n%s", log[max(0, len(log)-8<<10):])
			}
		}
		for range 50 { // what was killed may still be on its way out
			if os.RemoveAll(dir) == nil {
				break
			}
			time.Sleep(20 * time.Millisecond)
		}
	})
	return b
}

// up starts it and waits until it answers.
func (b *brig) up() {
	b.t.Helper()
	b.said = &bytes.Buffer{}
	b.cmd = exec.Command(program(b.t), "up", "--headless")
	b.cmd.Dir, b.cmd.Env, b.cmd.Stdout, b.cmd.Stderr = b.dir, b.env, b.said, b.said
	if err := b.cmd.Start(); err != nil {
		b.t.Fatal(err)
	}
	ended, cmd := make(chan struct{}), b.cmd
	b.ended = ended
	go func() { _ = cmd.Wait(); close(ended) }() // how it ended is in cmd.ProcessState
	for until := time.Now().Add(2 * time.Minute); ; time.Sleep(10 * time.Millisecond) {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		e, err := api.Find(ctx, b.runtime, api.Operator)
		if err == nil {
			c := api.NewClient(e)
			_, err = c.Status(ctx)
			c.Close()
		}
		cancel()
		if err == nil {
			return
		}
		select {
		case <-ended:
			b.t.Fatalf("brig ended: %v\n%s", cmd.ProcessState, b.said.Bytes())
		default:
		}
		if time.Now().After(until) {
			b.t.Fatalf("brig does not answer: %v\n%s", err, b.said.Bytes())
		}
	}
}

// client asks with one of the two credentials, through its socket.
func (b *brig) client(role api.Role) *api.Client {
	b.t.Helper()
	return api.NewClient(api.Endpoint{Socket: filepath.Join(b.runtime, string(role)+".sock")})
}

// kill ends it as a crash does, at once.
func (b *brig) kill() {
	if b.cmd == nil {
		return
	}
	_ = b.cmd.Process.Kill()
	<-b.ended
	b.cmd = nil
}

// down ends it as its user does, who wants nothing to be left.
func (b *brig) down() {
	b.t.Helper()
	_ = b.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-b.ended:
	case <-time.After(2 * time.Minute):
		b.t.Errorf("brig does not end when it is told to\n%s", b.stacks())
		b.kill()
	}
	b.cmd = nil
}

// stacks has brig tell what it does, which ends it.
func (b *brig) stacks() string {
	_ = b.cmd.Process.Signal(syscall.SIGABRT)
	<-b.ended
	return b.said.String()
}

// orphans are what is left of sessions when there is no brig any more.
func (b *brig) orphans() []string {
	for until := time.Now().Add(20 * time.Second); ; time.Sleep(100 * time.Millisecond) {
		found := b.processes()
		if len(found) == 0 || time.Now().After(until) {
			return found
		}
	}
}

// processes are those of sessions: they hold files of this brig's directories. Those in
// containers are told by the engine.
func (b *brig) processes() (found []string) {
	all, _ := filepath.Glob("/proc/[0-9]*")
	for _, at := range all {
		pid, _ := strconv.Atoi(filepath.Base(at))
		if b.cmd != nil && pid == b.cmd.Process.Pid {
			continue
		}
		command, _ := os.ReadFile(filepath.Join(at, "cmdline"))
		place, _ := os.Readlink(filepath.Join(at, "cwd"))
		mounts, _ := os.ReadFile(filepath.Join(at, "mountinfo"))
		if bytes.Contains(command, []byte(b.dir+"/")) || strings.HasPrefix(place, b.dir+"/") || bytes.Contains(mounts, []byte(b.dir+"/")) {
			found = append(found, filepath.Base(at)+" "+strings.ReplaceAll(string(command), "\x00", " "))
		}
	}
	return found
}

// containers fails for those that are left, and removes them.
func (b *brig) containers() {
	out, err := exec.Command("docker", "ps", "-a", "--no-trunc", "--filter", "label=dev.brig.owner", "--format", "{{.ID}} {{.Status}} {{.Mounts}}").Output()
	if err != nil {
		b.t.Errorf("list containers: %v", err)
	}
	for line := range strings.Lines(string(out)) {
		if id, _, _ := strings.Cut(line, " "); strings.Contains(line, b.dir+"/") {
			b.t.Errorf("a container is left: %s", line)
			_ = exec.Command("docker", "rm", "-f", id).Run()
		}
	}
}

// figures are what a process takes.
type figures struct {
	rss, heap           int64 // bytes
	files, tasks, calls int   // descriptors, threads, goroutines
}

func (f figures) String() string {
	return fmt.Sprintf("%d MiB resident, %d KiB heap, %d descriptors, %d threads, %d goroutines", f.rss>>20, f.heap>>10, f.files, f.tasks, f.calls)
}

var heapLine = regexp.MustCompile(`# HeapAlloc = (\d+)`)

// measure asks for the heap after a collection, and looks at the process.
func (b *brig) measure() (f figures) {
	b.t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", b.cmd.Process.Pid))
	if err != nil {
		b.t.Fatal(err)
	}
	for line := range strings.Lines(string(status)) {
		fields := strings.Fields(line)
		switch {
		case strings.HasPrefix(line, "VmRSS:"):
			kib, _ := strconv.ParseInt(fields[1], 10, 64)
			f.rss = kib << 10
		case strings.HasPrefix(line, "Threads:"):
			f.tasks, _ = strconv.Atoi(fields[1])
		}
	}
	fds, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", b.cmd.Process.Pid))
	if err != nil {
		b.t.Fatal(err)
	}
	f.files = len(fds)
	if m := heapLine.FindStringSubmatch(b.page("/debug/pprof/heap?gc=1&debug=1")); m != nil {
		f.heap, _ = strconv.ParseInt(m[1], 10, 64)
	}
	if first, _, _ := strings.Cut(b.page("/debug/pprof/goroutine?debug=1"), "\n"); strings.Contains(first, "total ") {
		f.calls, _ = strconv.Atoi(first[strings.Index(first, "total ")+6:])
	}
	return f
}

// page is what the operator's socket answers to GET.
func (b *brig) page(path string) string {
	b.t.Helper()
	c := http.Client{Transport: &http.Transport{DialContext: b.dial(api.OperatorSocket), DisableKeepAlives: true}, Timeout: time.Minute}
	answer, err := c.Get("http://localhost" + path)
	if err != nil {
		b.t.Errorf("%s: %v", path, err)
		return ""
	}
	defer answer.Body.Close()
	var text bytes.Buffer
	_, _ = text.ReadFrom(answer.Body)
	if answer.StatusCode != 200 {
		b.t.Errorf("%s: %d %s", path, answer.StatusCode, &text)
	}
	return text.String()
}

// percentile of sorted durations.
func percentile(all []time.Duration, p float64) time.Duration {
	if len(all) == 0 {
		return 0
	}
	slices.Sort(all)
	return all[min(len(all)-1, int(float64(len(all))*p))]
}
