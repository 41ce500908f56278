package runner

import (
	"slices"
	"strings"
	"testing"

	"brig/orchestrator/wire"
)

// A cell is one run in a session; the cells of a table share their session.
type cell struct {
	source    string
	out       string // standard output, exactly
	result    string // text/plain of the last display; "" means that there is none
	exception string // name of the uncaught exception
	message   string // contained in its message
	traceback string // contained in its traceback
}

func (c cell) check(t *testing.T, got *result) {
	t.Helper()
	want := wire.OutcomeOK
	if c.exception != "" {
		want = wire.OutcomeException
	}
	if got.err != nil || got.Outcome != want || got.State != wire.StateKept {
		t.Fatalf("%.200q: %s", c.source, got)
	}
	if got.out != c.out {
		t.Errorf("%.200q: stdout %q, want %q", c.source, got.out, c.out)
	}
	plain := ""
	if len(got.displays) > 0 {
		plain = got.part("text/plain")
	}
	if plain != c.result {
		t.Errorf("%.200q: result %q, want %q", c.source, plain, c.result)
	}
	if c.exception == "" {
		return
	}
	e := got.Exception
	if e.Name != c.exception || !strings.Contains(e.Message, c.message) || !strings.Contains(e.Traceback, c.traceback) {
		t.Errorf("%.200q: exception %s, %q, frames %+v\n%s", c.source, e.Name, e.Message, e.Frames, e.Traceback)
	}
	if strings.Contains(e.Traceback, "brigrunner") {
		t.Errorf("%.200q: the traceback shows the runner:\n%s", c.source, e.Traceback)
	}
}

