package runner

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"brig/orchestrator/wire"
)

func TestVariables(t *testing.T) {
	each(t, func(t *testing.T, p interpreter) {
		r := start(t, p)
		r.ok(`
import collections, os
class Trap:
    """Whoever touches it is found out."""
    def hit(self, *a): open('touched', 'a').write('x')
    __repr__ = __str__ = __len__ = __sizeof__ = __getattribute__ = hit
    shape = property(hit)
class Meta(type):
    __module__ = property(Trap.hit)
    def __getattribute__(self, name): Trap.hit(self)
class Sub(list, metaclass=Meta): __len__ = Trap.hit
class Text(str): __repr__ = Trap.hit
trap, sub, text = Trap(), Sub(), Text('t')
n, big, f, s, none, flag = 5, 10 ** 100_000, 1.5, 'é' * 200, None, True
l, d, b, od = [1, 2, 3], {'a': 1}, b'\xff', collections.OrderedDict(a=1)
_private, _ = 1, 2
globals()[3] = 'odd'; globals()['odd name'] = 4
del Meta`)
		var body wire.VariablesBody
		r.call(wire.OpVariables, wire.ControlArgs{}, &body)
		got := make(map[string]wire.Variable)
		for _, v := range body.Variables {
			got[v.Name] = v
		}
		for name, want := range map[string]wire.Variable{
			"n": {Type: "int", Repr: "5"}, "big": {Type: "int"}, "f": {Type: "float", Repr: "1.5"}, "none": {Type: "NoneType", Repr: "None"},
			"flag": {Type: "bool", Repr: "True"}, "l": {Type: "list", Shape: "3"}, "d": {Type: "dict", Shape: "1"}, "b": {Type: "bytes", Shape: "1", Repr: `b'\xff'`},
			"od": {Type: "collections.OrderedDict"}, "trap": {Type: "Trap"}, "sub": {Type: "Sub"}, "text": {Type: "Text"}, "os": {Type: "module"},
			"Trap": {Type: "type"}, "_private": {Type: "int", Repr: "1"}, "odd name": {Type: "int", Repr: "4"},
		} {
			v, ok := got[name]
			if !ok || v.Type != want.Type || v.Shape != want.Shape || v.Repr != want.Repr || v.Bytes <= 0 {
				t.Errorf("%s: %+v, want %+v", name, v, want)
			}
		}
		if s := got["s"]; s.Shape != "200" || len([]rune(s.Repr)) != 80 || !strings.HasPrefix(s.Repr, "'ééé") {
			t.Errorf("s: %+v", s)
		}
		for _, name := range []string{"_", "__name__", "__builtins__"} {
			if _, ok := got[name]; ok {
				t.Errorf("%s is listed", name)
			}
		}
		if !slices.IsSortedFunc(body.Variables, func(a, b wire.Variable) int { return strings.Compare(a.Name, b.Name) }) {
			t.Error("not sorted")
		}
		if files := r.ok("print(os.listdir())"); files.out != "[]\n" {
			t.Errorf("user code was called: %s", files.out)
		}

		r.ok("for i in range(3000): globals()['v%04d' % i] = '\\x00' * 90")
		r.call(wire.OpVariables, wire.ControlArgs{Limit: 10_000}, &body)
		if len(body.Variables) < 50 || body.Omitted < 1000 || len(body.Variables)+body.Omitted < 3000 {
			t.Errorf("%d listed, %d omitted", len(body.Variables), body.Omitted)
		}
		r.call(wire.OpVariables, wire.ControlArgs{Limit: 2}, &body)
		if len(body.Variables) != 2 {
			t.Errorf("%d listed with a limit of 2", len(body.Variables))
		}
	})
}

func TestReset(t *testing.T) {
	each(t, func(t *testing.T, p interpreter) {
		r := start(t, p)
		r.ok("from __future__ import annotations\nimport os, threading\nx = 1\ndef f(): return x\ncalls = []\npid = os.getpid(); open('pid', 'w').write(str(pid))")
		r.call(wire.OpReset, wire.ControlArgs{}, nil)
		if got := r.run("x"); got.Exception == nil || got.Exception.Name != "NameError" {
			t.Errorf("%s", got)
		}
		got := r.ok("import os, sys\nprint('threading' in sys.modules, str(os.getpid()) == open('pid').read(), __name__, sys.modules['__main__'].__dict__ is globals())")
		if got.out != "True True __main__ True\n" {
			t.Errorf("%s", got)
		}
		if got := r.ok("def g(a: int): pass\ng.__annotations__['a']"); got.part("text/plain") != "<class 'int'>" {
			t.Errorf("a future of the old namespace: %s", got.part("text/plain"))
		}
	})
}

