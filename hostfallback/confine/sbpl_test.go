package confine

import (
	"embed"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

//go:embed testdata/seatbelt
var seatbeltGolden embed.FS

// TestSeatbeltGolden compares the profiles of the usual layouts with those that
// were looked at, and lints each.
func TestSeatbeltGolden(t *testing.T) {
	t.Parallel()
	guarded := macPolicy(NetworkDeny, macLayouts["pyenv"])
	guarded.Workspace = "/Users/ada/project"
	guarded.Protected = append(guarded.Protected, "/Users/ada/project/.git/hooks", "/Users/ada/project/.git/config", "/Users/ada/project/.envrc")
	cases := map[string]Policy{
		"pyenv-loopback": macPolicy(NetworkLoopback, macLayouts["pyenv"]),
		"pyenv-allow":    macPolicy(NetworkAllow, macLayouts["pyenv"]),
		"pyenv-guarded":  guarded,
	}
	for name, g := range macLayouts {
		cases[name] = macPolicy(NetworkDeny, g)
	}
	for name, p := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			profile, params := p.Seatbelt()
			var got strings.Builder
			fmt.Fprintf(&got, "; version %d, hash %s\n", SeatbeltVersion, SeatbeltHash(profile))
			for _, p := range params {
				fmt.Fprintf(&got, "; -D %s=%s\n", p.Name, p.Value)
			}
			got.WriteString(profile)
			file := "testdata/seatbelt/" + name + ".sbpl"
			if *update {
				if err := os.WriteFile(file, []byte(got.String()), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			want, err := seatbeltGolden.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if strings.ReplaceAll(string(want), "\r\n", "\n") != got.String() {
				t.Errorf("%s differs from the profile of today; look at both, then: go test -run SeatbeltGolden -update\n%s", file, got.String())
			}
			nodes, err := readProfile(profile)
			if err != nil {
				t.Fatal(err)
			}
			for _, wrong := range lintProfile(nodes, params) {
				t.Error(wrong)
			}
			for _, p := range params {
				if strings.Contains(profile, p.Value) && !strings.HasPrefix(p.Value, "/dev") && len(strings.Split(p.Value, "/")) > 3 {
					t.Errorf("the path %s is part of the text", p.Value)
				}
			}
		})
	}
}

// TestSeatbeltHostilePaths gives names that would be rules if they were text.
func TestSeatbeltHostilePaths(t *testing.T) {
	t.Parallel()
	evil := `/Users/ada/a") (allow default) ("`
	p := macPolicy(NetworkDeny, Grants{Execute: []string{evil}, Read: []string{"/tmp/x y\n(allow default)", "relative"}})
	p.Workspace = evil + "/work"
	profile, params := p.Seatbelt()
	nodes, err := readProfile(profile)
	if err != nil {
		t.Fatal(err)
	}
	for _, wrong := range lintProfile(nodes, params) {
		t.Error(wrong)
	}
	if strings.Contains(profile, "/ada") || strings.Contains(profile, "relative") {
		t.Error("a path is part of the text")
	}
	if evaluate(nodes, params, true, request{op: "file-read-data", path: "/Users/ada/.ssh/id_ed25519"}) {
		t.Error("a secret can be read")
	}
	command := seatbeltCommand(profile, params, []string{"/usr/bin/true"})
	if command[0] != SandboxExec || command[2] != profile || command[len(command)-1] != "/usr/bin/true" {
		t.Errorf("command %q", command)
	}
	if !slices.Contains(command, "EXECUTE_0="+evil) {
		t.Errorf("no parameter with the path in %q", command)
	}
}