func TestCells(t *testing.T) {
	cells := []cell{
		// Results.
		{source: "x = 6", result: ""},
		{source: "x * 7", result: "42"},
		{source: "_ + 1", result: "43"},
		{source: "x * 7;", result: ""},
		{source: "(x *\n 7) ; # quiet", result: ""},
		{source: "'a;b' # not ; quiet", result: "'a;b'"},
		{source: "é = 'ü'; é;", result: ""},
		{source: "None", result: ""},
		{source: "'docstring?'", result: "'docstring?'"},
		{source: "", result: ""},
		{source: "# nothing\n", result: ""},
		{source: "for i in range(3): i", result: ""},
		{source: "def f(): return 1\nf()", result: "1"},
		{source: "print('a'); 2", out: "a\n", result: "2"},
		{source: "class Bad:\n  def __repr__(self): raise ValueError('no')\nBad()", result: "<Bad object, whose repr failed: ValueError: no>"},

		// Where it runs.
		{source: "__name__", result: "'__main__'"},
		{source: "import sys; sys.modules['__main__'].x", result: "6"},
		{source: "sys.stdin.read()", result: "''"},
		{source: "import os; os.read(0, 1)", result: "b''"},
		{source: "os.getcwd() == sys.path[0], os.environ['MPLBACKEND']", result: "(True, 'Agg')"},
		{
			source: "import tempfile; [p.startswith(os.environ['TMPDIR']) for p in (tempfile.gettempdir(), os.path.expanduser('~').replace('home', 'tmp'))]",
			result: "[True, True]",
		},
		{source: "import time; time.tzname[0], time.strftime('%H', time.localtime(0))", result: "('EST', '19')"},
		{source: "sys.stdout.encoding, sys.stderr.errors, sys.getfilesystemencoding()", result: "('utf-8', 'backslashreplace', 'utf-8')"},
		{source: "print('\\udcff\\u00e9')", out: "\xff\xc3\xa9\n"},

		// Await.
		{source: "import asyncio\nawait asyncio.sleep(0, 'slept')", result: "'slept'"},
		{source: "async def g():\n  await asyncio.sleep(0)\n  return 9\nasyncio.run(g())", result: "9"},
		{source: "y = await g()\ny", result: "9"},
		{source: "asyncio.run(g()) + 1", result: "10"},
		{source: "[i async for i in __import__('types').SimpleNamespace(__aiter__=1)]" + " if False else 'async comprehension'", result: "'async comprehension'"},
		{source: "async with asyncio.Lock() as l: print('locked')", out: "locked\n"},
		{source: "queue = asyncio.Queue(); queue.put_nowait(1)\nawait queue.get()", result: "1"},
		{source: "await asyncio.sleep(0); 1/0", exception: "ZeroDivisionError", traceback: "await asyncio.sleep(0); 1/0"},
		{source: "def plain():\n  await g()", exception: "SyntaxError", message: "'await' outside"},

		// Exceptions.
		{source: "1/0", exception: "ZeroDivisionError", message: "division by zero", traceback: "Traceback (most recent call last):\n  File \"<cell "},
		{source: "def bad():\n    raise KeyError('k')\nbad()", exception: "KeyError", message: "'k'", traceback: "    raise KeyError('k')"},
		{source: "import json; json.loads('{')", exception: "json.decoder.JSONDecodeError", message: "Expecting"},
		{source: "class E(Exception): pass\nraise E('mine')", exception: "E", message: "mine"},
		{source: "try: 1/0\nexcept Exception as e: raise ValueError('v') from e", exception: "ValueError", traceback: "direct cause"},
		{source: "try: 1/0\nexcept Exception as e: undefined", exception: "NameError", traceback: "another exception occurred"},
		{source: "class U(Exception):\n  def __str__(self): raise RuntimeError\nraise U", exception: "U", message: "<unprintable U object>"},
		{source: "def deep(): deep()\ndeep()", exception: "RecursionError", message: "recursion", traceback: "more times]"},
		{source: "raise ValueError('\\udc80 \\x00 \\x1b[31m')", exception: "ValueError", message: "\\udc80 \x00 \x1b[31m"},
		{source: "raise KeyboardInterrupt", exception: "KeyboardInterrupt"},
		{source: "raise GeneratorExit('g')", exception: "GeneratorExit", message: "g"},

		// Source that is no program.
		{source: "if x\n  y", exception: "SyntaxError", traceback: "if x"},
		{source: "def f():\nreturn 1", exception: "IndentationError", message: "expected an indented block"},
		{source: "return 1", exception: "SyntaxError", message: "'return' outside function", traceback: "return 1"},
		{source: "print('a')\nnonlocal q", exception: "SyntaxError", traceback: "nonlocal q"},
		{source: "x\x00y", exception: "SyntaxError", message: "null byte"},
		{source: "\xff\xfe", exception: "SyntaxError"},
		{source: "# coding: no-such\n1", exception: "SyntaxError", message: "no-such"},
		{source: "# -*- coding: latin-1 -*-\nprint('\xe9')", out: "é\n"},
		{source: "\xef\xbb\xbf'bom'", result: "'bom'"},
		{source: "# -*- coding: latin-1 -*-\nraise ValueError('\xe9')", exception: "ValueError", message: "é", traceback: "raise ValueError('é')"},
		{source: "%matplotlib inline", exception: "SyntaxError", message: "magics", traceback: "%matplotlib inline"},
		{source: "!ls", exception: "SyntaxError", message: "subprocess.run"},
		{source: strings.Repeat("(", 500) + strings.Repeat(")", 500), exception: "*"},
		{source: "'\\N{no such}'", exception: "SyntaxError"},

		// The future stays.
		{source: "from __future__ import annotations\ndef h(a: undefined): pass\nh.__annotations__", result: "{'a': 'undefined'}"},
		{source: "def h(a: undefined2): pass\nh.__annotations__", result: "{'a': 'undefined2'}"},

		// Source can be looked at.
		{source: "import inspect\ndef seen():\n    return 'me'\nprint(inspect.getsource(seen))", out: "def seen():\n    return 'me'\n\n"},
		{source: "import linecache; linecache.checkcache(); inspect.getsource(seen).splitlines()[0]", result: "'def seen():'"},

		// The standard library's ways to do many things at once.
		{source: "def square(n): return n * n\nfrom concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor"},
		{source: "with ProcessPoolExecutor(2) as pool: print(list(pool.map(square, range(5))))", out: "[0, 1, 4, 9, 16]\n"},
		{source: "with ThreadPoolExecutor(2) as pool: print(list(pool.map(square, range(5))))", out: "[0, 1, 4, 9, 16]\n"},
		{source: "import multiprocessing\nwith multiprocessing.Pool(2) as pool: print(pool.map(square, [3]))", out: "[9]\n"},
		{source: "multiprocessing.get_start_method()", result: "'fork'"},
		{source: "q = multiprocessing.Queue(); p = multiprocessing.Process(target=q.put, args=(5,)); p.start(); print(q.get()); p.join()", out: "5\n"},
		{source: "import subprocess; subprocess.run(['echo', 'sub']).returncode", out: "sub\n", result: "0"},
		{source: "subprocess.run([sys.executable, '-c', 'print(1+1)'], stdout=-1).stdout", result: `b'2\n'`},
		{source: "import dataclasses, pickle\n@dataclasses.dataclass\nclass Point:\n  x: 'int' = 1\npickle.loads(pickle.dumps(Point(2)))", result: "Point(x=2)"},
		{source: "import threading\nt = threading.Thread(target=print, args=('thread',)); t.start(); t.join()", out: "thread\n"},

		// What cells may do to themselves.
		{source: "sys.stdout.close(); sys.stderr.close(); sys.stdin.close()"},
		{source: "print('still')", out: "still\n"},
		{source: "sys.stdout = type('Odd', (), {'flush': lambda self: 1 / 0, 'write': print})()"},
		{source: "sys.stdout = None"},
		{source: "print('again')", out: "again\n"},
		{source: "sys.setrecursionlimit(70)\nimport string\nstring.no_such", exception: "AttributeError"},
		{source: "sys.setrecursionlimit(1000)"},
		{source: "import builtins; del builtins.display"},
		{source: "sys.excepthook = sys.displayhook = None; 'hooks'", result: "'hooks'"},
		{source: "os.chdir('/'); 1", result: "1"},
		{source: "del sys.modules['__main__']; 2", result: "2"},
		{source: "input()", exception: "EOFError"},
		{source: "x", result: "6"},
	}
	each(t, func(t *testing.T, p interpreter) {
		r := start(t, p)
		claim := wire.ControlArgs{Timezone: "EST5EDT,M3.2.0,M11.1.0", Locale: "xx_XX.UTF-8"}
		if _, err := r.Call(limited(t), wire.Control{Op: wire.OpBind, Args: claim}, nil, nil); err != nil {
			t.Fatalf("bind: %v", err)
		}
		for _, c := range cells {
			got := r.run(c.source)
			if c.exception == "*" { // some versions refuse it with one error, some with another, some take it
				if got.err != nil || got.State != wire.StateKept {
					t.Fatalf("%.100q: %s", c.source, got)
				}
				continue
			}
			c.check(t, got)
		}
	})
}