func TestCheckpoint(t *testing.T) {
	each(t, func(t *testing.T, p interpreter) {
		r := start(t, p)
		r.ok(`
import math, collections, threading
from os import path
number, text, nested, big = 1, 'é', {'a': [1, (2, 3)]}, b'x' * 5_000_000
counter = collections.Counter('abc')
def f(): pass
class C: pass
c, lock, gen, lam = C(), threading.Lock(), (i for i in ()), lambda: 1
holder = [c]
class Stubborn:
    def __reduce__(self): raise RuntimeError('never')
s = Stubborn()`)
		var kept bytes.Buffer
		reply, err := r.Call(limited(t), wire.Control{Op: wire.OpCheckpoint}, nil, &kept)
		if err != nil {
			t.Fatal(err)
		}
		var body wire.CheckpointBody
		decode(t, reply, &body)
		if want := []string{"big", "collections", "counter", "math", "nested", "number", "path", "text", "threading"}; !slices.Equal(body.Saved, want) {
			t.Errorf("saved %v, want %v", body.Saved, want)
		}
		for name, reason := range map[string]string{
			"f": "defined in this session", "C": "defined in this session", "c": "C is defined in this session", "holder": "C is defined in this session",
			"lam": "defined in this session", "lock": "pickle", "gen": "pickle", "s": "",
		} {
			if !strings.Contains(body.Skipped[name], reason) || body.Skipped[name] == "" {
				t.Errorf("%s was skipped because of %q", name, body.Skipped[name])
			}
		}
		if len(kept.Bytes()) < 5_000_000 {
			t.Errorf("%d bytes", kept.Len())
		}

		other := start(t, p)
		reply, err = other.Call(limited(t), wire.Control{Op: wire.OpRestore}, bytes.NewReader(kept.Bytes()), nil)
		if err != nil {
			t.Fatal(err)
		}
		body = wire.CheckpointBody{}
		decode(t, reply, &body)
		if len(body.Saved) != 9 || len(body.Skipped) != 0 {
			t.Errorf("restored %+v", body)
		}
		if got := other.ok("print(number, text, nested, len(big), counter['a'], math.pi > 3, path.sep)"); got.out != "1 é {'a': [1, (2, 3)]} 5000000 1 True /\n" {
			t.Errorf("%s", got)
		}

		for name, data := range map[string][]byte{"nothing": {}, "something else": []byte("x"), "cut off": kept.Bytes()[:kept.Len()-1]} {
			if _, err := other.Call(limited(t), wire.Control{Op: wire.OpRestore}, bytes.NewReader(data), nil); code(err) != wire.CodeFailed {
				t.Errorf("restore of %s: %v", name, err)
			}
		}
		if _, err := other.Call(limited(t), wire.Control{Op: wire.OpRestore}, nil, nil); code(err) != wire.CodeInvalid {
			t.Errorf("restore without input: %v", err)
		}
		other.ok("number")
	})
}

func decode(t *testing.T, reply wire.Reply, body any) {
	t.Helper()
	if err := unmarshal(reply.Body, body); err != nil {
		t.Fatalf("body %s: %v", reply.Body, err)
	}
}

// TestBusy: what needs the interpreter waits for nobody.
func TestBusy(t *testing.T) {
	each(t, func(t *testing.T, p interpreter) {
		r := start(t, p)
		run := r.background("import time\nprint('ready', flush=True)\ntime.sleep(1000)")
		run.until(t, "ready")
		for _, op := range []wire.Op{wire.OpVariables, wire.OpReset, wire.OpCheckpoint} {
			if _, err := r.Call(limited(t), wire.Control{Op: op}, nil, nil); code(err) != wire.CodeBusy {
				t.Errorf("%s during a run: %v", op, err)
			}
		}
		if _, err := r.Call(limited(t), wire.Control{Op: wire.OpRestore}, bytes.NewReader(make([]byte, 1<<20)), nil); code(err) != wire.CodeBusy {
			t.Errorf("restore during a run: %v", err)
		}
		r.interrupt(run, wire.Soft, false)
		<-run.done

		// A call whose user code never ends: the run behind it can still be ended.
		r.ok("class Slow:\n  def __reduce__(self):\n    open('reducing', 'w').close()\n    while True: pass\nslow = Slow()")
		asked := make(chan error, 1)
		go func() {
			_, err := r.Call(limited(t), wire.Control{Op: wire.OpCheckpoint}, nil, nil)
			asked <- err
		}()
		await(t, "the call to be under way", func() bool {
			_, err := r.get("reducing")
			return err == nil
		})
		if _, err := r.Call(limited(t), wire.Control{Op: wire.OpVariables}, nil, nil); code(err) != wire.CodeBusy {
			t.Errorf("variables during a checkpoint: %v", err)
		}
		run = r.background("1")
		await(t, "the run to be known", func() bool { return r.Interrupt(limited(t), run.id, wire.Hard, true) == nil })
		if got := <-run.done; got.err != nil || got.Outcome != wire.OutcomeInterrupted || !got.Hard || got.State != wire.StateLost || got.errout != "" {
			t.Errorf("%s", got) // whoever ended it knows: no line about a signal that brig sent itself
		}
		if err := <-asked; code(err) != wire.CodeFailed {
			t.Errorf("the call: %v", err)
		}
		if got := r.ok("1"); got.State != wire.StateKept || got.errout != "" {
			t.Errorf("the run after it: %s", got)
		}
	})
}
