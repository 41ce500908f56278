package selftest_test

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"brig/orchestrator/sandbox"
	"brig/orchestrator/sandbox/sandboxtest"
	"brig/selftest"
)

// sabotage is a set of layers that one brig leaves out, and what the self-test has to
// make of it: what the posture says of its rows, what gets through, and what something
// else still stands before.
type sabotage struct {
	names   string
	rows    map[sandbox.LayerID]string // "off", or "partial code" where the layer is not gone
	through []string
	held    map[string]string // by probe: words of what is named
}

func off(ids ...sandbox.LayerID) map[sandbox.LayerID]string {
	rows := map[sandbox.LayerID]string{}
	for _, id := range ids {
		rows[id] = "off"
	}
	return rows
}

func partial(code string, id sandbox.LayerID, rows map[sandbox.LayerID]string) map[sandbox.LayerID]string {
	rows[id] = "partial " + code
	return rows
}

const (
	filter   = "system call filter"
	landlock = "Landlock"
	readOnly = "read-only mounts"
)

// containers are sabotages of a container's configuration. HOME is brig's.
func containers() []sabotage {
	return []sabotage{
		{"seccomp", off(sandbox.SyscallFilter), []string{"net-netlink", "net-vsock", "kernel-keyctl", "kernel-userns-unshare", "kernel-personality"}, map[string]string{
			"net-udp": "network of its own", "net-loopback-udp": "loopback of its own", "processes-ptrace": "process namespace", "processes-vm-read": "process namespace",
		}},
		{"nnp", off(sandbox.NoNewPrivs), []string{"no-new-privileges-flag"}, map[string]string{"no-new-privileges-set-id": "image without"}},
		{"caps", off(sandbox.Capabilities), nil, map[string]string{"capabilities-held": "no capabilities", "kernel-mount": filter}},
		{"network-host", partial("visible-network", sandbox.Seclusion, off(sandbox.NetOutbound, sandbox.NetLoopback, sandbox.UnixSockets)), []string{"net-tcp", "net-loopback-tcp", "net-loopback-own", "net-brig-running", "unix-abstract", "net-table"}, map[string]string{
			"net-udp": filter, "net-loopback-udp": filter, "unix-engine": "files of its own",
		}},
		{"network-bridge", off(sandbox.NetOutbound, sandbox.NetLoopback), []string{"net-tcp", "net-test-net"}, map[string]string{
			"net-udp": filter, "net-loopback-tcp": "loopback of its own", "unix-abstract": "abstract names of its own",
		}},
		{"rootfs", off(sandbox.FSWrite), []string{"files-elsewhere"}, map[string]string{"files-write": "file system of the session's own"}},
		{"pid-host", off(sandbox.Signals, sandbox.FSRead, sandbox.FSWrite, sandbox.Seclusion), []string{"processes-kill", "processes-end", "processes-cmdline", "processes-sigio", "processes-environ", "files-proc-root"}, map[string]string{
			"processes-ptrace": filter, "processes-vm-read": filter, "processes-nice": filter, "files-read": "file system of the session's own",
		}},
		{"ipc-host", partial("ipc-of-host", sandbox.FSRead, partial("ipc-of-host", sandbox.FSWrite, off(sandbox.UnixSockets))), []string{"processes-sysv", "files-shm", "files-shared-make", "files-shared-read"}, map[string]string{"unix-abstract": "of its own"}},
		{"masked-paths", off(sandbox.FSRead), nil, map[string]string{"files-read": "file system of the session's own", "processes-oom-score": "file system of the session's own"}},
		{"bind=HOME", partial("visible-files", sandbox.Seclusion, off(sandbox.FSRead, sandbox.FSWrite)), []string{"files-stat", "files-read", "files-read-home", "files-read-public", "files-write", "files-chmod", "files-unlink", "files-fifo", "brig-read-state", "brig-read-tokens"}, map[string]string{
			"files-link-in": "mounts", "files-rename-out": "mounts", "processes-kill": "process namespace", "files-watch": filter,
		}},
		{"bind=/dev/pts", off(sandbox.FSRead, sandbox.Devices), []string{"devices-terminal"}, map[string]string{"files-read": "file system of the session's own"}},
		{"env", off(sandbox.Environment), []string{"environment-variable"}, map[string]string{"inherited-fd": "closed before code starts"}},
		{"memory", off(sandbox.MemoryLimit), []string{"limit-memory"}, map[string]string{"limit-open-files": "limit of a process"}},
		{"pids", off(sandbox.ProcessLimit), nil, map[string]string{"limit-open-files": "limit of a process"}},
		{"cpu", off(sandbox.CPULimit), nil, map[string]string{"limit-memory": "control group"}},
		{"ulimits", partial("nofile-not-applied", sandbox.ProcessLimit, partial("fsize-not-applied", sandbox.DiskLimit, off())), []string{"limit-open-files", "limit-file-size"}, nil},

		{"network-host,seccomp", off(sandbox.NetOutbound, sandbox.SyscallFilter), []string{"net-udp", "net-mptcp", "net-loopback-udp", "net-raw"}, map[string]string{"unix-engine": "files of its own"}},
		{"pid-host,seccomp", off(sandbox.Signals, sandbox.SyscallFilter), []string{"processes-ptrace", "processes-vm-read", "processes-pidfd-getfd", "processes-nice", "processes-prlimit"}, map[string]string{
			"net-udp": "network of its own",
		}},
		{"memory,pids,ulimits", off(sandbox.MemoryLimit, sandbox.ProcessLimit), []string{"limit-memory", "limit-open-files"}, nil},
	}
}