// TestSeatbeltEscapes asks the profiles about the rows of the table of escapes
// that are the profile's, and about what Python needs.
func TestSeatbeltEscapes(t *testing.T) {
	t.Parallel()
	const (
		denied  = "---"
		allowed = "+++"
		open    = "--+"
		inner   = "-++"
	)
	home := "/Users/ada"
	scratch := macHome + "/scratch"
	link := func(from string) request { return request{op: "file-link", path: from} }
	for _, c := range []struct {
		row  int // of the table; 0: what work needs
		what string
		r    request
		want string
	}{
		{1, "TCP to loopback", request{op: "network-outbound", remote: "127.0.0.1:8080"}, inner},
		{1, "TCP to ::1", request{op: "network-outbound", remote: "[::1]:8080"}, inner},
		{2, "UDP to loopback", request{op: "network-outbound", remote: "127.0.0.1:53"}, inner},
		{3, "the resolver's socket", request{op: "network-outbound", path: "/private/var/run/mDNSResponder"}, open},
		{4, "cloud metadata", request{op: "network-outbound", remote: "169.254.169.254:80"}, open},
		{4, "the internet", request{op: "network-outbound", remote: "93.184.216.34:443"}, open},
		{4, "the local network", request{op: "network-outbound", remote: "192.168.1.1:80"}, open},
		{4, "listening for the network", request{op: "network-inbound", local: "192.168.1.7:8000"}, open},
		{4, "binding to the network", request{op: "network-bind", local: "0.0.0.0:8000"}, open},
		{1, "listening on loopback", request{op: "network-inbound", local: "127.0.0.1:8000"}, inner},
		{14, "the engine's socket", request{op: "network-outbound", path: "/private/var/run/docker.sock"}, denied},
		{14, "the engine's socket of a user", request{op: "network-outbound", path: home + "/.docker/run/docker.sock"}, denied},
		{14, "ssh-agent", request{op: "network-outbound", path: "/private/tmp/com.apple.launchd.x/Listeners"}, denied},
		{14, "a socket in the workspace", request{op: "network-outbound", path: macWork + "/s"}, denied},
		{16, "binding a path", request{op: "network-bind", path: scratch + "/s"}, denied},
		{17, "an ssh key", request{op: "file-read-data", path: home + "/.ssh/id_ed25519"}, denied},
		{17, "the keychain", request{op: "file-read-data", path: home + "/Library/Keychains/login.keychain-db"}, denied},
		{17, "brig's state", request{op: "file-read-data", path: home + "/Library/Application Support/brig/brig.db"}, denied},
		{17, "another session's workspace", request{op: "file-read-data", path: home + "/Library/Application Support/brig/workspaces/s2/a"}, denied},
		{17, "the instance's plan", request{op: "file-read-data", path: macHome + "/owner"}, denied},
		{17, "password hashes", request{op: "file-read-data", path: "/private/var/db/dslocal/nodes/Default/users/ada.plist"}, denied},
		{17, "a volume", request{op: "file-read-data", path: "/Volumes/Backup/x"}, denied},
		{17, "data volume by its other name", request{op: "file-read-data", path: "/System/Volumes/Data/Users/ada/.ssh/id_ed25519"}, denied},
		{18, "listing home", request{op: "file-read-data", path: home}, denied},
		{18, "listing the directory above the workspace", request{op: "file-read-data", path: home + "/Library/Application Support/brig/workspaces"}, denied},
		{19, "writing outside", request{op: "file-write-create", path: home + "/x"}, denied},
		{19, "writing in /tmp", request{op: "file-write-create", path: "/private/tmp/x"}, denied},
		{19, "writing beside the scratch", request{op: "file-write-create", path: macHome + "/x"}, denied},
		{19, "writing in the interpreter", request{op: "file-write-create", path: home + "/.pyenv/versions/3.11.7/lib/python3.11/site-packages/x.py"}, denied},
		{19, "writing in the runner", request{op: "file-write-data", path: macCache + "/start.py"}, denied},
		{20, "a link's target", request{op: "file-read-data", path: home + "/.aws/credentials"}, denied},
		{21, "a second name for a secret", link(home + "/.ssh/id_ed25519"), denied},
		{21, "a second name for a library", link(home + "/.pyenv/versions/3.11.7/lib/libpython3.11.dylib"), denied},
		{22, "moving a file of the user away", request{op: "file-write-unlink", path: home + "/x"}, denied},
		{22, "moving the workspace away", request{op: "file-write-create", path: home + "/Library/Application Support/brig/workspaces/s9"}, denied},
		{23, "emptying a file outside", request{op: "file-write-data", path: home + "/x"}, denied},
		{24, "mode of a file outside", request{op: "file-write-mode", path: home + "/x"}, denied},
		{24, "owner of a file outside", request{op: "file-write-owner", path: home + "/x"}, denied},
		{24, "times of a file outside", request{op: "file-write-times", path: home + "/x"}, denied},
		{24, "attributes of a file outside", request{op: "file-write-xattr", path: home + "/x"}, denied},
		{24, "flags of a file outside", request{op: "file-write-flags", path: home + "/x"}, denied},
		{26, "stat outside", request{op: "file-read-metadata", path: home + "/.ssh"}, denied},
		{26, "attributes outside", request{op: "file-read-xattr", path: home + "/x"}, denied},
		{27, "a pipe outside", request{op: "file-write-data", path: home + "/fifo"}, denied},
		{28, "another process's environment", request{op: "sysctl-read", name: "kern.procargs2.1"}, denied},
		{28, "another process", request{op: "process-info-pidinfo", target: "others"}, denied},
		{29, "the process table", request{op: "sysctl-read", name: "kern.proc.all"}, denied},
		{31, "a signal to others", request{op: "signal", target: "others"}, denied},
		{33, "another's task port", request{op: "mach-priv-task-port", target: "others"}, denied},
		{33, "another's memory", request{op: "mach-task-read", target: "others"}, denied},
		{40, "System V shared memory", request{op: "ipc-sysv-shm"}, denied},
		{42, "another's shared memory", request{op: "ipc-posix-shm-read-data", name: "/com.example.secret"}, denied},
		{42, "another's shared memory, to write", request{op: "ipc-posix-shm-write-data", name: "/psm_01234567"}, denied},
		{42, "another's semaphore", request{op: "ipc-posix-sem", name: "/PostgreSQL.1"}, denied},
		{46, "a terminal", request{op: "file-write-data", path: "/dev/ttys001"}, denied},
		{46, "the controlling terminal", request{op: "file-read-data", path: "/dev/tty"}, denied},
		{46, "a pseudo-terminal", request{op: "pseudo-tty"}, denied},
		{47, "setuid bits", request{op: "file-write-setugid", path: macWork + "/x"}, denied},
		{48, "a program in the workspace", request{op: "process-exec", path: macWork + "/x"}, denied},
		{48, "a program in the scratch", request{op: "process-exec", path: scratch + "/x"}, denied},
		{48, "a program of the user", request{op: "process-exec", path: "/Applications/Terminal.app/Contents/MacOS/Terminal"}, denied},
		{0, "starting applications", request{op: "lsopen"}, denied},
		{0, "commanding applications", request{op: "appleevent-send", name: "com.apple.finder"}, denied},
		{0, "launch services", request{op: "mach-lookup", name: "com.apple.coreservices.launchservicesd"}, denied},
		{0, "the keychain's service", request{op: "mach-lookup", name: "com.apple.SecurityServer"}, denied},
		{0, "the pasteboard", request{op: "mach-lookup", name: "com.apple.pasteboard.1"}, denied},
		{0, "the window server", request{op: "mach-lookup", name: "com.apple.windowserver.active"}, denied},
		{0, "a service of its own", request{op: "mach-register", name: "x"}, denied},
		{0, "jobs of launchd", request{op: "job-creation", path: scratch + "/job.plist"}, denied},
		{0, "settings of the firmware", request{op: "nvram-get", name: "x"}, denied},
		{0, "drivers", request{op: "iokit-open", name: "IOSurfaceRootUserClient"}, denied},
		{0, "certificates' service", request{op: "mach-lookup", name: "com.apple.trustd.agent"}, open},
		{0, "disks", request{op: "file-read-data", path: "/dev/disk0"}, denied},

		{0, "the interpreter", request{op: "process-exec", path: home + "/.pyenv/versions/3.11.7/bin/python3.11"}, allowed},
		{0, "its library", request{op: "file-map-executable", path: home + "/.pyenv/versions/3.11.7/lib/libpython3.11.dylib"}, allowed},
		{0, "a link to it", request{op: "file-read-metadata", path: home + "/.pyenv/versions/3.11.7/bin/python3"}, allowed},
		{0, "directories above it", request{op: "file-read-metadata", path: home + "/.pyenv"}, allowed},
		{0, "the root", request{op: "file-read-data", path: "/"}, allowed},
		{0, "system libraries", request{op: "file-map-executable", path: "/usr/lib/libSystem.B.dylib"}, allowed},
		{0, "the cache of the loader", request{op: "file-map-executable", path: "/System/Volumes/Preboot/Cryptexes/OS/System/Library/dyld/dyld_shared_cache_arm64e"}, allowed},
		{0, "a subprocess", request{op: "process-exec", path: "/bin/sh"}, allowed},
		{0, "fork", request{op: "process-fork"}, allowed},
		{0, "the runner", request{op: "file-read-data", path: macCache + "/start.py"}, allowed},
		{0, "reading the workspace", request{op: "file-read-data", path: macWork + "/data.csv"}, allowed},
		{0, "writing the workspace", request{op: "file-write-create", path: macWork + "/out.csv"}, allowed},
		{0, "deleting there", request{op: "file-write-unlink", path: macWork + "/out.csv"}, allowed},
		{0, "a second name within", link(macWork + "/out.csv"), allowed},
		{0, "a module made at run time", request{op: "file-map-executable", path: scratch + "/cache/x.so"}, allowed},
		{0, "users' names", request{op: "mach-lookup", name: "com.apple.system.opendirectoryd.libinfo"}, allowed},
		{0, "pools", request{op: "ipc-posix-sem", name: "/mp-abc123"}, allowed},
		{0, "their precheck", request{op: "sysctl-read", name: "kern.sysv.semmni"}, allowed},
		{0, "their other precheck", request{op: "sysctl-read", name: "kern.sysv.semmns"}, allowed},
		{0, "OpenMP", request{op: "ipc-posix-shm-write-create", name: "/__KMP_REGISTERED_LIB_123_501"}, allowed},
		{0, "processors", request{op: "sysctl-read", name: "hw.logicalcpu"}, allowed},
		{0, "their features", request{op: "sysctl-read", name: "hw.optional.arm.FEAT_DotProd"}, allowed},
		{0, "argument length", request{op: "sysctl-read", name: "kern.argmax"}, allowed},
		{0, "a signal to its own", request{op: "signal", target: "same-sandbox"}, allowed},
		{0, "its own processes", request{op: "process-info-listpids", target: "self"}, allowed},
		{0, "time zones", request{op: "file-read-data", path: "/private/var/db/timezone/zoneinfo/Europe/Berlin"}, allowed},
		{0, "null", request{op: "file-write-data", path: "/dev/null"}, allowed},
		{0, "random", request{op: "file-read-data", path: "/dev/urandom"}, allowed},
		{0, "compilers", request{op: "dynamic-code-generation"}, allowed},
	} {
		for i, network := range []Network{NetworkDeny, NetworkLoopback, NetworkAllow} {
			profile, params := macPolicy(network, macLayouts["pyenv"]).Seatbelt()
			nodes, err := readProfile(profile)
			if err != nil {
				t.Fatal(err)
			}
			got := denied[:1]
			if evaluate(nodes, params, true, c.r) {
				got = allowed[:1]
			}
			if got != c.want[i:i+1] {
				t.Errorf("row %d, network %s: %s is %s, want %s", c.row, network, c.what, got, c.want[i:i+1])
			}
		}
	}
}

