package config_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"brig/orchestrator/config"
	"brig/orchestrator/sandbox"
)

func TestDefault(t *testing.T) {
	l, err := config.LoadEnviron(bare(t.TempDir()).list(), "")
	must(t, err)
	if l.Found || l.Config != config.Default() || filepath.Base(l.Path) != "config.toml" {
		t.Fatalf("without a file: %+v", l)
	}
	must(t, config.Default().Validate())
	for key, s := range l.Sources {
		if s.From != config.FromDefault || s.Where != "" {
			t.Errorf("%s comes from %+v", key, s)
		}
	}
	if len(l.Sources) != len(config.Keys()) || len(l.Unused()) != 0 {
		t.Errorf("%d sources of %d keys, unused: %q", len(l.Sources), len(config.Keys()), l.Unused())
	}
}

func TestFileAndEnvironment(t *testing.T) {
	path := file(t, `
# comment
execution.backend = "host"

[host]
sandbox = "require"
python = "python3.13"

[limits]
memory = "512 MiB"
file_size = 4_194_304
cpus = 1.5
max_timeout = "1h30m"
workspace = "1.5GiB"

[pool]
docker = 0

[sandbox]
enabled = false
cpu_seconds = 20
`)
	e := bare(t.TempDir()).with("BRIG_CONFIG", path, "HOST_SANDBOX_NETWORK", "loopback", "BRIG_LIMITS_MEMORY", "256MiB",
		"BRIG_LIMITS_PROCESSES", "", "BRIG_WORKSPACE_CODE_EXEC", "0", "BRIG_TEST_ANYTHING", "x", "BRIG_DEVELOPMENT", "1", "UNRELATED", "x")
	l, err := config.LoadEnviron(e.list(), "")
	must(t, err)
	want := config.Default()
	want.Execution.Backend = sandbox.Host
	want.Host = config.Host{Sandbox: sandbox.ModeRequire, Network: sandbox.NetworkLoopback, Python: "python3.13"}
	want.Limits.Memory, want.Limits.FileSize, want.Limits.MilliCPU = 256<<20, 4<<20, 1500
	want.Limits.MaxTimeout, want.Limits.Workspace = 90*time.Minute, 3<<29
	want.Pool.Docker, want.Sandbox.Enabled, want.Sandbox.CPUSeconds, want.Workspace.CodeExec = 0, false, 20, false
	if l.Config != want || !l.Found || l.Path != path {
		t.Fatalf("loaded %+v\nwant   %+v", l.Config, want)
	}
	for key, s := range map[string]config.Source{
		"execution.backend": {From: config.FromFile, Where: path + ":3", Raw: "host"},
		"host.sandbox":      {From: config.FromFile, Where: path + ":6", Raw: "require"},
		"host.network":      {From: config.FromEnvironment, Where: "HOST_SANDBOX_NETWORK", Raw: "loopback"},
		"limits.memory":     {From: config.FromEnvironment, Where: "BRIG_LIMITS_MEMORY", Raw: "256MiB"},
		"limits.cpus":       {From: config.FromFile, Where: path + ":12", Raw: "1.5"},
		"limits.processes":  {From: config.FromDefault, Raw: "256"},
	} {
		if l.Sources[key] != s {
			t.Errorf("%s comes from %+v, want %+v", key, l.Sources[key], s)
		}
	}
	if want := []string{"sandbox.enabled", "sandbox.cpu_seconds"}; !slices.Equal(l.Unused(), want) {
		t.Errorf("set but unused: %q", l.Unused())
	}
	// A path that is given is stronger than the variable, and Load without names does the same.
	other, err := config.Load(e.look, file(t, ""))
	if err != nil || other.Config.Execution.Backend != sandbox.Docker {
		t.Errorf("%+v, %v", other.Config.Execution, err)
	}
}