// rooted are sabotages of a container that show only where brig is root.
func rooted() []sabotage {
	return []sabotage{
		{"user", off(sandbox.Capabilities), nil, map[string]string{"capabilities-held": "no capabilities", "capabilities-chown": "no capabilities"}},
		// Code is another user than root there, so only what everybody may read is open to it.
		{"bind=HOME", off(sandbox.FSRead), []string{"files-read-public", "files-list-public"}, map[string]string{"files-read": "modes of files"}},
		{"device=/dev/fuse", off(sandbox.Devices), nil, map[string]string{"devices-open": "modes of files"}},
		{"user,caps", off(sandbox.Capabilities), []string{"capabilities-held", "capabilities-chown", "capabilities-mknod"}, map[string]string{"kernel-mount": filter}},
		{"user,device=/dev/fuse", off(sandbox.Capabilities, sandbox.Devices), []string{"devices-open"}, nil},
	}
}

const (
	ownRoot    = "file system of the session's own"
	ownProcess = "process namespace"
	ownNetwork = "network of its own"
)

// hosts are sabotages of the helper and the supervisor: of each layer, of each part of
// the namespace sandbox, and of those together that cover each other.
func hosts() []sabotage {
	return append(append(hostLayers(), hostParts()...), hostCombinations()...)
}

