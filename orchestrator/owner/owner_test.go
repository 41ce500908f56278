package owner

import (
	"bufio"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// childState names the state directory to a copy of this test binary that plays another brig.
const childState = "BRIG_OWNER_TEST_STATE"

// TestMain is also the other process: it opens the owner, says who it is and
// holds on until its input ends or somebody kills it.
func TestMain(m *testing.M) {
	state := os.Getenv(childState)
	if state == "" {
		os.Exit(m.Run())
	}
	o, err := Open(state)
	if err != nil {
		os.Stderr.WriteString(err.Error() + "\n")
		os.Exit(1)
	}
	os.Stdout.WriteString(o.ID() + " " + o.Token() + "\n")
	_, _ = bufio.NewReader(os.Stdin).ReadByte()
	os.Exit(0) // without Close, as a crash would
}

type child struct {
	cmd       *exec.Cmd
	end       func() // closes its input
	id, token string
}

func start(t *testing.T, state string) child {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), exe)
	cmd.Env = append(os.Environ(), childState+"="+state)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	id, token, found := strings.Cut(strings.TrimSpace(line), " ")
	if err != nil || !found {
		t.Fatalf("the other process said %q: %v", line, err)
	}
	return child{cmd, func() { _ = in.Close() }, id, token}
}

func open(t *testing.T, state string) *Owner {
	t.Helper()
	o, err := Open(state)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := o.Close(); err != nil {
			t.Error(err)
		}
	})
	return o
}

func TestIDLastsAndTokenDoesNot(t *testing.T) {
	state := filepath.Join(t.TempDir(), "not", "there", "yet")
	a, b := open(t, state), open(t, state)
	if a.ID() != b.ID() || !isID(a.ID()) {
		t.Errorf("ids %q and %q", a.ID(), b.ID())
	}
	if a.Token() == b.Token() || !isID(a.Token()) {
		t.Errorf("tokens %q and %q", a.Token(), b.Token())
	}
	if !a.Alive(a.Token()) || !a.Alive(b.Token()) {
		t.Error("two live owners, and one is taken for dead")
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	if err := b.Close(); err != nil {
		t.Errorf("second Close: %v", err)
	}
	if a.Alive(b.Token()) || b.Alive(b.Token()) {
		t.Error("a closed owner is taken for alive")
	}
}

func TestKilledProcessIsDead(t *testing.T) {
	state := t.TempDir()
	o := open(t, state)
	other := start(t, state)
	if other.id != o.ID() {
		t.Errorf("the other process has id %s, want %s", other.id, o.ID())
	}
	if !o.Alive(other.token) {
		t.Fatal("a running process is taken for dead")
	}
	if n, err := o.Sweep(); n != 0 || err != nil {
		t.Fatalf("swept %d of two live processes: %v", n, err)
	}
	if err := other.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = other.cmd.Wait() // killed: an error by design
	if o.Alive(other.token) {
		t.Error("a killed process is taken for alive")
	}
	lockFile := filepath.Join(state, locksDir, other.token+lockEnd)
	if _, err := os.Stat(lockFile); err != nil {
		t.Fatalf("control: the lock file of the killed process: %v", err)
	}
	if n, err := o.Sweep(); n != 1 || err != nil {
		t.Errorf("swept %d, want the one of the killed process: %v", n, err)
	}
	if _, err := os.Stat(lockFile); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("after the sweep: %v", err)
	}
	if !o.Alive(o.Token()) || o.Alive(other.token) {
		t.Error("the sweep changed who is alive")
	}
}

func TestEndedProcessIsDead(t *testing.T) {
	state := t.TempDir()
	o := open(t, state)
	other := start(t, state)
	other.end()
	if err := other.cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	if o.Alive(other.token) {
		t.Error("an ended process is taken for alive")
	}
}

func TestAskersDoNotMistakeEachOther(t *testing.T) {
	state := t.TempDir()
	o := open(t, state)
	other := start(t, state)
	other.end()
	if err := other.cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 200 {
				if o.Alive(other.token) {
					t.Error("an asker was taken for the owner")
					return
				}
			}
		})
	}
	wg.Wait()
}

func TestStartsAtOnceAgreeOnOneID(t *testing.T) {
	state := t.TempDir()
	var wg sync.WaitGroup
	owners := make([]*Owner, 16)
	for i := range owners {
		wg.Go(func() {
			o, err := Open(state)
			if err != nil {
				t.Error(err)
				return
			}
			owners[i] = o
			if _, err := o.Sweep(); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	for _, o := range owners {
		if o == nil {
			continue
		}
		if o.ID() != owners[0].ID() {
			t.Errorf("ids %s and %s", o.ID(), owners[0].ID())
		}
		if !owners[0].Alive(o.Token()) {
			t.Error("a sweep took the lock file of a process that was starting")
		}
		if err := o.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestDamagedIDIsNotReplaced(t *testing.T) {
	for name, text := range map[string]string{
		"empty": "", "short": "abc\n", "upper case": strings.Repeat("A", idLength) + "\n", "path": "../../" + strings.Repeat("a", idLength-6),
	} {
		t.Run(name, func(t *testing.T) {
			state := t.TempDir()
			path := filepath.Join(state, idFile)
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			o, err := Open(state)
			var damaged *DamagedError
			if !errors.As(err, &damaged) || o != nil {
				t.Fatalf("got %v, want a DamagedError", err)
			}
			if !strings.HasSuffix(err.Error(), "rm "+path) {
				t.Errorf("%q does not end with the next command", err)
			}
			if after, err := os.ReadFile(path); err != nil || string(after) != text {
				t.Errorf("the file was changed to %q (%v)", after, err)
			}
		})
	}
}

func TestAliveRefusesWhatIsNoToken(t *testing.T) {
	state := t.TempDir()
	o := open(t, state)
	if err := os.WriteFile(filepath.Join(state, "x.lock"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, token := range []string{"", "x", "../x", strings.Repeat("0", idLength), strings.Repeat("/", idLength)} {
		if o.Alive(token) {
			t.Errorf("token %q is taken for alive", token)
		}
	}
}
