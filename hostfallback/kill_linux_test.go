package hostfallback

import (
	"bufio"
	"bytes"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"brig/orchestrator/sandbox"
	"brig/orchestrator/sandbox/sandboxtest"
	"brig/orchestrator/wire"
)

//go:embed testdata/clingers.py
var clingers string

// clinging are the ways in which processes try to outlive their instance.
func clinging() []string {
	return []string{"children", "setsid", "daemon", "chains", "deaf", "stopped", "stuck", "threads", "nameless"}
}

// killings are who is killed at once; nobody: the end is ordered.
func killings() []string {
	return []string{"", "brig", "supervisor", "runner", "brig+supervisor", "brig+runner", "supervisor+runner"}
}

// means are what ends a tree, each by itself.
func means() map[string]deathbed {
	return map[string]deathbed{
		"sweep":         {Lacks: "namespaces"}, // a kernel without clone3 starts nobody in a group
		"group":         {Mode: sandbox.ModeOff},
		"pid namespace": {Lacks: "group"},
		"all of them":   {},
	}
}

// deathbed is what the brig that is to be killed is told.
type deathbed struct {
	Dir       string
	Workspace string
	How       string // of clinging
	Marker    string
	Lacks     string
	Mode      sandbox.Mode
}

const deathbedEnv = "BRIG_TEST_DEATHBED"

// bystander is what it says when everything runs.
type bystander struct {
	Supervisor, Runner int
	Group, Process     bool // cgroup.kill is there; a process namespace is there
}

// TestDeathbed is the brig that TestKill starts: one instance, whose code starts
// what clings to life. It ends the instance in order when its input ends.
func TestDeathbed(t *testing.T) {
	var d deathbed
	if told := os.Getenv(deathbedEnv); told == "" {
		return
	} else if err := json.Unmarshal([]byte(told), &d); err != nil {
		t.Fatal(err)
	}
	b := inDirectory(t, d.Dir)
	if d.Lacks != "" {
		b.options.Executable = filepath.Join(d.Dir, poorPrefix+d.Lacks)
	}
	base := testBase()
	if d.Mode != "" {
		base.Mode = d.Mode
	}
	p, err := b.Prepare(testContext(t), base, d.Workspace)
	if err != nil {
		t.Fatal(err)
	}
	i, err := p.Bind(testContext(t), sandbox.Claim{ID: "left-1", Session: "left", Workspace: d.Workspace})
	if err != nil {
		t.Fatal(err)
	}
	started := i.(*instance).started
	said, err := json.Marshal(bystander{
		Supervisor: i.(*instance).process.handle.Pid, Runner: started.PID,
		Group: started.Report.Cgroup.Kill, Process: started.Report.Namespaces.Process.Applied,
	})
	if err != nil {
		t.Fatal(err)
	}
	fmt.Printf("runs %s\n", said)
	go func() {
		source := fmt.Sprintf("%s\ncling(%q, 'fifo', %q)", clingers, d.How, d.Marker)
		exit, err := i.Run(testContext(t), wire.Run{ID: "r", Source: []byte(source)}, func(e wire.Event) error {
			_, err := os.Stdout.Write(e.Data)
			return err
		})
		fmt.Printf("over %v %+v\n", err, exit.Exception)
	}()
	_, _ = io.Copy(io.Discard, os.Stdin) // its end is the order
	if err := i.Close(testContext(t)); err != nil {
		t.Fatal(err)
	}
	fmt.Println("closed in order")
}

// killing is one instance that is going to end.
type killing struct {
	bystander
	brig  *exec.Cmd
	order io.Closer // its end orders brig to end the instance
	lines *bufio.Scanner
	fifo  *os.File // the end that reads
	d     deathbed
}

// lay starts a brig with an instance. ready waits until everything clings.
func lay(t testing.TB, dir string, d deathbed, ready bool) *killing {
	t.Helper()
	workspace, err := os.MkdirTemp(dir, "workspace-")
	if err != nil {
		t.Fatal(err)
	}
	d.Dir, d.Workspace, d.Marker = dir, workspace, "brig-test-"+filepath.Base(workspace)+"-"+strconv.Itoa(os.Getpid())
	k := &killing{d: d}
	fifo := filepath.Join(workspace, "fifo")
	if err := unix.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	if k.fifo, err = os.OpenFile(fifo, os.O_RDONLY|unix.O_NONBLOCK, 0); err != nil {
		t.Fatal(err)
	}
	told, err := json.Marshal(d)
	if err != nil {
		t.Fatal(err)
	}
	k.brig = exec.Command("/proc/self/exe", "-test.run", "^TestDeathbed$")
	k.brig.Env = append(os.Environ(), deathbedEnv+"="+string(told))
	k.brig.Stderr = os.Stderr
	if k.order, err = k.brig.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := k.brig.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := k.brig.Start(); err != nil {
		t.Fatal(err)
	}
	k.lines = bufio.NewScanner(out)
	if err := json.Unmarshal([]byte(strings.TrimPrefix(k.await(t, "runs "), "runs ")), &k.bystander); err != nil {
		t.Fatal(err)
	}
	if ready {
		k.await(t, "clinging")
	}
	return k
}

