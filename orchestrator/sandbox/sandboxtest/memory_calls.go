package sandboxtest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strconv"
	"time"

	"brig/orchestrator/wire"
	"brig/orchestrator/workspace"
)

// call answers one question, beside whatever runs.
func (h *memoryRunner) call(l *link, m wire.CallMessage, in io.Reader) {
	body, out, err := h.answer(m, in)
	reply := wire.ReplyMessage{ID: m.ID}
	switch {
	case err != nil:
		reply.Error = refusal(err)
	case body != nil:
		text, err := json.Marshal(body)
		if err != nil {
			panic("BUG: the body of a reply does not marshal: " + err.Error())
		}
		reply.Body = text
	}
	if r, ok := in.(*wire.RecvStream); ok {
		r.Reset("the call is answered") // nothing, unless it was answered early
	}
	if out == nil {
		_ = l.mux.Post(reply) // fails when the connection has ended
		return
	}
	defer out.Close()
	streams, err := l.mux.Announce(1, func(s []*wire.SendStream) wire.Message {
		reply.Out = s[0].ID()
		return reply
	})
	if err != nil {
		_ = l.mux.Post(wire.ReplyMessage{ID: m.ID, Error: refusal(err)})
		return
	}
	if _, err := io.Copy(sender{l, streams[0]}, out); err != nil {
		streams[0].Reset(err.Error())
		return
	}
	_ = streams[0].End(l.ctx) // fails when brig wants no more
}

// sender makes a stream an io.Writer.
type sender struct {
	l *link
	s *wire.SendStream
}

func (s sender) Write(p []byte) (int, error) {
	if err := s.s.Send(s.l.ctx, p); err != nil {
		return 0, err
	}
	return len(p), nil
}

// refusal names the reason for which a call failed.
func refusal(err error) *wire.CallError {
	var ready *wire.CallError
	if errors.As(err, &ready) {
		return ready
	}
	code := string(wire.CodeFailed)
	for _, known := range []struct {
		err  error
		code string
	}{
		{fs.ErrNotExist, wire.CodeNotFound},
		{fs.ErrPermission, wire.CodeDenied},
		{workspace.ErrName, wire.CodeInvalid},
		{workspace.ErrEscapes, wire.CodeDenied},
		{workspace.ErrNotRegular, wire.CodeDenied},
		{workspace.ErrLinked, wire.CodeDenied},
		{workspace.ErrTooLarge, wire.CodeTooLarge},
		{workspace.ErrQuota, wire.CodeNoSpace},
		{workspace.ErrNoSpace, wire.CodeNoSpace},
	} {
		if errors.Is(err, known.err) {
			code = known.code
			break
		}
	}
	return &wire.CallError{Code: code, Message: err.Error()}
}

func (h *memoryRunner) answer(m wire.CallMessage, in io.Reader) (body any, out io.ReadCloser, err error) {
	switch m.Op {
	case wire.OpPing:
		return nil, nil, nil
	case wire.OpBind:
		return nil, nil, h.take(m.Args)
	case wire.OpInterrupt:
		return nil, nil, h.interrupt(m.Args)
	case wire.OpUsage:
		return wire.UsageBody{Processes: len(h.table.list()), RSS: 1}, nil, nil
	case wire.OpPut:
		_, err := h.files.PutAny(m.Args.Path, in, fs.FileMode(m.Args.Mode))
		return nil, nil, err
	case wire.OpGet:
		out, _, err := h.files.Get(m.Args.Path, 0)
		return nil, out, err
	case wire.OpList:
		body, err := h.list(m.Args)
		return body, nil, err
	case wire.OpRemove:
		return nil, nil, h.files.Remove(m.Args.Path)
	case wire.OpTables:
		return nil, nil, h.register(in)
	case wire.OpVariables, wire.OpReset, wire.OpCheckpoint, wire.OpRestore:
		return h.interpreter(m.Op, in)
	}
	return nil, nil, &wire.CallError{Code: wire.CodeUnsupported, Message: fmt.Sprintf("op %q is unknown", m.Op)}
}

// take gives the runner to a session. What it was told shows only where a
// program asks for it: the fake has neither clock nor locale.
func (h *memoryRunner) take(a wire.ControlArgs) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ran {
		return &wire.CallError{Code: wire.CodeInvalid, Message: "a run came before it"}
	}
	h.bound = a
	return nil
}