// The acceptance list: each row is one bad setting and the whole sentence about it.
func TestProblems(t *testing.T) {
	for _, c := range []struct{ content, want string }{
		{`[host]` + "\n" + `sandbox = "best_effort"`, `FILE:2: host.sandbox: unknown value "best_effort"; allowed: off, best-effort, require; did you mean "best-effort"?`},
		{`host.sandbox = "Require"`, `FILE:1: host.sandbox: unknown value "Require"; allowed: off, best-effort, require; did you mean "require"?`},
		{`host.sandbox = "strict"`, `FILE:1: host.sandbox: unknown value "strict"; allowed: off, best-effort, require`},
		{`host.sandbox = ""`, `FILE:1: host.sandbox: unknown value ""; allowed: off, best-effort, require`},
		{`host.sandbox = false`, `FILE:1: host.sandbox: true or false where a word in quotes is wanted; allowed: off, best-effort, require`},
		{`host.sandbx = "require"`, `FILE:1: host.sandbx: unknown key; did you mean "host.sandbox"?`},
		{"[host]\nhost.sandbox = \"off\"", `FILE:2: host.host: unknown key; keys below [host] stand there without a section in front`},
		{"[workspace]\nmax_timeout = \"1m\"", `FILE:2: workspace.max_timeout: unknown key; did you mean "limits.max_timeout"?`},
		{"[hots]\nsandbox = 1", `FILE:1: hots: unknown key; did you mean "host"?`},
		{`host = "require"`, `FILE:1: host: it is a section, not a value; write [host] and its keys below it`},
		{"[[host]]\nsandbox = \"off\"", `FILE:1: host: it is a section, not a value; write [host] and its keys below it`},
		{`"host.sandbox" = "off"`, `FILE:1: "host.sandbox": unknown key; write the section in brackets and the key below it without quotes`},
		{"host.sandbox.x = 1", `FILE:1: host.sandbox: a table where a word in quotes is wanted; allowed: off, best-effort, require`},
		{`execution.backend = "dokcer"`, `FILE:1: execution.backend: unknown value "dokcer"; allowed: docker, host, wasm, inprocess; did you mean "docker"?`},
		{`execution.backend = "memory"`, `FILE:1: execution.backend: unknown value "memory"; allowed: docker, host, wasm, inprocess`},
		{`limits.memory = 0`, `FILE:1: limits.memory: 0 is too small, and it does not mean unlimited; allowed: 64MiB to 1TiB`},
		{`limits.memory = -1`, `FILE:1: limits.memory: -1 is too small; allowed: 64MiB to 1TiB`},
		{`limits.memory = "1GB"`, `FILE:1: limits.memory: "1GB" has no unit that is known here; allowed: 64MiB to 1TiB; did you mean "1GiB"?`},
		{`limits.memory = "1 g"`, `FILE:1: limits.memory: "1 g" has no unit that is known here; allowed: 64MiB to 1TiB; did you mean "1GiB"?`},
		{`limits.memory = "lots"`, `FILE:1: limits.memory: "lots" is not a size; write a number with KiB, MiB or GiB; allowed: 64MiB to 1TiB`},
		{`limits.memory = "99999999999999999999GiB"`, `FILE:1: limits.memory: "99999999999999999999GiB" is too large; allowed: 64MiB to 1TiB`},
		{`limits.memory = 1.5`, `FILE:1: limits.memory: a number where a size is wanted; allowed: 64MiB to 1TiB; write something like "512MiB"`},
		{`limits.processes = "256"`, `FILE:1: limits.processes: text where a whole number without quotes is wanted; allowed: 8 to 32768`},
		{`limits.processes = 1_000_000`, `FILE:1: limits.processes: 1000000 is too large; allowed: 8 to 32768`},
		{`limits.cpus = nan`, `FILE:1: limits.cpus: that is not a number of cores; allowed: 0.05 to 1024`},
		{`limits.cpus = inf`, `FILE:1: limits.cpus: that is not a number of cores; allowed: 0.05 to 1024`},
		{`limits.cpus = 0`, `FILE:1: limits.cpus: 0 is too small, and it does not mean unlimited; allowed: 0.05 to 1024`},
		{`limits.cpus = 1e30`, `FILE:1: limits.cpus: 1e+30 is too large; allowed: 0.05 to 1024`},
		{`workspace.exec_timeout = 30`, `FILE:1: workspace.exec_timeout: a number where a duration with its unit is wanted; allowed: 100ms to 24h; write "30s"`},
		{`workspace.exec_timeout = "30"`, `FILE:1: workspace.exec_timeout: "30" is not a duration; write a number with ms, s, m or h; allowed: 100ms to 24h; did you mean "30s"?`},
		{`workspace.exec_timeout = "0s"`, `FILE:1: workspace.exec_timeout: 0s is too small, and it does not mean unlimited; allowed: 100ms to 24h`},
		{`workspace.exec_timeout = "11m"`, `FILE:1: workspace.exec_timeout: 11m is longer than limits.max_timeout, which is 10m; set limits.max_timeout = "11m" or more`},
		{"[limits]\noutput_logged = \"4KiB\"\noutput_kept = \"1MiB\"", `FILE:3: limits.output_kept: 1MiB is more than limits.output_logged, which is 4KiB; set limits.output_logged = "1MiB" or more`},
		{`limits.idle = 2024-01-01`, `FILE:1: limits.idle: a date where a duration with its unit is wanted; allowed: 1m to 168h; write something like "30s"`},
		{`sandbox.enabled = "true"`, `FILE:1: sandbox.enabled: text where true or false without quotes is wanted; allowed: true, false`},
		{`sandbox.cpu_seconds = 0`, `FILE:1: sandbox.cpu_seconds: 0 is too small, and it does not mean unlimited; allowed: 1 to 86400`},
		{`host.python = "./python3"`, `FILE:1: host.python: "./python3" is neither an absolute path nor a plain name; allowed: an absolute path or the name of a program on PATH`},
		{`docker.endpoint = "/var/run/docker.sock"`, `FILE:1: docker.endpoint: "/var/run/docker.sock" has no scheme; allowed: unix://, npipe://, tcp://, http://, https:// or ssh:// and an address; did you mean "unix:///var/run/docker.sock"?`},
		{`docker.endpoint = "unx:///x"`, `FILE:1: docker.endpoint: unknown scheme "unx"; allowed: unix://, npipe://, tcp://, http://, https:// or ssh:// and an address; did you mean "unix"?`},
		{`docker = {endpoint = "unix:///x", context = "colima"}`, `FILE:1: docker.context: docker.endpoint is set too, and each names an engine; remove one of the two`},
		{`docker.context = "a b"`, `FILE:1: docker.context: "a b" contains " ", which no such name does; allowed: the name of a docker context`},
		{`docker.image = "--privileged"`, `FILE:1: docker.image: "--privileged" contains "-", which no such name does; allowed: the reference of an image, such as registry.example/team/analysis:2`},
		{`docker.tier = "ful"`, `FILE:1: docker.tier: unknown value "ful"; allowed: core, standard, full; did you mean "full"?`},
		{`docker.runtime = ""`, `FILE:1: docker.runtime: it is empty; allowed: auto, or the name of a runtime that the engine knows, such as runc, runsc or kata`},
		{`docker.runtime = "a\u0007"`, `FILE:1: docker.runtime: it contains a control character or broken text; allowed: auto, or the name of a runtime that the engine knows, such as runc, runsc or kata`},
		{`server.listen = "0.0.0.0:7411"`, `FILE:1: server.listen: "0.0.0.0:7411" is neither a loopback address with a port nor none; allowed: a loopback address and a port, such as 127.0.0.1:7411, [::1]:7411 or 127.0.0.1:0, or none; did you mean "127.0.0.1:7411"?`},
		{`execution.backend = "wasm"` + "\nsandbox.enabled = false", `FILE:1: execution.backend: it is wasm, but sandbox.enabled is false; set sandbox.enabled = true or choose another backend`},
		{"[host\nsandbox = 1", `FILE:2: it is not TOML: expected '.' or ']' to end table name, but got '\n' instead`},
		{"a = 1\na = 2", `FILE:2: it is not TOML: Key 'a' has already been defined.`},
		{`limits.processes = 99999999999999999999`, `FILE:1: it is not TOML: 99999999999999999999 is out of range for int64`},
		{"# " + strings.Repeat(".", 200) + "\n" + strings.Repeat("a.", 200) + "a = 1", `FILE:2: it nests deeper than any settings file does`},
		{strings.Repeat("a={", 200), `FILE:1: it nests deeper than any settings file does`},
		{"\x00", `FILE: line 1 contains a NUL byte; save it as UTF-8 text`},
		{"# ok\n# caf\xe9\n", `FILE: line 2 is not UTF-8; save it as UTF-8`},
		{"\xef\xbb\xbf# x", `FILE: it begins with a byte order mark; save it as UTF-8 without one`},
		{"\xff\xfeh\x00", `FILE: it is UTF-16; save it as UTF-8`},
		{strings.Repeat("#", 64<<10) + "\n", `FILE: it is larger than 64KiB, which no settings file is`},
	} {
		got := problems(t, bare(t.TempDir()), file(t, c.content))
		if len(got) != 1 || got[0] != c.want {
			t.Errorf("%.60q\n got %q\nwant %q", c.content, got, c.want)
		}
	}
}