func hostLayers() []sabotage {
	return []sabotage{
		// Everything that Landlock holds is held by the namespaces as well.
		{"landlock", nil, nil, map[string]string{
			"files-read": ownRoot, "files-write": ownRoot, "files-fifo": ownRoot, "files-chmod": ownRoot, "brig-read-state": ownRoot, "processes-kill": ownProcess,
			"devices-terminal": "/dev of the session's own", "net-tcp": filter, "unix-abstract": "abstract names of its own", "processes-mem": ownProcess, "processes-ptrace": filter,
		}},
		{"seccomp", partial("netns-lacks-vsock", sandbox.NetOutbound, off(sandbox.SyscallFilter, sandbox.KernelSurface)), []string{"net-netlink", "net-vsock", "kernel-keyctl", "kernel-userns-unshare"}, map[string]string{
			"net-udp": ownNetwork, "net-tcp": landlock, "net-mptcp": ownNetwork, "unix-engine": "files of its own", "unix-abstract": "abstract names of its own", "processes-nice": ownProcess,
			"processes-ptrace": ownProcess, "processes-sysv": "IPC namespace", "kernel-mount": landlock, "files-watch": ownRoot,
		}},
		{"namespaces", partial("not-asked", sandbox.FSWrite, off(sandbox.Seclusion)), []string{"files-chmod", "files-chown", "files-utime", "files-shm", "files-stat", "processes-cmdline", "net-table"}, map[string]string{
			"files-write": landlock, "files-rename": landlock, "processes-environ": landlock, "processes-kill": landlock, "files-watch": filter,
		}},
		{"nnp", off(sandbox.NoNewPrivs), []string{"no-new-privileges-flag"}, map[string]string{"no-new-privileges-set-id": "user namespace"}},
		{"caps", off(sandbox.Capabilities), []string{"capabilities-held"}, map[string]string{"kernel-mount": filter, "files-chmod": ownRoot}},
		{"env", off(sandbox.Environment), []string{"environment-variable"}, map[string]string{"inherited-fd": "closed before code starts"}},
		{"fds", off(sandbox.InheritedFDs), nil, map[string]string{"inherited-fd": "closed before code starts", "environment-variable": "fixed list"}},
		{"rlimits", off(sandbox.ProcessLimit, sandbox.MemoryLimit, sandbox.DiskLimit), []string{"limit-open-files", "limit-file-size"}, map[string]string{"limit-memory-tree": "watch over"}},
		{"watch", off(sandbox.MemoryLimit, sandbox.DiskLimit), []string{"limit-memory-tree", "limit-disk"}, map[string]string{"limit-open-files": "limit of a process"}},
		{"tree-kill", nil, nil, map[string]string{"tree-survive-close": "whole process tree"}},
	}
}

// hostParts leave out what hides something: what may be seen then is not yet open.
func hostParts() []sabotage {
	return []sabotage{
		{"root", partial("visible-files", sandbox.Seclusion, off()), []string{"files-stat", "files-chdir"}, map[string]string{
			"files-read": landlock, "files-write": readOnly, "files-chmod": readOnly, "unix-engine": filter, "processes-cmdline": ownProcess, "net-table": "network of the session's own", "files-shm": ownRoot,
		}},
		{"pidns", partial("visible-processes", sandbox.Seclusion, off()), []string{"processes-cmdline", "processes-affinity"}, map[string]string{
			"processes-kill": landlock, "processes-end": landlock, "processes-mem": landlock, "processes-environ": landlock, "processes-nice": filter, "files-stat": ownRoot,
		}},
		{"netns", partial("visible-network", sandbox.Seclusion, off()), []string{"net-table"}, map[string]string{
			"net-tcp": filter, "net-udp": filter, "net-loopback-own": filter, "unix-abstract": landlock, "unix-engine": "files of its own",
		}},
		{"proc", off(sandbox.Seclusion, sandbox.Signals), nil, map[string]string{"processes-kill": ownProcess, "processes-mem": "", "files-proc-root": ""}},
		{"shm", partial("not-applied", sandbox.FSRead, partial("not-applied", sandbox.FSWrite, off())), []string{"files-shm", "files-shared-read", "files-shared-make"}, map[string]string{"files-read": ownRoot, "files-read-public": ownRoot}},
		{"cgroup", nil, nil, map[string]string{"limit-memory-tree": "watch over", "tree-survive-close": "whole process tree"}},
	}
}

