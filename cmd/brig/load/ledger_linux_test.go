package load

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"sync"
	"time"

	"brig/orchestrator/api"
)

// ledger is what brig has acknowledged, kept outside of it.
type ledger struct {
	mu       sync.Mutex
	sessions map[string]string   // by name: id
	found    map[string]bool     // by name: it was there already, made before a kill and not acknowledged
	files    map[string][32]byte // by session and path
	datasets map[string]string   // by session and name: path
	runs     map[string]string   // by id: output of one that had ended, "?" of one that was accepted
}

func newLedger() *ledger {
	return &ledger{sessions: map[string]string{}, found: map[string]bool{}, files: map[string][32]byte{}, datasets: map[string]string{}, runs: map[string]string{}}
}

const accepted = "?"

func (l *ledger) put(f func()) { l.mu.Lock(); defer l.mu.Unlock(); f() }

// check holds everything against the brig that was started after the kill.
func (l *ledger) check(ctx context.Context, brig api.Brig) (problems []string) {
	c := slowly{brig}
	note := func(format string, a ...any) { problems = append(problems, fmt.Sprintf(format, a...)) }
	for name, id := range l.sessions {
		if s, err := c.Session(ctx, name); err != nil || s.ID != id {
			note("session %s is %s, want %s: %v", name, s.ID, id, err)
		}
		q := api.AuditQuery{Kind: "session", Session: id}
		if !audited(ctx, c, q, "opened") && !(l.found[name] && audited(ctx, c, q, "adopted")) {
			note("no line of the audit log says that session %s was opened", name)
		}
	}
	for at, want := range l.files {
		session, path, _ := cutKey(at)
		body, _, err := c.ReadFile(ctx, session, path, api.Range{})
		if err != nil {
			note("file %s: %v", at, err)
			continue
		}
		content, err := io.ReadAll(body)
		if body.Close(); err != nil || sha256.Sum256(content) != want {
			note("file %s has another content, of %d bytes: %v", at, len(content), err)
		}
	}
	for at, path := range l.datasets {
		session, name, _ := cutKey(at)
		list, err := c.Datasets(ctx, session)
		found := false
		for _, d := range list.Datasets {
			found = found || d.Name == name && d.Path == path && d.Problem == ""
		}
		if !found {
			note("dataset %s is not there: %+v %v", at, list, err)
		}
	}
	for id, out := range l.runs {
		r, err := c.FindRun(ctx, id, api.FindOptions{})
		switch {
		case err != nil:
			note("run %s: %v", id, err)
		case r.State != api.RunEnded:
			note("run %s is %s, and nobody runs it any more", id, r.State)
		case out != accepted && (r.Cause != "ok" || r.Stdout.Text != out):
			note("run %s was answered with %q and is recorded with %s %q", id, out, r.Cause, r.Stdout.Text)
		}
		if !audited(ctx, c, api.AuditQuery{Kind: "run", Run: id}, "accepted") {
			note("no line of the audit log says that run %s was accepted", id)
		}
		if out != accepted && !audited(ctx, c, api.AuditQuery{Kind: "run", Run: id}, "ended") {
			note("no line of the audit log says that run %s ended", id)
		}
	}
	return problems
}

// slowly asks for no more in a second than one credential may.
type slowly struct{ api.Brig }

const between = 3 * time.Millisecond

func (s slowly) Session(ctx context.Context, session string) (api.Session, error) {
	time.Sleep(between)
	return s.Brig.Session(ctx, session)
}

func (s slowly) ReadFile(ctx context.Context, session, path string, r api.Range) (io.ReadCloser, api.File, error) {
	time.Sleep(between)
	return s.Brig.ReadFile(ctx, session, path, r)
}

func (s slowly) Datasets(ctx context.Context, session string) (api.DatasetList, error) {
	time.Sleep(between)
	return s.Brig.Datasets(ctx, session)
}

func (s slowly) FindRun(ctx context.Context, run string, o api.FindOptions) (api.Run, error) {
	time.Sleep(between)
	return s.Brig.FindRun(ctx, run, o)
}

func (s slowly) Audit(ctx context.Context, q api.AuditQuery) (api.AuditList, error) {
	time.Sleep(between)
	return s.Brig.Audit(ctx, q)
}

func audited(ctx context.Context, c api.Brig, q api.AuditQuery, event string) bool {
	list, err := c.Audit(ctx, q)
	if err != nil || !list.Holds {
		return false
	}
	for _, line := range list.Lines {
		var data struct {
			Event string `json:"event"`
		}
		if json.Unmarshal(line.Data, &data) == nil && data.Event == event {
			return true
		}
	}
	return false
}

// verify has the program check the whole chain, as a person would.
func (b *brig) verify() error {
	cmd := exec.Command(program(b.t), "audit", "verify")
	cmd.Dir, cmd.Env = b.dir, b.env
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("brig audit verify: %w: %s", err, out)
	}
	return nil
}

func key(session, name string) string { return session + "\x00" + name }

func cutKey(k string) (session, name string, err error) {
	for i := range k {
		if k[i] == 0 {
			return k[:i], k[i+1:], nil
		}
	}
	return "", "", errors.New("no key")
}