// TestFile: a run that comes from a file finds its name where a program looks for it.
func TestFile(t *testing.T) {
	each(t, func(t *testing.T, p interpreter) {
		r := start(t, p)
		named := func(name, source string) *result { return r.runAs(wire.Run{Filename: name, Source: []byte(source)}) }
		for _, c := range []struct {
			name, source, out string
		}{
			{"job.py", "import os, sys; print(__file__, sys.argv[0])", r.workspace + "/job.py job.py\n"},
			{"sub/dir/job.py", "print(__file__, sys.argv[0])", r.workspace + "/job.py sub/dir/job.py\n"},
			{"/elsewhere/other.py", "print(__file__)", r.workspace + "/other.py\n"},
			{"job.py", "print(os.path.dirname(os.path.abspath(__file__)) == os.getcwd())", "True\n"},
			{"", "print('__file__' in globals())", "False\n"},
			{"", "__file__ = 'mine'", ""},
			{"", "print(__file__)", "mine\n"},
			{"job.py", "print(__file__)", r.workspace + "/job.py\n"},
			{"job.py", "del __file__", ""},
			{"", "print('__file__' in globals())", "False\n"},
			// A program that starts anew does not look for a file that is not there.
			{"job.py", "if __name__ == '__main__':\n  import multiprocessing as m\n  with m.get_context('spawn').Pool(1) as pool: print(pool.map(abs, [-3]))", "[3]\n"},
		} {
			if got := named(c.name, c.source); got.err != nil || got.Outcome != wire.OutcomeOK || got.out != c.out {
				t.Errorf("%q: %s\n%s", c.name, c.source, got)
			}
		}
		if got := r.once("print('__file__' in globals())"); got.out != "False\n" {
			t.Errorf("a program without a file: %s", got)
		}
	})
}