func (k *killing) await(t testing.TB, word string) string {
	t.Helper()
	var said []string
	for k.lines.Scan() {
		if strings.HasPrefix(k.lines.Text(), word) {
			return k.lines.Text()
		}
		said = append(said, k.lines.Text())
		if strings.HasPrefix(k.lines.Text(), "over") {
			break
		}
	}
	k.bury()
	t.Fatalf("%s: never %q, but %q", k.d.How, word, said)
	return ""
}

// kill ends the instance by killing some of brig, supervisor and runner, or none
// and in order.
func (k *killing) kill(t testing.TB, whom string) {
	t.Helper()
	pids := map[string]int{"brig": k.brig.Process.Pid, "supervisor": k.Supervisor, "runner": k.Runner}
	if whom == "" {
		_ = k.order.Close() // it has one reader, who lives
		return
	}
	for _, name := range strings.Split(whom, "+") {
		if err := unix.Kill(pids[name], unix.SIGKILL); err != nil && !errors.Is(err, unix.ESRCH) {
			t.Fatal(err)
		}
	}
}

// gone waits until nothing is left and says how long that took.
func (k *killing) gone(t testing.TB, whom string) time.Duration {
	t.Helper()
	begin := time.Now()
	for {
		left := k.left(t)
		switch patience := time.Since(begin); {
		case left == "":
			return patience
		case patience > 10*time.Second:
			t.Errorf("%s, %q killed: left: %s", k.d.How, whom, left)
			return patience
		}
		time.Sleep(time.Millisecond)
	}
}

// left looks for the instance from outside: whoever holds the FIFO or the lock,
// has the marker among its arguments, or is one of those that were started.
func (k *killing) left(t testing.TB) string {
	t.Helper()
	var found []string
	polled := []unix.PollFd{{Fd: int32(k.fifo.Fd()), Events: unix.POLLIN}}
	if _, err := unix.Poll(polled, 0); err != nil && !errors.Is(err, unix.EINTR) {
		t.Fatal(err)
	}
	// Without any writer ever it shows neither.
	if polled[0].Revents&unix.POLLHUP == 0 && k.lingers() {
		found = append(found, "somebody holds the FIFO")
	}
	if f, err := os.Open(filepath.Join(k.d.Workspace, "clingers-lock")); err == nil {
		if unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) != nil {
			found = append(found, "somebody holds the lock")
		}
		_ = f.Close() // opened for the lock
	}
	for _, pid := range []int{k.Supervisor, k.Runner} {
		if alive(pid) {
			found = append(found, fmt.Sprintf("process %d", pid))
		}
	}
	if len(found) > 0 {
		return strings.Join(found, ", ") // the rest costs more to find
	}
	return marked(t, k.d.Marker)
}

// lingers says that somebody opened the FIFO at all.
func (k *killing) lingers() bool {
	_, err := os.Stat(filepath.Join(k.d.Workspace, "clingers-lock")) // made after that
	return err == nil
}

func alive(pid int) bool {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	state := bytes.TrimSpace(raw[bytes.LastIndexByte(raw, ')')+1:])
	return len(state) > 0 && state[0] != 'Z' && state[0] != 'X'
}

// marked lists the processes with marker among their arguments.
func marked(t testing.TB, marker string) string {
	t.Helper()
	lines, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, name := range lines {
		if line, err := os.ReadFile(name); err == nil && bytes.Contains(line, []byte(marker)) {
			found = append(found, filepath.Base(filepath.Dir(name))+" "+string(bytes.ReplaceAll(line, []byte{0}, []byte{' '})))
		}
	}
	return strings.Join(found, ", ")
}

// bury takes away what is left of the test itself.
func (k *killing) bury() {
	_ = k.order.Close()       // it may be closed
	_ = k.brig.Process.Kill() // it may have ended
	for k.lines.Scan() {      // until nobody can write any more
	}
	_ = k.brig.Wait()
	_ = k.fifo.Close()
	// Whoever holds what was made for this instance alone.
	fds, _ := filepath.Glob("/proc/[0-9]*/fd/*") // the pattern is right
	for _, fd := range fds {
		if target, err := os.Readlink(fd); err != nil || filepath.Dir(target) != k.d.Workspace {
			continue
		}
		if pid, err := strconv.Atoi(strings.Split(fd, "/")[2]); err == nil && pid != os.Getpid() {
			_ = unix.Kill(pid, unix.SIGKILL) // it may have ended
		}
	}
}