// register takes the list of datasets. The fake has nothing to read them with, so
// that they are well formed is all that it finds out.
func (h *memoryRunner) register(in io.Reader) error {
	var listed []wire.Table
	if in == nil || json.NewDecoder(io.LimitReader(in, wire.MaxTablesBytes)).Decode(&listed) != nil {
		return &wire.CallError{Code: wire.CodeInvalid, Message: "not a list of datasets"}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.tables = listed
	return nil
}

// place is what a program would see of the claim.
func (h *memoryRunner) place() placeReport {
	h.mu.Lock()
	claim := h.bound
	h.mu.Unlock()
	zone, err := time.LoadLocation(claim.Timezone)
	if err != nil {
		zone = time.UTC
	}
	r := placeReport{Offset: time.Unix(1750000000, 0).In(zone).Format("-0700"), Locale: claim.Locale, Installed: true}
	if r.Locale == "" {
		r.Locale = "C.UTF-8"
	}
	return r
}

// listed is how many entries fit into one answer, as a frame bounds it elsewhere.
const listed = 300

func (h *memoryRunner) list(a wire.ControlArgs) (wire.ListBody, error) {
	entries, omitted, err := h.files.List(a.Path, workspace.MaxEntries)
	if err != nil {
		return wire.ListBody{}, err
	}
	limit := a.Limit
	if limit == 0 {
		limit = workspace.DefaultLimit
	}
	body := wire.ListBody{Entries: []wire.Entry{}, Omitted: omitted}
	for _, e := range entries {
		if e.Path <= a.After {
			continue
		}
		if len(body.Entries) == min(limit, listed) {
			body.Omitted++
			continue
		}
		body.Entries = append(body.Entries, wire.Entry{
			Path: e.Path, Kind: string(e.Kind), Size: e.Size, ModUnix: e.ModTime.UnixNano(), Changed: e.Changed, Closed: e.Problem != "",
		})
	}
	return body, nil
}

// checkpointed is the fake's checkpoint: opaque to everybody else.
type checkpointed struct {
	Ints map[string]int64 `json:"ints"`
}

// interpreter does what needs the variables, in the worker and never beside a run.
func (h *memoryRunner) interpreter(op wire.Op, in io.Reader) (body any, out io.ReadCloser, err error) {
	var saved checkpointed
	if op == wire.OpRestore {
		if err := json.NewDecoder(in).Decode(&saved); err != nil {
			return nil, nil, &wire.CallError{Code: wire.CodeInvalid, Message: "not a checkpoint"}
		}
	}
	c := &cell{over: make(chan struct{})}
	c.op = func(vars *namespace) {
		switch op {
		case wire.OpVariables:
			body = vars.list()
		case wire.OpReset:
			*vars = *newNamespace()
		case wire.OpCheckpoint:
			body, out = vars.checkpoint()
		case wire.OpRestore:
			for name, n := range saved.Ints {
				vars.ints[name] = n
			}
		}
	}
	h.mu.Lock()
	busy, ended, jobs, worker := h.current != nil, h.ended, h.jobs, h.worker
	h.mu.Unlock()
	if busy || ended {
		return nil, nil, &wire.CallError{Code: wire.CodeBusy, Message: "a run is active"}
	}
	select {
	case jobs <- c:
		<-c.over
		return body, out, nil
	case <-worker.gone:
		return nil, nil, &wire.CallError{Code: wire.CodeBusy, Message: "the interpreter is being replaced"}
	}
}

func (n *namespace) list() wire.VariablesBody {
	body := wire.VariablesBody{Variables: []wire.Variable{}}
	for name, v := range n.ints {
		body.Variables = append(body.Variables, wire.Variable{Name: name, Type: "int", Bytes: 28, Repr: strconv.FormatInt(v, 10)})
	}
	for name := range n.generators {
		body.Variables = append(body.Variables, wire.Variable{Name: name, Type: "generator"})
	}
	slices.SortFunc(body.Variables, func(a, b wire.Variable) int {
		if a.Name < b.Name {
			return -1
		}
		return 1
	})
	return body
}

func (n *namespace) checkpoint() (wire.CheckpointBody, io.ReadCloser) {
	body := wire.CheckpointBody{Saved: []string{}, Skipped: map[string]string{}}
	for name := range n.ints {
		body.Saved = append(body.Saved, name)
	}
	slices.Sort(body.Saved)
	for name := range n.generators {
		body.Skipped[name] = "cannot pickle 'generator' object"
	}
	text, err := json.Marshal(checkpointed{Ints: n.ints})
	if err != nil {
		panic("BUG: a checkpoint does not marshal: " + err.Error())
	}
	return body, io.NopCloser(bytes.NewReader(text))
}
