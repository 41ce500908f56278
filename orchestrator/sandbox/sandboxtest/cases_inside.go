package sandboxtest

import (
	"encoding/json"
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

// caseDescriptors: user code finds its own three descriptors and nothing of the control stream.
func caseDescriptors(t *testing.T, s *suite) {
	var rows map[string]string
	s.any(t).report(t, ShowFDs(), &rows)
	for _, fd := range []string{"0", "1", "2"} {
		if rows[fd] == "" {
			t.Errorf("descriptor %s is missing: %v", fd, rows)
		}
		delete(rows, fd)
	}
	if len(rows) > 0 {
		t.Errorf("user code sees more than its own descriptors: %v", rows)
	}
}

// caseInherited leaves a descriptor open in this process, as careless software
// does, while an instance starts.
func caseInherited(t *testing.T, s *suite) {
	canary := filepath.Join(t.TempDir(), "canary")
	if err := os.WriteFile(canary, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	openInheritable(t, canary)
	var rows map[string]string
	s.own(t).report(t, ShowFDs(), &rows)
	for fd, what := range rows {
		if strings.Contains(what, "canary") {
			t.Errorf("descriptor %s is %s", fd, what)
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
	for _, r := range rows {
		if r.Target == "self" {
			if r.Result != "ok" {
				t.Errorf("the control %s %s did not work: %s", r.Op, r.Object, r.Result)
			}
			continue
		}
		tried[r.Op]++
		switch r.Result {
		case "EACCES", "EPERM", "ENOSYS", "ESRCH", "ENOENT":
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