// poorNamed puts the names under which the brigs of a directory pretend to lack something.
func poorNamed(t testing.TB, dir string, all map[string]deathbed) {
	t.Helper()
	binary, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	names := []string{"rich"}
	for _, d := range all {
		if d.Lacks != "" {
			names = append(names, poorPrefix+d.Lacks)
		}
	}
	for _, name := range names {
		if err := os.WriteFile(filepath.Join(dir, name), binary, 0o700); err != nil {
			t.Fatal(err)
		}
	}
}

// TestKill: whoever is killed, nothing of an instance is left, whatever its
// processes did to stay. The long run does each a hundred times in a row.
func TestKill(t *testing.T) {
	needWhole(t)
	times := 1
	if os.Getenv("BRIG_TEST_LONG") != "" {
		times = 100
	}
	kinds := killings()
	dir := t.TempDir()
	poorNamed(t, dir, means())
	turn := rand.IntN(2 * len(kinds)) // so that many short runs see all
	for name, d := range means() {
		t.Run(name, func(t *testing.T) {
			var took samples
			for _, how := range clinging() {
				for range times {
					turn++
					whom := kinds[turn%len(kinds)]
					d := d
					d.How = how
					// Half of them while the instance is still at it.
					ready := turn%2 == 0
					k := lay(t, dir, d, ready)
					k.check(t, name)
					if !ready {
						time.Sleep(time.Duration(rand.IntN(60)) * time.Millisecond)
					}
					k.kill(t, whom)
					patience := k.gone(t, whom)
					if float64(patience)/1e6 > killAim {
						load, _ := os.ReadFile("/proc/loadavg") // a machine that is busy with others has longer ends
						t.Logf("%s, %q killed, clinging %v: nothing left after %s; load %s", how, whom, ready, patience, load)
					}
					took = append(took, float64(patience)/1e6)
					k.bury()
				}
			}
			slices.Sort(took)
			t.Logf("%d times; to nothing left: half of them within %.0f ms, all within %.0f ms", len(took), took.median(), took[len(took)-1])
		})
	}
	b := inDirectory(t, dir)
	for _, name := range entries(t, b.options.instances()) {
		old := time.Now().Add(-2 * freshFor) // or the sweep takes what was half removed for half made
		if err := os.Chtimes(filepath.Join(b.options.instances(), name), old, old); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := b.Sweep(testContext(t), "tests", func(sandbox.InstanceID) bool { return false }); err != nil || !empty(t, b.options.instances()) {
		t.Errorf("the sweep: %v, left %v", err, entries(t, b.options.instances()))
	}
}

// check sees to it that an instance has what the name of its means says.
func (k *killing) check(t testing.TB, name string) {
	t.Helper()
	want := map[string][2]bool{"sweep": {false, false}, "group": {true, false}, "pid namespace": {false, true}, "all of them": {true, true}}[name]
	if got := [2]bool{k.Group, k.Process}; got != want {
		k.bury()
		sandboxtest.Skip(t, fmt.Sprintf("a control group: %v, a process namespace: %v", want[0], want[1]), fmt.Sprint(got))
	}
}

// killAim is what the time to nothing left is measured against.
const killAim = 250.0 // milliseconds

// BenchmarkKill is the time from the kill to nothing left, for each means and each
// way to cling: half of the ends, the longest, and that as a part of the aim. Every
// way to kill has its turn; -benchtime 100x is a hundred ends in a row.
func BenchmarkKill(b *testing.B) {
	dir := b.TempDir()
	all := means()
	poorNamed(b, dir, all)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		var whole samples
		for _, how := range clinging() {
			b.Run(strings.ReplaceAll(name, " ", "-")+"/"+how, func(b *testing.B) {
				var took samples
				d := all[name]
				d.How = how
				for n := range max(b.N, len(killings())) {
					whom := killings()[n%len(killings())]
					k := lay(b, dir, d, true)
					k.check(b, name)
					k.kill(b, whom)
					took = append(took, float64(k.gone(b, whom))/1e6)
					k.bury()
				}
				took.judge(b)
				whole = append(whole, took...)
			})
		}
		b.Run(strings.ReplaceAll(name, " ", "-")+"/whole", func(b *testing.B) {
			if len(whole) > 0 {
				whole.judge(b)
			}
		})
	}
}

// judge reports what one row of the table says.
func (s samples) judge(b *testing.B) {
	over := slices.DeleteFunc(slices.Clone(s), func(ms float64) bool { return ms <= killAim })
	b.ReportMetric(0, "ns/op") // most of that is the start
	b.ReportMetric(float64(len(s)), "ends")
	b.ReportMetric(s.median(), "p50-ms")
	b.ReportMetric(slices.Max(s), "max-ms")
	b.ReportMetric(slices.Max(s)/killAim, "max/aim")
	b.ReportMetric(float64(len(over)), "above-aim")
}
