package sandboxtest

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"brig/orchestrator/wire"
)

func insideCases() []testCase {
	return []testCase{
		{name: "Descriptors", run: caseDescriptors},
		{name: "Babble", run: caseBabble},
		{name: "InheritedDescriptor", python: true, run: caseInherited},
		{name: "Environment", run: caseEnvironment},
		{name: "ControlStream", run: caseAttack},
	}
}

// report runs one step that prints JSON and reads it into v.
func (b *box) report(t *testing.T, step Step, v any) {
	t.Helper()
	o := b.ok(t, Program{step})
	if err := json.Unmarshal(o.stdout, v); err != nil {
		t.Fatalf("read %q: %v", head(o.stdout), err)
	}
}

// descriptorReport is what steps/fds.py prints.
type descriptorReport struct {
	Own      map[string]string `json:"own"`
	Forked   map[string]string `json:"forked"`
	Executed map[string]string `json:"executed"`
}

// channels is how many pipes of its own an interpreter may have to the half of
// the runner that never runs user code: for commands, for reports, for interrupts.
const channels = 3

// caseDescriptors: user code finds its standard streams. Beyond them only the
// interpreter itself has anything, and that is pipes, which lead to the
// supervisor and never to brig: see caseBabble.
func caseDescriptors(t *testing.T, s *suite) {
	var r descriptorReport
	s.any(t).report(t, ShowFDs(), &r)
	for who, rows := range map[string]map[string]string{"the interpreter": r.Own, "a forked child": r.Forked, "an executed program": r.Executed} {
		beyond := 0
		for fd, what := range rows {
			if fd == "0" || fd == "1" || fd == "2" {
				continue
			}
			beyond++
			if who != "the interpreter" || !strings.HasPrefix(what, "pipe:") || beyond > channels {
				t.Errorf("%s has descriptor %s, %s", who, fd, what)
			}
		}
		if len(rows)-beyond != 3 {
			t.Errorf("%s lacks a standard stream: %v", who, rows)
		}
	}
}

// caseBabble: what user code writes to the descriptors it has reaches its own
// runner at most. brig never takes it for a message.
func caseBabble(t *testing.T, s *suite) {
	b := s.own(t)
	o := b.try(t, Program{Print("before"), Babble(), Print("after")})
	if o.err != nil {
		lost := asLost(t, o.err)
		if violation := new(wire.ProtocolError); errors.As(lost, &violation) {
			t.Errorf("brig heard user code: %v", violation)
		}
		return
	}
	if o.exit.Run != o.id {
		t.Errorf("the exit names run %s", o.exit.Run)
	}
	b.usable(t)
}

// caseInherited leaves a descriptor open in this process, as careless software
// does, while an instance starts.
func caseInherited(t *testing.T, s *suite) {
	canary := filepath.Join(t.TempDir(), "canary")
	if err := os.WriteFile(canary, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	openInheritable(t, canary)
	var r descriptorReport
	s.own(t).report(t, ShowFDs(), &r)
	for _, rows := range []map[string]string{r.Own, r.Forked, r.Executed} {
		for fd, what := range rows {
			if strings.Contains(what, "canary") {
				t.Errorf("descriptor %s is %s", fd, what)
			}
		}
	}
}

// environReport is what steps/environ.py prints.
type environReport struct {
	Own       []string `json:"own"`
	Values    []string `json:"values"`
	Processes []string `json:"processes"`
}

func caseEnvironment(t *testing.T, s *suite) {
	const name, value = "BRIG_TEST_CANARY", "a-secret-of-the-parent-3f9a1c"
	t.Setenv(name, value)
	b := s.own(t)
	var r environReport
	b.report(t, ShowEnviron(value), &r)
	if slices.Contains(r.Own, name) || len(r.Values) > 0 || len(r.Processes) > 0 {
		t.Errorf("the parent's environment came through: %+v", r)
	}
	for _, n := range r.Own {
		for _, word := range []string{"TOKEN", "SECRET", "KEY", "PASSWORD", "DOCKER"} {
			if strings.Contains(strings.ToUpper(n), word) {
				t.Errorf("the environment holds %s", n)
			}
		}
	}
}

// attempt is one row that steps/attack.py prints.
type attempt struct {
	Target string `json:"target"`
	Op     string `json:"op"`
	Object string `json:"object"`
	Result string `json:"result"`
}

// caseAttack: every try to reach the control stream is refused, while the same
// tries on the program's own descriptors work. Afterwards brig still hears the
// truth.
func caseAttack(t *testing.T, s *suite) {
	b := s.own(t)
	o := b.ok(t, Program{Attack(), Print("end")})
	text, _, _ := strings.Cut(string(o.stdout), "\n")
	var rows []attempt
	if err := json.Unmarshal([]byte(text), &rows); err != nil {
		t.Fatalf("read %q: %v", head(o.stdout), err)
	}
	tried := make(map[string]int)
	parent := ""
	for _, r := range rows {
		if r.Target == "self" {
			if r.Result != "ok" {
				t.Errorf("the control %s %s did not work: %s", r.Op, r.Object, r.Result)
			}
			continue
		}
		if parent == "" {
			parent = r.Target
		}
		if r.Op == "list" && (r.Target != parent || s.f.ListsDescriptors) {
			continue // the numbers of descriptors of the user's other processes, which lead nowhere
		}
		tried[r.Op]++
		switch r.Result {
		case "EACCES", "EPERM", "ENOSYS", "ESRCH", "ENOENT", "EROFS":
		default:
			t.Errorf("%s of %s of process %s: %s", r.Op, r.Object, r.Target, r.Result)
		}
	}
	for _, op := range []string{"forge", "steal", "read", "trace", "peek", "take"} {
		if tried[op] == 0 {
			t.Errorf("no attempt to %s", op)
		}
	}
	if !strings.HasSuffix(string(o.stdout), "\nend\n") || o.exit.Outcome != wire.OutcomeOK {
		t.Errorf("the run ended %s", describe(o.exit))
	}
	b.usable(t)
}