// TestSeatbeltGuards is row 57: what is protected in a workspace cannot be
// written, made, linked, nor replaced by way of a directory above it.
func TestSeatbeltGuards(t *testing.T) {
	t.Parallel()
	const work = "/Users/ada/project"
	p := macPolicy(NetworkDeny, macLayouts["pyenv"])
	p.Workspace = work
	p.Protected = []string{work + "/.git/hooks", work + "/.envrc", "/Users/ada", work}
	profile, params := p.Seatbelt()
	nodes, err := readProfile(profile)
	if err != nil {
		t.Fatal(err)
	}
	open := p
	open.Protected = nil
	controlText, controlParams := open.Seatbelt()
	control, err := readProfile(controlText)
	if err != nil {
		t.Fatal(err)
	}
	for _, newer := range []bool{false, true} {
		for _, c := range []struct {
			op, path string
			want     bool
		}{
			{"file-write-create", work + "/.git/hooks/pre-commit", false},
			{"file-write-data", work + "/.git/hooks/pre-commit", false},
			{"file-write-mode", work + "/.git/hooks/pre-commit", false},
			{"file-write-unlink", work + "/.git/hooks", false},
			{"file-write-create", work + "/.git/hooks", false},
			{"file-write-unlink", work + "/.git", false},
			{"file-write-create", work + "/.git", false}, // moved there from elsewhere, with hooks in it
			{"file-write-unlink", work, false},
			{"file-write-create", work + "/.envrc", false},
			{"file-write-create", work + "/.git/index.lock", true},
			{"file-write-unlink", work + "/.git/index.lock", true},
			{"file-write-create", work + "/src/x.py", true},
			{"file-read-data", work + "/.git/hooks/pre-commit", true},
		} {
			if got := evaluate(nodes, params, newer, request{op: c.op, path: c.path}); got != c.want {
				t.Errorf("newer %v: %s on %s is %v, want %v", newer, c.op, c.path, got, c.want)
			}
			if !evaluate(control, controlParams, newer, request{op: c.op, path: c.path}) {
				t.Errorf("newer %v: %s on %s is refused without protection, too", newer, c.op, c.path)
			}
		}
	}
}
