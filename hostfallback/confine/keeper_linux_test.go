//go:build brig_keeper

package confine

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// The supervisor of macOS, working here: everything but the answers of the system
// is the program that a Mac runs. The program that applies profiles is played by
// this binary, which asks the evaluator of the tests.

const (
	keeperRole = "keeper-supervise"
	assistRole = "keeper-assist"
	applyRole  = "keeper-apply"
)

var _ = keeperDispatch()

// keeperDispatch makes this process one of the roles: mode is how the machine behaves.
func keeperDispatch() struct{} {
	if len(os.Args) >= 3 {
		mode := os.Args[2]
		switch os.Args[1] {
		case keeperRole:
			os.Exit(keep(elsewhere{mode}))
		case assistRole:
			os.Exit(assist(elsewhere{mode}))
		case applyRole:
			fmt.Fprintln(os.Stderr, apply(mode, os.Args[3:]))
			os.Exit(71)
		}
	}
	return struct{}{}
}

// elsewhere is a machine for the keeper that is none of Apple's.
type elsewhere struct{ mode string }

func (e elsewhere) helper() (string, []string, error) {
	program, err := os.Executable()
	return program, []string{"brig", assistRole, e.mode}, err
}

func (e elsewhere) sandboxExec() string {
	if e.mode == "missing" {
		return "/nonexistent/sandbox-exec"
	}
	return filepath.Join(os.TempDir(), "sandbox-exec-"+e.mode)
}

func (elsewhere) become(fd, as int) error { return unix.Dup3(fd, as, 0) }
func (elsewhere) release() string         { return "macOS 99" }
func (elsewhere) measure() string         { return MeasureResident }

// limits: this kernel counts threads, also those of the program that plays
// sandbox-exec, so a small number of processes can only be watched.
func (e elsewhere) limits() []limit {
	all := []limit{{"core", unix.RLIMIT_CORE}, {"nofile", unix.RLIMIT_NOFILE}, {"fsize", unix.RLIMIT_FSIZE}, {"nproc", unix.RLIMIT_NPROC}}
	if e.mode == "watched" {
		return all[:3]
	}
	return all
}

func (elsewhere) forks() (<-chan struct{}, func(int)) { return nil, nil }

func (elsewhere) table() []relative {
	var out []relative
	for _, pid := range processes() {
		info, err := os.Stat("/proc/" + strconv.Itoa(pid))
		if err != nil || info.Sys().(*syscall.Stat_t).Uid != uint32(os.Getuid()) {
			continue
		}
		number := func(n int) int { v, _ := strconv.Atoi(statField(pid, n)); return v }
		out = append(out, relative{
			pid: pid, parent: number(1), group: number(2), session: number(3), start: int64(number(19)), zombie: statField(pid, 0) == "Z",
		})
	}
	return out
}

func (elsewhere) marked(pid int, entry string) bool {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
	return err == nil && slices.Contains(strings.Split(string(raw), "\x00"), entry)
}

// inside: who was in a profile has a number of its instance as long as it lives,
// namely a limit that programs inherit and cannot raise.
func (e elsewhere) inside(pid int, may, _ string) (bool, bool) {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/limits", pid))
	return err == nil && strings.Contains(string(raw), fmt.Sprintf(" %d ", tokenOf(may))), e.mode == "members"
}

func tokenOf(scratch string) uint64 {
	sum := fnv.New32a()
	_, _ = sum.Write([]byte(scratch)) // it never fails
	return 1<<33 + uint64(sum.Sum32())
}

func (elsewhere) usage(pid int) (int64, int) {
	p := look(pid)
	threads, _ := strconv.Atoi(statusField(p.status, "Threads:"))
	return p.kilobytes("VmRSS:"), threads
}

