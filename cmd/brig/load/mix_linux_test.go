package load

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"brig/orchestrator/api"
)

func (b *brig) dial(name string) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "unix", filepath.Join(b.runtime, name))
	}
}

// tally is what clients met.
type tally struct {
	mu       sync.Mutex
	calls    map[string]int // by kind
	limited  map[api.Code]int
	problems []string
	live     []time.Duration // of small runs in a session that lives, without what they waited for earlier runs
}

func newTally() *tally { return &tally{calls: map[string]int{}, limited: map[api.Code]int{}} }

// declared are the problems that say "later": limits that brig tells of beforehand.
func declared(err error) (api.Code, bool) {
	var p *api.Problem
	if !errors.As(err, &p) {
		return "", false
	}
	return p.Code, p.Code == api.CodeBusy || p.Code == api.CodeRate || p.Code == api.CodeTooMany
}

func (t *tally) note(kind string, err error, took time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.calls[kind]++
	switch code, limit := declared(err); {
	case err == nil:
		if kind == "run" {
			t.live = append(t.live, took)
		}
	case limit:
		t.limited[code]++
	default:
		t.problems = append(t.problems, fmt.Sprintf("%s: %s %v", kind, code, err))
	}
}

// mixer is one client that does everything, in a session that it shares with others.
type mixer struct {
	api.Brig
	number  int
	session string
	rand    *rand.Rand
	files   map[string][]byte // its own, as acknowledged
	queued  time.Duration     // what the latest small run waited for earlier ones
}

func newMixer(c api.Brig, number int, session string) *mixer {
	return &mixer{Brig: c, number: number, session: session, rand: rand.New(rand.NewPCG(uint64(number), 7)), files: map[string][]byte{}}
}

var errWrong = errors.New("a wrong answer")

func wrong(format string, a ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{errWrong}, a...)...)
}

