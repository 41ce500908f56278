package sandboxtest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"

	"brig/orchestrator/wire"
)

func stateCases() []testCase {
	return []testCase{
		{name: "Variables", run: caseVariables},
		{name: "Reset", run: caseReset},
		{name: "Checkpoint", run: caseCheckpoint},
		{name: "Tables", run: caseTables},
		{name: "Busy", run: caseBusy},
		{name: "BesideARun", run: caseBesideARun},
		{name: "UnknownOp", run: caseUnknownOp},
	}
}

func caseVariables(t *testing.T, s *suite) {
	b := s.any(t)
	b.ok(t, Program{Set("answer", 42)})
	var body wire.VariablesBody
	r := b.call(t, wire.OpVariables, wire.ControlArgs{})
	if err := json.Unmarshal(r.Body, &body); err != nil {
		t.Fatalf("read %s: %v", r.Body, err)
	}
	at := slices.IndexFunc(body.Variables, func(v wire.Variable) bool { return v.Name == "answer" })
	if at < 0 || body.Variables[at].Type != "int" || body.Variables[at].Repr != "42" {
		t.Errorf("variables: %+v", body)
	}
}

func caseReset(t *testing.T, s *suite) {
	b := s.any(t)
	b.ok(t, Program{Set("reset_me", 1)})
	b.call(t, wire.OpReset, wire.ControlArgs{})
	if o := b.run(t, Program{Show("reset_me")}); o.exit.Exception == nil || o.exit.Exception.Name != "NameError" {
		t.Errorf("after a reset: %s, stdout %q", describe(o.exit), head(o.stdout))
	}
	b.usable(t)
}

// caseTables: the list of datasets is taken at any time, and what is no such list is
// refused. That code finds them is for the tests of the runner, which has the readers.
func caseTables(t *testing.T, s *suite) {
	b := s.any(t)
	list := wire.Control{Op: wire.OpTables}
	for _, text := range []string{`[{"name":"one","path":"one.csv","format":"csv","active":true,"version":1}]`, `[]`} {
		if _, err := b.Call(limited(t), list, strings.NewReader(text), nil); err != nil {
			t.Errorf("tables %s: %v", text, err)
		}
		b.usable(t)
	}
	_, err := b.Call(limited(t), list, strings.NewReader(`{}`), nil)
	refused(t, "what is no list", err, wire.CodeInvalid)
	_, err = b.Call(limited(t), list, nil, nil)
	refused(t, "no list", err, wire.CodeInvalid)
	b.usable(t)
}

func caseCheckpoint(t *testing.T, s *suite) {
	b := s.any(t)
	b.call(t, wire.OpReset, wire.ControlArgs{})
	b.ok(t, Program{Set("saved", 11), SetUnpicklable("not_saved")})
	var kept bytes.Buffer
	r, err := b.Call(limited(t), wire.Control{Op: wire.OpCheckpoint}, nil, &kept)
	if err != nil {
		t.Fatalf("checkpoint: %v", err)
	}
	var body wire.CheckpointBody
	if err := json.Unmarshal(r.Body, &body); err != nil {
		t.Fatalf("read %s: %v", r.Body, err)
	}
	if !slices.Contains(body.Saved, "saved") || slices.Contains(body.Saved, "not_saved") || body.Skipped["not_saved"] == "" {
		t.Errorf("checkpoint: %+v", body)
	}
	b.call(t, wire.OpReset, wire.ControlArgs{})
	if _, err := b.Call(limited(t), wire.Control{Op: wire.OpRestore}, bytes.NewReader(kept.Bytes()), nil); err != nil {
		t.Fatalf("restore: %v", err)
	}
	if o := b.ok(t, Program{Show("saved")}); string(o.stdout) != "11\n" {
		t.Errorf("the restored variable is %q", head(o.stdout))
	}
	_, err = b.Call(limited(t), wire.Control{Op: wire.OpRestore}, bytes.NewReader([]byte("not a checkpoint")), nil)
	refused(t, "restore of something else", err)
	b.usable(t)
}

// caseBusy: what needs the interpreter is refused while a run has it.
func caseBusy(t *testing.T, s *suite) {
	b := s.any(t)
	l := b.start(limited(t), t, Program{Print("ready"), Sleep(ages)})
	l.until(t, "ready\n")
	for _, op := range []wire.Op{wire.OpVariables, wire.OpReset, wire.OpCheckpoint} {
		_, err := b.Call(limited(t), wire.Control{Op: op}, nil, nil)
		refused(t, string(op)+" during a run", err, wire.CodeBusy)
	}
	if !l.running() {
		t.Error("the run ended by itself")
	}
	b.interrupt(t, l, wire.Soft, false)
	l.wait()
}

// caseBesideARun asks many things at once while a program spins.
func caseBesideARun(t *testing.T, s *suite) {
	b := s.any(t)
	l := b.start(limited(t), t, Program{Print("ready"), Spin()})
	l.until(t, "ready\n")
	var wg sync.WaitGroup
	for i := range 12 {
		wg.Go(func() {
			if err := b.manyCalls(limited(t), fmt.Sprintf("beside/%d", i)); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if !l.running() {
		t.Error("the run ended by itself")
	}
	b.interrupt(t, l, wire.Soft, false)
	if o := l.wait(); o.err != nil || o.exit.Outcome != wire.OutcomeInterrupted {
		t.Errorf("ended %s, %v", describe(o.exit), o.err)
	}
}

// manyCalls puts and gets a file and asks everything that needs no interpreter.
func (b *box) manyCalls(ctx context.Context, name string) error {
	var got bytes.Buffer
	var usage wire.UsageBody
	for _, c := range []struct {
		op   wire.Op
		in   io.Reader
		out  io.Writer
		body any
	}{
		{op: wire.OpPut, in: strings.NewReader(name)},
		{op: wire.OpGet, out: &got},
		{op: wire.OpPing},
		{op: wire.OpList, body: &wire.ListBody{}},
		{op: wire.OpUsage, body: &usage},
	} {
		r, err := b.Call(ctx, wire.Control{Op: c.op, Args: wire.ControlArgs{Path: name}}, c.in, c.out)
		if err == nil && c.body != nil {
			err = json.Unmarshal(r.Body, c.body)
		}
		if err != nil {
			return fmt.Errorf("call %s: %w", c.op, err)
		}
	}
	if got.String() != name || usage.Processes < 1 || usage.RSS < 1 {
		return fmt.Errorf("the file %s holds %q, usage is %+v", name, head(got.Bytes()), usage)
	}
	return nil
}

func caseUnknownOp(t *testing.T, s *suite) {
	b := s.any(t)
	_, err := b.Call(limited(t), wire.Control{Op: "no-such-op"}, nil, nil)
	refused(t, "an unknown op", err)
	b.usable(t)
}