// apply is sandbox-exec: -p profile -D name=value … command.
func apply(mode string, args []string) error {
	if mode == "nested" {
		return errors.New("sandbox-exec: sandbox_apply: Operation not permitted")
	}
	nodes, err := readProfile(args[1])
	if err != nil || mode == "broken" {
		return fmt.Errorf("sandbox-exec: <input string>: unbound variable: %v", err)
	}
	var params []Param
	for args = args[2:]; args[0] == "-D"; args = args[2:] {
		name, value, _ := strings.Cut(args[1], "=")
		params = append(params, Param{name, value})
	}
	if args[0] == "/bin/cat" && len(args) > 1 && mode != "open" {
		status := 0
		for _, file := range args[1:] {
			raw, err := os.ReadFile(file)
			if err != nil {
				return err
			}
			if evaluate(nodes, params, true, request{op: "file-read-data", path: "/private" + file}) {
				fmt.Print(string(raw))
			} else {
				status = 1
			}
		}
		os.Exit(status)
	}
	for _, p := range params {
		if p.Name == "PLACE_1" {
			n := tokenOf(strings.TrimPrefix(p.Value, "/private"))
			if err := unix.Setrlimit(unix.RLIMIT_STACK, &unix.Rlimit{Cur: 8 << 20, Max: n}); err != nil {
				return err
			}
		}
	}
	return syscall.Exec(args[0], args, os.Environ())
}

// kept is a supervisor that was started by a test.
type kept struct {
	t       *testing.T
	cmd     *exec.Cmd
	control *os.File
	events  *bufio.Reader
	plan    Plan
}