// step makes one call, or two that belong together.
func (m *mixer) step(ctx context.Context) (kind string, err error) {
	name := fmt.Sprintf("c%d/f%d.bin", m.number, m.rand.IntN(8))
	switch n := m.rand.IntN(1000); {
	case n < 420:
		return "run", m.sum(ctx)
	case n < 500:
		r, err := m.Run(ctx, m.session, api.RunRequest{Code: "for i in range(500): print(i, 'x' * 20)"}, api.RunOptions{}, func(api.Event) error { return nil })
		if err == nil && !ended(r) && (r.Cause != "ok" || r.Stdout.TotalBytes != 12390) {
			err = wrong("%s, %d bytes of output", r.Cause, r.Stdout.TotalBytes)
		}
		return "output", err
	case n < 620:
		content := make([]byte, m.rand.IntN(64<<10))
		for i := range content {
			content[i] = byte(m.rand.Uint32())
		}
		_, err := m.WriteFile(ctx, m.session, name, bytes.NewReader(content), api.WriteOptions{Bytes: int64(len(content))})
		if err == nil {
			m.files[name] = content
		}
		return "write", err
	case n < 700:
		return "read", m.read(ctx, name)
	case n < 720:
		err := m.RemoveFile(ctx, m.session, name, api.RemoveOptions{})
		if _, there := m.files[name]; !there && errors.Is(err, &api.Problem{Code: api.CodeNotFound}) {
			err = nil
		}
		if err == nil {
			delete(m.files, name)
		}
		return "remove", err
	case n < 760:
		_, err := m.Files(ctx, m.session, "", api.Page{Limit: 50})
		return "list", err
	case n < 800:
		_, err := m.Status(ctx)
		return "status", err
	case n < 830:
		_, err := m.Sessions(ctx, api.Page{Limit: 20})
		return "sessions", err
	case n < 860:
		_, err := m.Runs(ctx, m.session, api.Page{Limit: 20})
		return "runs", err
	case n < 880:
		_, err := m.Variables(ctx, m.session)
		if errors.Is(err, &api.Problem{Code: api.CodeConflict}) {
			err = nil // another client's interrupt has ended the interpreter
		}
		return "variables", err
	case n < 920:
		r, err := m.Start(ctx, m.session, api.RunRequest{Code: "sum(range(1000))"}, api.RunOptions{Key: fmt.Sprintf("k%d-%d", m.number, m.rand.Uint64())})
		for err == nil && r.State != api.RunEnded {
			r, err = m.FindRun(ctx, r.ID, api.FindOptions{Wait: 20 * time.Second})
		}
		return "start", err
	case n < 940:
		r, err := m.Start(ctx, m.session, api.RunRequest{Code: "import time; time.sleep(3)"}, api.RunOptions{})
		if err == nil {
			time.Sleep(time.Duration(m.rand.IntN(200)) * time.Millisecond)
			_, err = m.CancelRun(ctx, r.ID)
		}
		return "cancel", notRunning(err)
	case n < 950:
		return "interrupt", notRunning(m.Interrupt(ctx, m.session))
	case n < 960:
		table := fmt.Sprintf("c%d/t.csv", m.number)
		_, err := m.WriteFile(ctx, m.session, table, strings.NewReader("a,b\n1,2\n"), api.WriteOptions{})
		if err == nil {
			_, err = m.PutDataset(ctx, m.session, fmt.Sprintf("t%d", m.number), api.DatasetRequest{Path: table})
		}
		return "dataset", err
	case n < 970:
		return "archive", discard(m.ReadArchive(ctx, m.session, "", api.TarGz))
	case n < 980:
		return "export", discard(m.Export(ctx, m.session, api.Notebook))
	case n < 985:
		_, err := m.Reset(ctx, m.session, api.ResetOptions{})
		return "reset", err
	case n < 993:
		r, err := m.Run(ctx, "", api.RunRequest{Code: "print(6*7)"}, api.RunOptions{}, nil)
		if err == nil && r.Stdout.Text != "42\n" {
			err = wrong("%s %q", r.Cause, r.Stdout.Text)
		}
		return "oneshot", err
	default:
		s, _, err := m.OpenSession(ctx, api.SessionRequest{})
		if err == nil {
			_, err = m.Run(ctx, s.ID, api.RunRequest{Code: "1"}, api.RunOptions{}, nil)
			err = errors.Join(err, m.CloseSession(ctx, s.ID))
		}
		return "open", err
	}
}

// sum is a small run whose answer is known. Others may interrupt or reset the session.
func (m *mixer) sum(ctx context.Context) error {
	n := m.rand.IntN(1000)
	r, err := m.Run(ctx, m.session, api.RunRequest{Code: fmt.Sprintf("print(sum(range(%d)))", n)}, api.RunOptions{}, nil)
	m.queued = time.Duration(r.QueuedMs * float64(time.Millisecond))
	switch {
	case err != nil || ended(r):
		return err
	case r.Cause != "ok" || r.Stdout.Text != fmt.Sprintln(n*(n-1)/2):
		return wrong("%s (%s) %q for the sum below %d", r.Cause, r.Detail, r.Stdout.Text, n)
	}
	return nil
}

// ended tells a run that another client has ended.
func ended(r api.Run) bool {
	return r.Cause == "interrupted" || r.Cause == "cancelled" || r.Cause == "killed"
}

func (m *mixer) read(ctx context.Context, name string) error {
	content, there := m.files[name]
	body, _, err := m.ReadFile(ctx, m.session, name, api.Range{})
	if !there && errors.Is(err, &api.Problem{Code: api.CodeNotFound}) {
		return nil
	}
	if err != nil {
		return err
	}
	defer body.Close()
	got, err := io.ReadAll(body)
	if err == nil && !bytes.Equal(got, content) {
		return wrong("%d bytes of %s, want %d others", len(got), name, len(content))
	}
	return err
}

// notRunning leaves out that there was nothing to end any more.
func notRunning(err error) error {
	if errors.Is(err, &api.Problem{Code: api.CodeNotRunning}) {
		return nil
	}
	return err
}

func discard(body io.ReadCloser, err error) error {
	if err != nil {
		return err
	}
	defer body.Close()
	_, err = io.Copy(io.Discard, body)
	return err
}