func hostCombinations() []sabotage {
	return []sabotage{
		{"landlock,root", partial("landlock-missing", sandbox.FSWrite, off(sandbox.FSRead, sandbox.Devices)), []string{"files-read", "files-fifo", "devices-terminal", "brig-read-state", "brig-read-tokens", "files-stat"}, map[string]string{
			"files-write": readOnly, "files-chmod": readOnly, "net-tcp": filter, "unix-engine": filter, "processes-kill": ownProcess, "processes-mem": ownProcess,
		}},
		{"landlock,pidns", partial("visible-processes", sandbox.Seclusion, off(sandbox.Signals)), []string{"processes-kill", "processes-end", "processes-sigio", "processes-cmdline"}, map[string]string{
			"processes-mem": "user namespace", "processes-ptrace": filter, "files-read": ownRoot, "files-proc-root": "user namespace",
		}},
		{"landlock,root,pidns", partial("visible-files-processes", sandbox.Seclusion, off(sandbox.FSRead, sandbox.Signals)), []string{"files-read", "processes-kill", "files-stat", "processes-cmdline"}, map[string]string{
			"files-write": readOnly, "processes-mem": "user namespace", "processes-nice": filter,
		}},
		{"seccomp,netns", partial("landlock-tcp-only", sandbox.NetOutbound, off(sandbox.SyscallFilter)), []string{"net-udp", "net-mptcp", "net-loopback-udp", "net-table"}, map[string]string{
			"net-tcp": landlock, "net-loopback-tcp": landlock, "unix-abstract": landlock, "unix-engine": "files of its own", "processes-nice": ownProcess,
		}},
		{"seccomp,root", partial("landlock-abi-7-lacks-unix", sandbox.UnixSockets, off(sandbox.SyscallFilter)), []string{"unix-engine", "unix-bus", "unix-brig-running", "unix-datagram", "files-watch"}, map[string]string{
			"files-write": readOnly, "unix-abstract": "", "net-udp": ownNetwork,
		}},
		{"seccomp,pidns", off(sandbox.SyscallFilter), []string{"processes-nice", "processes-ioprio", "processes-cmdline"}, map[string]string{"processes-kill": landlock, "processes-ptrace": landlock}},
		{"root,pidns,netns", off(sandbox.Seclusion), []string{"files-stat", "processes-cmdline", "net-table"}, map[string]string{
			"files-read": landlock, "files-chmod": readOnly, "processes-kill": landlock, "net-tcp": filter, "unix-engine": filter,
		}},
		{"landlock,namespaces", off(sandbox.FSWrite, sandbox.FSRead, sandbox.Seclusion), []string{"files-write", "files-rename", "processes-mem", "processes-environ", "brig-write-config"}, map[string]string{"processes-ptrace": filter, "net-tcp": filter}},
		{"landlock,seccomp", partial("netns-lacks-vsock", sandbox.NetOutbound, off(sandbox.SyscallFilter)), []string{"kernel-mount", "kernel-mq", "net-vsock"}, map[string]string{
			"files-write": ownRoot, "net-tcp": ownNetwork, "unix-abstract": "abstract names of its own", "processes-sysv": "IPC namespace",
		}},
		{"caps,seccomp", partial("capabilities-left", sandbox.FSWrite, off(sandbox.Capabilities, sandbox.SyscallFilter)), []string{"capabilities-held", "kernel-setns"}, map[string]string{"kernel-mount": landlock, "net-tcp": landlock}},
		{"pidns,tree-kill", off(sandbox.TreeKill), nil, map[string]string{"tree-survive-close": "whole process tree"}},
		{"rlimits,watch", off(sandbox.ProcessLimit, sandbox.MemoryLimit, sandbox.DiskLimit), []string{"limit-memory", "limit-memory-tree", "limit-file-size"}, nil},
		{
			"landlock,seccomp,namespaces,nnp", off(sandbox.FSWrite, sandbox.FSRead, sandbox.NetOutbound, sandbox.NoNewPrivs, sandbox.Ptrace),
			[]string{"files-write", "net-tcp", "processes-ptrace", "processes-vm-read", "no-new-privileges-set-id"},
			map[string]string{"inherited-fd": "closed before code starts"},
		},
	}
}