func keepPlan(t *testing.T, command ...string) Plan {
	t.Helper()
	home, err := os.MkdirTemp("/tmp", "keeper-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = RemoveTree(home) })
	p := Plan{
		Token: filepath.Base(home), Command: command, Home: home,
		Env: []string{"PATH=/usr/bin:/bin", Marker + "=" + filepath.Base(home), "WORK=" + home + "/workspace"},
		Policy: Policy{
			Mode: ModeBestEffort, Network: NetworkDeny, Workspace: home + "/workspace", Scratch: home + "/scratch",
			Limits: Limits{OpenFiles: 64, FileSize: 1 << 20, Processes: 200},
		},
	}
	for _, d := range []string{p.Workspace, p.Scratch} {
		if err := os.Mkdir(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	return p
}

func keepStart(t *testing.T, mode string, plan Plan) (*kept, Event) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	script := fmt.Sprintf("#!/bin/sh\nexec '%s' %s %s \"$@\"\n", self, applyRole, mode)
	name := elsewhere{mode}.sandboxExec()
	if mode != "missing" {
		fresh := name + plan.Token
		if err := errors.Join(os.WriteFile(fresh, []byte(script), 0o700), os.Rename(fresh, name)); err != nil {
			t.Fatal(err)
		}
	}
	controlR, controlW, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	statusR, statusW, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	extra, err := os.Open("/etc/passwd") // a descriptor that must not get through
	if err != nil {
		t.Fatal(err)
	}
	k := &kept{t: t, control: controlW, events: bufio.NewReader(statusR), plan: plan}
	k.cmd = exec.Command(self, keeperRole, mode)
	k.cmd.Env = []string{"TMPDIR=" + os.TempDir()}
	k.cmd.Stderr = os.Stderr
	k.cmd.ExtraFiles = []*os.File{controlR, statusW, extra}
	if err := k.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for _, f := range []*os.File{controlR, statusW, extra} {
		_ = f.Close() // the child has it
	}
	t.Cleanup(func() { _ = controlW.Close(); _ = k.cmd.Wait(); _ = statusR.Close() })
	if err := json.NewEncoder(controlW).Encode(plan); err != nil {
		t.Fatal(err)
	}
	return k, k.next()
}

func (k *kept) next() Event {
	k.t.Helper()
	line, err := k.events.ReadBytes('\n')
	if err != nil {
		k.t.Fatalf("no event: %v", err)
	}
	var e Event
	if err := json.Unmarshal(line, &e); err != nil {
		k.t.Fatal(err)
	}
	return e
}

// living are processes with the mark of a plan, or that a file of its workspace names.
func (k *kept) living() []int {
	var out []int
	names, _ := filepath.Glob(k.plan.Workspace + "/pid-*")
	for _, n := range names {
		pid, _ := strconv.Atoi(strings.TrimPrefix(filepath.Base(n), "pid-"))
		if state := statField(pid, 0); state != "" && state != "Z" {
			out = append(out, pid)
		}
	}
	return out
}

func (k *kept) wait(n int) []int {
	k.t.Helper()
	for range 500 {
		if out := k.living(); len(out) == n {
			return out
		}
		time.Sleep(10 * time.Millisecond)
	}
	k.t.Fatalf("there are %v, not %d", k.living(), n)
	return nil
}

func TestKeeperStarts(t *testing.T) {
	t.Parallel()
	plan := keepPlan(t, "/bin/sh", "-c", "exit 7")
	k, e := keepStart(t, "good", plan)
	if e.Started == nil {
		t.Fatalf("did not start: %+v", e.Failed)
	}
	r := e.Started.Report
	if !slices.Equal(r.Kept, []int{0, 1, 2}) || r.Closed == 0 {
		t.Errorf("descriptors kept %v, closed %d", r.Kept, r.Closed)
	}
	if r.Limits["nofile"] != 64 || r.Limits["fsize"] != 1<<20 || r.Limits["core"] != 0 || r.Limits["nproc"] < 200 {
		t.Errorf("limits %v", r.Limits)
	}
	if _, data := r.Limits["data"]; data {
		t.Error("a limit of memory was set")
	}
	profile, params := plan.Seatbelt()
	s := r.Seatbelt
	if s == nil || !s.Applied || s.Hash != SeatbeltHash(profile) || s.Parameters != len(params) || s.Version != SeatbeltVersion || s.Measure != MeasureResident {
		t.Errorf("seatbelt %+v", s)
	}
	if !slices.Equal(r.Variables, []string{Marker, "PATH", "WORK"}) || r.Kernel != "macOS 99" {
		t.Errorf("variables %v, kernel %s", r.Variables, r.Kernel)
	}
	if e := k.next(); e.Ended == nil || e.Ended.Cause != EndSelf || e.Ended.Status != 7 {
		t.Errorf("ended %+v", e.Ended)
	}
	_ = k.cmd.Wait()
	if _, err := os.Stat(plan.Home); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the directory of the instance is left: %v", err)
	}
}

// TestKeeperTells looks at every way in which a Mac may have no working profile.
func TestKeeperTells(t *testing.T) {
	t.Parallel()
	for mode, code := range map[string]string{
		"missing": CodeSeatbeltMissing, "nested": CodeSeatbeltNested, "broken": CodeSeatbeltProfile, "open": CodeSeatbeltOpen,
	} {
		for _, check := range []bool{false, true} {
			plan := keepPlan(t, "/bin/true")
			plan.CheckOnly = check
			_, e := keepStart(t, mode, plan)
			if e.Started == nil {
				t.Fatalf("%s: %+v", mode, e.Failed)
			}
			s := e.Started.Report.Seatbelt
			if s.Applied || s.Code != code || s.Members {
				t.Errorf("%s: %+v, want %s", mode, s, code)
			}
			if (mode == "nested" || mode == "broken") && s.Said == "" {
				t.Errorf("%s: what sandbox-exec said is not told", mode)
			}
		}
	}
	for mode, members := range map[string]bool{"good": false, "members": true} {
		plan := keepPlan(t, "/nonexistent/python")
		plan.CheckOnly = true
		_, e := keepStart(t, mode, plan)
		if e.Started == nil || !e.Started.Report.Seatbelt.Applied || e.Started.Report.Seatbelt.Members != members {
			t.Errorf("%s: a forecast is %+v", mode, e)
		}
	}
	plan := keepPlan(t, "/bin/true")
	plan.Mode = ModeOff
	if _, e := keepStart(t, "open", plan); e.Started == nil || e.Started.Report.Seatbelt.Code != CodeOff || len(e.Started.Report.Limits) < 4 {
		t.Errorf("off: %+v", e.Started)
	}
	plan = keepPlan(t, "/nonexistent/python")
	if _, e := keepStart(t, "nested", plan); e.Failed == nil || e.Failed.Stage != StageExec {
		t.Errorf("a runner that is not there: %+v", e)
	}
}

// remember makes a shell note its process.
const remember = `: > "$WORK/pid-$$"; `

func TestKeeperEndsTrees(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		mode, script string
		processes    int
	}{
		"child":      {"good", `sh -c '` + remember + `sleep 99; :' & ` + remember + `sleep 99; :`, 2},
		"session":    {"good", `setsid sh -c '` + remember + `sleep 99; :' & ` + remember + `sleep 99; :`, 2},
		"daemon":     {"good", `(setsid sh -c '` + remember + `sleep 99; :' &) ; ` + remember + `sleep 99; :`, 2},
		"grandchild": {"good", `(setsid sh -c 'setsid sh -c "` + strings.ReplaceAll(strings.ReplaceAll(remember, `"`, `\"`), "$", `\$`) + `sleep 99; :" & sleep 99' &) ; ` + remember + `sleep 99; :`, 2},
		"hidden":     {"members", `sleep 0.1; (env -i WORK="$WORK" setsid sh -c '` + remember + `sleep 99; :' &) ; ` + remember + `sleep 99; :`, 2},
		"forks":      {"good", `export C='` + remember + `rm "$WORK/pid-$$"; setsid sh -c "$C" & exit'; sh -c "$C" & ` + remember + `sleep 99; :`, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k, e := keepStart(t, c.mode, keepPlan(t, "/bin/sh", "-c", c.script))
			if e.Started == nil {
				t.Fatalf("did not start: %+v", e.Failed)
			}
			if want := c.mode == "members"; e.Started.Report.Seatbelt.Members != want {
				t.Errorf("members is %v", !want)
			}
			var ours []int
			if name == "forks" {
				time.Sleep(200 * time.Millisecond)
			} else {
				ours = k.wait(c.processes)
			}
			_ = k.control.Close()
			ended := k.next().Ended
			if ended == nil || ended.Cause != EndOrdered || len(ended.Left) > 0 || ended.Killed == 0 {
				t.Errorf("ended %+v", ended)
			}
			_ = k.cmd.Wait()
			for _, pid := range processes() {
				if (elsewhere{}).marked(pid, Marker+"="+k.plan.Token) && statField(pid, 0) != "Z" {
					t.Errorf("process %d lives", pid)
				}
			}
			for _, pid := range ours { // the directory that named them is gone
				if state := statField(pid, 0); state != "" && state != "Z" {
					t.Errorf("process %d lives", pid)
					_ = unix.Kill(pid, unix.SIGKILL)
				}
			}
		})
	}
}