// TestFrames looks at what a program can read from a structured exception.
func TestFrames(t *testing.T) {
	each(t, func(t *testing.T, p interpreter) {
		r := start(t, p)
		got := r.runAs(wire.Run{Filename: "job.py", Source: []byte("def inner(n):\n    return 1 / n\n\ninner(0)")})
		want := []wire.Frame{{File: "job.py", Line: 4, Name: "<module>", Text: "inner(0)"}, {File: "job.py", Line: 2, Name: "inner", Text: "return 1 / n"}}
		if e := got.Exception; e == nil || len(e.Frames) != 2 || e.Frames[0] != want[0] || e.Frames[1] != want[1] || e.Truncated {
			t.Errorf("%s\nframes %+v", got, e)
		}

		got = r.run("\n\nx = = 1")
		if e := got.Exception; e == nil || len(e.Frames) != 1 || e.Frames[0].Line != 3 || e.Frames[0].Text != "x = = 1" || !strings.Contains(e.Traceback, "^") {
			t.Errorf("syntax error: %s\nframes %+v", got, got.Exception)
		}

		got = r.run("raise ValueError('m' * 10_000_000)")
		if e := got.Exception; e == nil || !e.Truncated || len(e.Message) > 16<<10 || len(e.Message) < 1000 || len(e.Frames) != 1 {
			t.Errorf("a huge message: %.300s", got)
		}
		got = r.run("raise ValueError('\\x01\\u20ac' * 100_000)") // escapes make it longer still
		if e := got.Exception; e == nil || !e.Truncated || !strings.HasPrefix(e.Message, "\x01€") {
			t.Errorf("a huge message of control characters: %.300s", got)
		}
		if got := r.run("import sys\nsys.setrecursionlimit(20000)\ndef f(n): return f(n-1) if n else 1/0\nf(9000)"); got.Exception == nil || got.Exception.Name != "ZeroDivisionError" ||
			len(got.Exception.Frames) < 10 || len(got.Exception.Traceback) > 64<<10 {
			t.Errorf("a deep stack: %.300s", got)
		}
		got = r.run("x = bytearray(1 << 60)")
		if got.Exception == nil || got.Exception.Name != "MemoryError" || !got.MemoryHeld {
			t.Errorf("memory: %s", got)
		}
		if slices.Index(wanted, p.minor) >= slices.Index(wanted, "3.11") {
			got = r.run("e = ValueError('a'); e.add_note('noted')\nraise ExceptionGroup('several', [e, KeyError('b')])")
			if got.Exception == nil || got.Exception.Name != "ExceptionGroup" || !strings.Contains(got.Exception.Traceback, "noted") || !strings.Contains(got.Exception.Traceback, "KeyError: 'b'") {
				t.Errorf("a group: %s", got)
			}
		}
	})
}

// TestArgv: what a program is called with.
func TestArgv(t *testing.T) {
	each(t, func(t *testing.T, p interpreter) {
		r := start(t, p)
		got := r.runAs(wire.Run{Filename: "job.py", Argv: []string{"-x", "é"}, Source: []byte("import sys; print(sys.argv)")})
		if got.out != "['job.py', '-x', 'é']\n" {
			t.Errorf("%s", got)
		}
		if got := r.run("import sys; print(sys.argv)"); got.out != "['<cell 2>']\n" {
			t.Errorf("%s", got)
		}
	})
}

// TestModuleOfTheWorkspace: a file beside the work is a module.
func TestModuleOfTheWorkspace(t *testing.T) {
	each(t, func(t *testing.T, p interpreter) {
		r := start(t, p)
		if err := r.put("helper.py", "VALUE = 3\ndef fail(): raise OSError('here')\n"); err != nil {
			t.Fatal(err)
		}
		if got := r.ok("import helper; helper.VALUE"); got.part("text/plain") != "3" {
			t.Errorf("%s", got)
		}
		got := r.run("helper.fail()")
		if e := got.Exception; e == nil || len(e.Frames) != 2 || !strings.HasSuffix(e.Frames[1].File, "/helper.py") || !strings.Contains(e.Frames[1].Text, "raise") {
			t.Errorf("%s\n%+v", got, got.Exception)
		}
		if got := r.ok("import os; print(sorted(os.listdir()))"); got.out != "['helper.py']\n" {
			t.Errorf("byte code in the workspace: %s", got.out)
		}
	})
}