// All problems come at once, the file from top to bottom, then the environment by name.
func TestAllProblemsAtOnce(t *testing.T) {
	path := file(t, "zz = 1\n[limits]\nprocesses = 1\nmemory = \"x\"\n[guard]\nhost = \"strct\"\naa = 2\n")
	e := bare(t.TempDir()).with("BRIG_POOL_HOST", "many", "BRIG_HOST_SANDBX", "off", "BRIG_ZZZ", "1", "EXECUTION_BACKEND", "hots", "HOST_SANBOX", "off")
	want := []string{
		`FILE:1: zz: unknown key`,
		`FILE:3: limits.processes: 1 is too small; allowed: 8 to 32768`,
		`FILE:4: limits.memory: "x" is not a size; write a number with KiB, MiB or GiB; allowed: 64MiB to 1TiB`,
		`FILE:6: guard.host: unknown value "strct"; allowed: strict, minimal; did you mean "strict"?`,
		`FILE:7: guard.aa: unknown key`,
		`BRIG_POOL_HOST: pool.host: "many" is not a whole number; allowed: 0 to 16`,
		`EXECUTION_BACKEND: execution.backend: unknown value "hots"; allowed: docker, host, wasm, inprocess; did you mean "host"?`,
		`BRIG_HOST_SANDBX: no setting has this variable; did you mean "BRIG_HOST_SANDBOX"?`,
		`BRIG_ZZZ: no setting has this variable`,
		`HOST_SANBOX: no setting has this variable; did you mean "HOST_SANDBOX"?`,
	}
	for range 5 {
		if got := problems(t, e, path); !slices.Equal(got, want) {
			t.Fatalf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
	_, err := config.LoadEnviron(e.list(), path)
	if text := err.Error(); !strings.HasPrefix(text, "10 problems with the settings:\n  ") || strings.Count(text, "\n") != 10 {
		t.Errorf("all together: %s", text)
	}
}

func TestAliases(t *testing.T) {
	e := bare(t.TempDir())
	for _, c := range []struct {
		pairs []string
		want  sandbox.Mode
		where string
	}{
		{[]string{"HOST_SANDBOX", "require"}, sandbox.ModeRequire, "HOST_SANDBOX"},
		{[]string{"BRIG_HOST_SANDBOX", "require"}, sandbox.ModeRequire, "BRIG_HOST_SANDBOX"},
		{[]string{"HOST_SANDBOX", "require", "BRIG_HOST_SANDBOX", "require"}, sandbox.ModeRequire, "BRIG_HOST_SANDBOX"},
		{[]string{"HOST_SANDBOX", "", "BRIG_HOST_SANDBOX", ""}, sandbox.ModeBestEffort, ""},
	} {
		l, err := config.LoadEnviron(e.with(c.pairs...).list(), "")
		if err != nil || l.Config.Host.Sandbox != c.want || l.Sources["host.sandbox"].Where != c.where {
			t.Errorf("%q: %v from %+v, %v", c.pairs, l.Config.Host.Sandbox, l.Sources["host.sandbox"], err)
		}
	}
	got := problems(t, e.with("HOST_SANDBOX", "require", "BRIG_HOST_SANDBOX", "off"), "")
	want := `BRIG_HOST_SANDBOX: host.sandbox: HOST_SANDBOX says "require" and BRIG_HOST_SANDBOX says "off"; unset one of the two`
	if len(got) != 1 || got[0] != want {
		t.Errorf("got %q", got)
	}
	if got := problems(t, e.with("EXECUTION_BACKEND", "docker\xff"), ""); len(got) != 1 || !strings.Contains(got[0], "not valid UTF-8") {
		t.Errorf("got %q", got)
	}
}

func TestNamedFileMustExist(t *testing.T) {
	e := bare(t.TempDir())
	path := filepath.Join(filepath.Dir(file(t, "")), "no.toml")
	for _, got := range [][]string{problems(t, e, path), problems(t, e.with("BRIG_CONFIG", path), "")} {
		if len(got) != 1 || !strings.HasSuffix(got[0], ": there is no such file; name another one or none") {
			t.Errorf("got %q", got)
		}
	}
	if got := problems(t, e, t.TempDir()); len(got) != 1 || !strings.Contains(got[0], "it is not a regular file") {
		t.Errorf("a directory gave %q", got)
	}
	if got := problems(t, environ{}, ""); len(got) != 1 || !strings.Contains(got[0], "is not set, so there is no place for brig's files") {
		t.Errorf("without HOME: %q", got)
	}
	// Where somebody names the file, no home is needed.
	if got := problems(t, environ{}, file(t, "")); len(got) != 0 {
		t.Errorf("got %q", got)
	}
	t.Chdir(filepath.Dir(file(t, "")))
	must(t, os.WriteFile("here.toml", []byte("pool.host = 3"), 0o600))
	if l, err := config.LoadEnviron(e.list(), "here.toml"); err != nil || l.Config.Pool.Host != 3 {
		t.Errorf("a relative path: %+v, %v", l.Config.Pool, err)
	}
}
