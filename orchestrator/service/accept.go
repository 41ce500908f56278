package service

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"time"

	"brig/orchestrator"
	"brig/orchestrator/api"
	"brig/orchestrator/store"
	"brig/orchestrator/wire"
	"brig/orchestrator/workspace"
)

const (
	// pendingMost is how many runs of a session may be under way: one that runs and
	// those that wait for it.
	pendingMost = 9
	// sourcesMost bounds the sources of all runs under way together, in bytes.
	sourcesMost = 256 << 20
	// inlineMost bounds the files inside of one request, in bytes.
	inlineMost = 16 << 20
	// keyMost is the length of an idempotency key, in characters.
	keyMost = 255
)

// accept checks a request, records the run and begins it. earlier is the run of
// the same key, if there is one; then nothing is begun. durable: the record is on
// the disk when accept returns.
func (v *view) accept(ctx context.Context, name string, q api.RunRequest, o api.RunOptions, durable bool) (_ *run, earlier *string, err error) {
	if err := v.checkRun(name, q, o); err != nil {
		return nil, nil, err
	}
	if err := v.approved(); err != nil {
		return nil, nil, err
	}
	x := (*session)(nil)
	if name != "" {
		if x, err = v.find(ctx, name); err != nil {
			return nil, nil, err
		}
	} else {
		if x, err = v.oneShot(q); err != nil {
			return nil, nil, err
		}
	}
	source := q.Source()
	if q.Path != "" {
		if source, err = v.readSource(x, q); err != nil {
			return nil, nil, err
		}
		if q.Filename == "" {
			q.Filename = q.Path
		}
	}
	life, cancel := context.WithCancelCause(context.Background())
	r := &run{
		life: life, cancel: cancel,
		s: v.s, session: x, v: v, request: q, source: source,
		id: orchestrator.NewRunID(), events: newRing(runStream, 0), queued: make(chan struct{}), done: make(chan struct{}),
	}
	sum := sha256.Sum256(source)
	r.view = api.Run{
		ID: string(r.id), Session: x.id, State: api.RunQueued, Created: time.Now().UTC(), CodeSHA256: hex.EncodeToString(sum[:]),
		CodeBytes: int64(len(source)), Filename: q.Filename, Displays: []api.Display{},
	}
	if err := v.s.admit(r); err != nil {
		return nil, nil, err
	}
	known, err := v.record(ctx, r, name, o.Key, durable)
	if err != nil || known != nil {
		v.s.dismiss(r)
		if known != nil {
			return nil, &known.ID, nil
		}
		return nil, nil, err
	}
	if err := v.s.accepted(ctx, r); err != nil {
		// Nothing was executed: whoever repeats the request is told the same.
		r.finish(orchestrator.Result{}, err)
		v.s.work.Done()
		return nil, nil, err
	}
	r.begin()
	return r, nil, nil
}

// record writes the run down before anything of it is done.
func (v *view) record(ctx context.Context, r *run, name, key string, durable bool) (known *store.Run, err error) {
	row := store.Run{
		ID: string(r.id), Session: r.session.id, Name: r.session.name, Creator: r.session.creator, Caller: v.c.ID, Created: r.view.Created,
		Summary: mustJSON(r.view), Source: r.source,
	}
	var k *store.Key
	if key != "" {
		scope := r.session.id
		if r.session.oneShot {
			scope = ""
		}
		asked := mustJSON(struct {
			Session string
			Request api.RunRequest
		}{scope, r.request})
		k = &store.Key{Credential: v.c.ID, Key: key, Hash: sha256.Sum256(asked)}
	}
	soon, cancel := context.WithTimeout(ctx, recordBound)
	defer cancel()
	known, err = v.s.options.Store.AddRun(soon, row, k, durable)
	switch {
	case errors.Is(err, store.ErrKeyReused):
		return nil, api.NewProblem(api.CodeKeyReused, "this idempotency key was used for another request", "")
	case errors.Is(err, store.ErrNotFound):
		return nil, forgotten()
	case err != nil:
		return nil, v.s.storage(ctx, err)
	}
	return known, nil
}