// TestSabotage: a brig that leaves layers out says so, and the self-test sees it: what
// nothing else covers gets through, and what something else covers is held by that.
func TestSabotage(t *testing.T) {
	b := buildSabotaged(t)
	t.Run("docker", func(t *testing.T) {
		b.engine(t)
		b.all(t, "docker", containers())
		if os.Geteuid() == 0 {
			root := b
			root.user = nil
			root.all(t, "docker", slices.DeleteFunc(rooted(), func(s sabotage) bool {
				_, err := os.Stat("/dev/fuse")
				return err != nil && strings.Contains(s.names, "/dev/fuse")
			}))
		}
	})
	t.Run("host", func(t *testing.T) {
		// The predictions are those of a machine that has all layers.
		whole := b.run(t, "host", b.home(t), sabotage{through: []string{"files-read"}})
		for _, id := range []sandbox.LayerID{sandbox.FSWrite, sandbox.Signals, sandbox.SyscallFilter} {
			if l := whole.Posture.Layer(id); l.State != sandbox.Enforced {
				sandboxtest.Skip(t, "Landlock with scopes, system call filters and user namespaces", l.Reason)
			}
		}
		b.all(t, "host", hosts())
	})
}

// TestNoSabotageShips: without its tag, nothing of the switch is in brig.
func TestNoSabotageShips(t *testing.T) {
	name := filepath.Join(t.TempDir(), "brig")
	compile(t, name)
	program, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(program, []byte("BRIG_SABOTAGE")) {
		t.Error("the brig that ships knows the variable")
	}
}

// sabotagedBrig is a brig with the switch, and who runs it: an ordinary user.
type sabotagedBrig struct {
	path string
	dir  string
	user *syscall.Credential // nil: this one
}

const someUser = 23456