func TestKeeperLimits(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		script string
		limits Limits
		cause  EndCause
	}{
		"memory":    {`exec python3 -c 'import time; x = bytearray(200 << 20); time.sleep(99)'`, Limits{Memory: 100 << 20}, EndMemory},
		"processes": {`for i in 1 2 3 4 5 6 7 8; do setsid sleep 99 & done; sleep 99`, Limits{Processes: 5}, EndProcesses},
		"disk":      {`cd "$WORK"; for i in 1 2 3 4 5; do dd if=/dev/zero of=$i bs=1M count=1 2>/dev/null; done; sleep 99`, Limits{Disk: 2 << 20}, EndDisk},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			plan := keepPlan(t, "/bin/sh", "-c", c.script)
			plan.Limits = c.limits
			k, e := keepStart(t, "watched", plan)
			if e.Started == nil {
				t.Fatalf("did not start: %+v", e.Failed)
			}
			if ended := k.next().Ended; ended == nil || ended.Cause != c.cause || len(ended.Left) > 0 || ended.Used <= ended.Limit {
				t.Errorf("ended %+v, want %s", ended, c.cause)
			}
		})
	}
}

// TestKeeperKilled ends the supervisor itself: what it kept is found by its mark.
func TestKeeperKilled(t *testing.T) {
	t.Parallel()
	k, e := keepStart(t, "good", keepPlan(t, "/bin/sh", "-c", `(setsid sh -c '`+remember+`sleep 99; :' &) ; `+remember+`sleep 99; :`))
	if e.Started == nil {
		t.Fatalf("did not start: %+v", e.Failed)
	}
	ours := k.wait(2)
	_ = k.cmd.Process.Kill()
	_ = k.cmd.Wait()
	if left := rescueWith(elsewhere{}, k.plan.Token, e.Started.PID); len(left) > 0 {
		t.Errorf("left %v", left)
	}
	for _, pid := range ours {
		if state := statField(pid, 0); state != "" && state != "Z" {
			t.Errorf("process %d lives", pid)
		}
	}
}