// checkRun finds what is wrong with a request before anything is looked for.
func (v *view) checkRun(name string, q api.RunRequest, o api.RunOptions) error {
	switch {
	case q.Code == "" && len(q.CodeBase64) == 0 && q.Path == "":
		return invalid("body.code", "there is neither code nor a path")
	case q.Code != "" && len(q.CodeBase64) > 0:
		return invalid("body.code_base64", "there is code as well: leave one out")
	case (q.Code != "" || len(q.CodeBase64) > 0) && q.Path != "":
		return invalid("body.path", "there are both code and a path: leave one out")
	case len(q.Code) > wire.MaxCode || len(q.CodeBase64) > wire.MaxCode:
		return api.NewProblem(api.CodeTooLarge, fmt.Sprintf("the code has more than %d bytes", wire.MaxCode), "put data into a file of the session")
	case q.Path != "" && !strings.HasSuffix(strings.ToLower(q.Path), ".py"):
		return invalid("body.path", "only a .py file can be run")
	case q.TimeoutMs < 0:
		return invalid("body.timeout_ms", "it is below zero")
	case time.Duration(q.TimeoutMs) > v.s.options.Config().Config.Limits.MaxTimeout/time.Millisecond:
		return invalid("body.timeout_ms", orchestrator.ErrTimeoutRange.Error())
	case name != "" && q.Session != nil:
		return invalid("body.session", "it is for runs in a session of their own alone")
	case len(q.Filename) > 255 || strings.ContainsAny(q.Filename, "\x00\n\r"):
		return invalid("body.filename", "it is longer than 255 bytes or has a line break in it")
	case len(q.Argv) > 1000:
		return invalid("body.argv", "there are more than 1000")
	case len(q.Files) > 1000:
		return invalid("body.files", "there are more than 1000")
	}
	total := 0
	for i, a := range q.Argv {
		if total += len(a); strings.ContainsRune(a, 0) || total > 1<<20 {
			return invalid(fmt.Sprintf("body.argv[%d]", i), "it has a zero byte in it, or all of them are longer than 1 MiB")
		}
	}
	total = 0
	for i, f := range q.Files {
		if total += len(f.Text) + len(f.Base64); total > inlineMost {
			return api.NewProblem(api.CodeTooLarge, fmt.Sprintf("the files in the request have more than %d bytes", inlineMost), "brig files put")
		}
		if f.Path == "" || f.Text != "" && len(f.Base64) > 0 {
			return invalid(fmt.Sprintf("body.files[%d]", i), "it has no path, or both text and base64")
		}
	}
	return checkKey(o.Key)
}

func checkKey(key string) error {
	if len(key) > keyMost {
		return invalid("header.idempotency-key", fmt.Sprintf("it has more than %d characters", keyMost))
	}
	for _, c := range []byte(key) {
		if c < 0x20 || c > 0x7e {
			return invalid("header.idempotency-key", "only printable ASCII characters are allowed")
		}
	}
	return nil
}

// readSource is a program of the request's files or of the workspace.
func (v *view) readSource(x *session, q api.RunRequest) ([]byte, error) {
	for _, f := range q.Files {
		if f.Path == q.Path {
			return content(f), nil
		}
	}
	if x.oneShot {
		return nil, invalid("body.path", "a run in a session of its own has only the files of the request, and it is none of them")
	}
	file, _, err := x.live.Workspace().Get(q.Path, wire.MaxCode)
	if err == nil {
		defer file.Close()
		var text []byte
		if text, err = io.ReadAll(file); err == nil {
			return text, nil
		}
	}
	var named *workspace.Error
	switch {
	case errors.Is(err, workspace.ErrTooLarge):
		return nil, api.NewProblem(api.CodeTooLarge, err.Error(), "")
	case errors.Is(err, fs.ErrNotExist):
		return nil, api.NewProblem(api.CodeNotFound, err.Error(), "brig files ls")
	case errors.As(err, &named):
		return nil, api.NewProblem(api.CodeUnusable, err.Error(), "brig files ls")
	}
	return nil, v.s.problem(err)
}

// putFiles puts the files of a request into the workspace.
func (r *run) putFiles(ctx context.Context) error {
	for _, f := range r.request.Files {
		data := content(f)
		if _, err := r.v.WriteFile(ctx, r.session.id, f.Path, bytes.NewReader(data), api.WriteOptions{Bytes: int64(len(data))}); err != nil {
			return err
		}
	}
	return nil
}

func content(f api.InlineFile) []byte {
	if f.Text != "" {
		return []byte(f.Text)
	}
	return f.Base64
}