func buildSabotaged(t *testing.T) sabotagedBrig {
	t.Helper()
	dir, err := os.MkdirTemp("", "brig-sabotage-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	b := sabotagedBrig{path: filepath.Join(dir, "brig"), dir: dir}
	compile(t, b.path, "-tags", "brig_sabotage")
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if os.Geteuid() == 0 {
		b.user = &syscall.Credential{Uid: someUser, Gid: someUser}
	}
	return b
}

func compile(t *testing.T, name string, flags ...string) {
	t.Helper()
	args := append(append([]string{"build", "-o", name}, flags...), "brig/cmd/brig")
	if out, err := exec.CommandContext(t.Context(), "go", args...).CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
}

// engine lets the user reach the engine, if there is one.
func (b *sabotagedBrig) engine(t *testing.T) {
	t.Helper()
	if out, err := exec.CommandContext(t.Context(), "docker", "version", "--format", "{{.Server.Version}}").CombinedOutput(); err != nil {
		sandboxtest.Skip(t, "a container engine", strings.TrimSpace(string(out)))
	}
	if b.user == nil {
		return
	}
	socket := strings.TrimPrefix(os.Getenv("DOCKER_HOST"), "unix://")
	if socket == "" {
		socket = "/var/run/docker.sock"
	}
	info, err := os.Stat(socket)
	if err != nil {
		sandboxtest.Skip(t, "an engine on a socket of this machine", err.Error())
	}
	group := *b.user
	group.Groups = []uint32{info.Sys().(*syscall.Stat_t).Gid}
	b.user = &group
}

// home is a directory of the user's.
func (b sabotagedBrig) home(t *testing.T) string {
	t.Helper()
	home, err := os.MkdirTemp(b.dir, "home-")
	if err != nil {
		t.Fatal(err)
	}
	if b.user != nil {
		if err := os.Chown(home, int(b.user.Uid), int(b.user.Gid)); err != nil {
			t.Fatal(err)
		}
	}
	return home
}

// all checks that everything holds in a whole brig, and each row of a table.
func (b sabotagedBrig) all(t *testing.T, backend string, table []sabotage) {
	t.Helper()
	home := b.home(t)
	// What gets through under a sabotage is held without it; what is held by another
	// layer then is held as well.
	var probes []string
	for _, s := range table {
		probes = append(append(probes, s.through...), s.probes()...)
	}
	whole := sabotage{held: map[string]string{}}
	for _, id := range probes {
		whole.held[id] = ""
	}
	for _, id := range decidedWithoutCapability() {
		delete(whole.held, id)
	}
	for _, s := range append([]sabotage{whole}, table...) {
		name := s.names
		if name == "" {
			name = "none"
		}
		t.Run(strings.ReplaceAll(name, "/", "_"), func(t *testing.T) {
			// A busy machine can leave an attempt undecided; it cannot turn a verdict.
			problems := s.differences(b.run(t, backend, home, s))
			if len(problems) > 0 {
				t.Logf("once more: %s", strings.Join(problems, "; "))
				problems = s.differences(b.run(t, backend, home, s))
			}
			for _, p := range problems {
				t.Error(p)
			}
		})
	}
}

// decidedWithoutCapability are those whose control cannot succeed on every machine, so
// that without a sabotage they may be undecided.
func decidedWithoutCapability() []string {
	return []string{"capabilities-chown", "capabilities-mknod", "net-raw", "no-new-privileges-set-id", "kernel-mount"}
}

func (s sabotage) probes() (ids []string) {
	for id := range s.held {
		ids = append(ids, id)
	}
	return ids
}

func (b sabotagedBrig) run(t *testing.T, backend, home string, s sabotage) selftest.Report {
	t.Helper()
	args := []string{"selftest", "--json", "--backend", backend}
	for _, id := range append(slices.Clone(s.through), s.probes()...) {
		args = append(args, "--probe", id)
	}
	cmd := exec.CommandContext(t.Context(), b.path, args...)
	cmd.Dir, cmd.Env = home, environOf(home, s)
	if strings.Contains(s.names, "HOME") {
		// What everybody may read lies there too, on the way that is opened.
		if err := os.Chmod(home, 0o755); err != nil {
			t.Fatal(err)
		}
		cmd.Env = append(cmd.Env, "TMPDIR="+home)
		defer func() { _ = os.Chmod(home, 0o700) }()
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: b.user}
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	var answer struct{ Reports []selftest.Report }
	if bad := json.Unmarshal(stdout.Bytes(), &answer); bad != nil || len(answer.Reports) != 1 {
		t.Fatalf("brig: %v, %v\n%s%s", err, bad, stdout.Bytes(), stderr.Bytes())
	}
	return answer.Reports[0]
}

// environOf is the environment of a brig of that home.
func environOf(home string, s sabotage) []string {
	env := []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + home, "LC_ALL=C.UTF-8", "BRIG_DOCKER_TIER=core", "BRIG_SERVER_LISTEN=127.0.0.1:0",
		"BRIG_SABOTAGE=" + strings.ReplaceAll(s.names, "HOME", home),
	}
	if host := os.Getenv("DOCKER_HOST"); host != "" {
		env = append(env, "DOCKER_HOST="+host)
	}
	return env
}

// differences are where a report is not as predicted.
func (s sabotage) differences(r selftest.Report) (problems []string) {
	note := func(words ...string) { problems = append(problems, strings.Join(words, " ")) }
	for id, want := range s.rows {
		row := r.Posture.Layer(id)
		got := string(row.State)
		if row.State != sandbox.Off {
			got += " " + row.Code
		}
		if got != want {
			note(string(id), "is said to be", got+", want", want)
		}
	}
	for _, l := range r.Layers {
		if l.Lied {
			note("the posture keeps silent:", string(l.Layer.ID), l.Reason)
		}
	}
	for _, p := range r.Probes {
		by, held := s.held[p.Probe]
		switch through := slices.Contains(s.through, p.Probe); {
		case through && p.Verdict != sandbox.Allowed:
			note(p.Probe, "is", string(p.Verdict)+", and nothing should be in its way:", p.By, p.Reason)
		case held && (p.Verdict != sandbox.Blocked || !strings.Contains(p.By, by)):
			note(p.Probe, "is", string(p.Verdict), "by", p.By+", want it blocked by", by+":", p.Reason)
		}
	}
	if want := len(s.through) + len(s.held); len(r.Probes) != want {
		note("other probes were tried than asked for")
	}
	return problems
}
