package runner

import (
	"strings"
	"testing"

	"brig/orchestrator/sandbox/sandboxtest"
	"brig/orchestrator/wire"
)

func TestDisplays(t *testing.T) {
	each(t, func(t *testing.T, p interpreter) {
		r := start(t, p)
		got := r.ok(`
import base64
class Rich:
    def _repr_html_(self): return '<b>é</b>'
    def _repr_markdown_(self): return '*m*'
    def _repr_latex_(self): return '$l$'
    def _repr_svg_(self): return '<svg/>' * 2000
    def _repr_png_(self): return b'\x89PNG' + bytes(range(256))
    def _repr_jpeg_(self): return base64.b64encode(b'\xff\xd8').decode(), {'width': 1}
    def _repr_json_(self): return {'j': [1, None]}
    def _repr_pdf_(self): return None
    def __repr__(self): return 'plain'
Rich()`)
		if len(got.displays) != 1 || got.displays[0].Role != "result" || got.Displays != 1 {
			t.Fatalf("%s, %+v", got, got.displays)
		}
		for mime, want := range map[string]string{
			"text/plain": "plain", "text/html": "<b>é</b>", "text/markdown": "*m*", "text/latex": "$l$", "image/svg+xml": strings.Repeat("<svg/>", 2000),
			"image/png": "\x89PNG" + string(allBytes()), "image/jpeg": "\xff\xd8", "application/json": `{"j": [1, null]}`, "application/pdf": "(no such part)",
		} {
			if part := got.part(mime); part != want {
				t.Errorf("%s is %.100q", mime, part)
			}
		}

		got = r.ok("display(1, 'two')\nprint('between')\ndisplay(Rich); 3")
		var roles []string
		for _, d := range got.displays {
			roles = append(roles, d.Role+" "+string(d.Data[len(d.Data)-1].Data))
		}
		if s := strings.Join(roles, "; "); s != "display 1; display 'two'; display <class '__main__.Rich'>; result 3" || got.out != "between\n" {
			t.Errorf("%s, out %q", s, got.out)
		}

		got = r.ok("class B:\n  def _repr_mimebundle_(self, include=None, exclude=None): return {'text/plain': 'p', 'application/x.y+json': {'a': 1}, 'bad kind': 'x', 'image/png': 'AAEC'}, {}\nB()")
		if len(got.displays[0].Data) != 3 || got.part("application/x.y+json") != `{"a": 1}` || got.part("image/png") != "\x00\x01\x02" {
			t.Errorf("%+v", got.displays)
		}
		got = r.ok("class F:\n  def _repr_html_(self): raise ValueError('html')\n  def _repr_json_(self): return object()\n  def __repr__(self): return 'F'\nF()")
		if got.part("text/plain") != "F" || len(got.displays[0].Data) != 1 || !strings.Contains(got.errout, "_repr_html_ failed: ValueError: html") {
			t.Errorf("%s %+v", got, got.displays)
		}
		got = r.ok("'\\udc80\\x00' + 'x' * 10_000_000")
		if part := got.part("text/plain"); len(part) > 300<<10 || !strings.Contains(part, "more characters") {
			t.Errorf("a huge repr: %d bytes", len(part))
		}
		got = r.ok("class Any:\n  def __getattr__(self, name): return lambda *a, **k: name\n  def __repr__(self): return 'any'\nAny()")
		if len(got.displays[0].Data) != 1 || got.part("text/plain") != "any" {
			t.Errorf("an object that has every attribute: %+v", got.displays)
		}
		got = r.run("class K:\n  def __repr__(self): raise SystemExit(3)\nK()")
		if got.Outcome != wire.OutcomeExit || got.Status != 3 {
			t.Errorf("%s", got)
		}
	})
}

// TestDisplayBound: what is too much is left out and said so.
func TestDisplayBound(t *testing.T) {
	each(t, func(t *testing.T, p interpreter) {
		r := start(t, p) // with 8 MiB
		r.ok("class Big:\n  def __init__(self, n): self.n = n\n  def _repr_png_(self): return b'x' * self.n\n  def __repr__(self): return 'Big'")
		got := r.ok("display(Big(5 << 20)); display(Big(5 << 20)); display(Big(1 << 20));")
		if len(got.displays) != 3 || len(got.displays[0].Data) != 2 || len(got.displays[1].Data) != 1 || len(got.displays[2].Data) != 2 {
			t.Errorf("%d displays", len(got.displays))
		}
		if !strings.Contains(got.errout, "brig: a display of 5242883 bytes was left out: 8388608 bytes are allowed for one run") {
			t.Errorf("%s", got)
		}
		if got := r.ok("for i in range(12_000): display(i)"); got.Displays != wire.MaxDisplays || !strings.Contains(got.errout, "left out") {
			t.Errorf("%d displays, %.200q", got.Displays, got.errout)
		}
		r.ok("display(Big(5 << 20));") // the bound is for one run
	})
}

// TestDisplayElsewhere: threads may display, children print.
func TestDisplayElsewhere(t *testing.T) {
	each(t, func(t *testing.T, p interpreter) {
		r := start(t, p)
		got := r.ok(`
import os, threading
threads = [threading.Thread(target=lambda i=i: [display('x' * 9000) for n in range(20)]) for i in range(4)]
for t in threads: t.start()
for t in threads: t.join()
if os.fork() == 0: display('child')
else: os.wait()
None`)
		if len(got.displays) != 80 || got.out != "'child'\n" {
			t.Errorf("%d displays, %s", len(got.displays), got)
		}
		for _, d := range got.displays {
			if len(d.Data) != 1 || len(d.Data[0].Data) != 9002 {
				t.Fatalf("a display of %d parts", len(d.Data))
			}
		}
	})
}

// TestDataStack needs libraries that few interpreters of a development machine
// have; the images bring them, and their tests use them too.
func TestDataStack(t *testing.T) {
	with := 0
	for _, p := range shared.interpreters {
		r := start(t, p)
		if !strings.Contains(strings.Join(r.ready.Packages, " "), "matplotlib numpy") {
			continue
		}
		with++
		t.Run(p.minor, func(t *testing.T) {
			r := start(t, p)
			r.ok("import numpy as np, pandas as pd\na = np.zeros((3, 4)); df = pd.DataFrame({'x': range(5), 'y': 'é'})")
			got := r.ok("df")
			if !strings.Contains(got.part("text/html"), "<table") || !strings.Contains(got.part("text/plain"), "x  y") {
				t.Errorf("%+v", got.displays)
			}
			var body wire.VariablesBody
			r.call(wire.OpVariables, wire.ControlArgs{}, &body)
			for _, v := range body.Variables {
				if v.Name == "a" && (v.Shape != "(3, 4)" || v.Bytes != 96) || v.Name == "df" && v.Shape != "(5, 2)" {
					t.Errorf("%+v", v)
				}
			}
			got = r.ok("import matplotlib.pyplot as plt\nfor i in range(3): plt.figure(); plt.plot([1, 2])\nplt.title('t');")
			checkFigures(t, got, 3)
			got = r.ok("df.plot(); plt.show(); print('shown')\nfig, ax = plt.subplots(); fig")
			checkFigures(t, got, 2)
			if got.errout != "" || got.out != "shown\n" {
				t.Errorf("%s", got)
			}
			got = r.run("plt.plot([1]); 1/0")
			checkFigures(t, got, 1)
			got = r.ok("from matplotlib.figure import Figure\nf = Figure(); f.subplots().plot([1]); f")
			if !strings.HasPrefix(got.part("image/png"), "\x89PNG") {
				t.Errorf("%+v", got.displays)
			}
			if got := r.ok("plt.get_fignums(), plt.get_backend().lower()"); got.part("text/plain") != "([], 'agg')" {
				t.Errorf("%s", got.part("text/plain"))
			}
			got = r.run("np.zeros(1 << 50)")
			if !got.MemoryHeld || got.Exception == nil || !strings.Contains(got.Exception.Name, "MemoryError") {
				t.Errorf("%s", got)
			}
		})
	}
	if with == 0 {
		sandboxtest.Skip(t, "an interpreter with numpy, pandas and matplotlib (name one in BRIG_TEST_PYTHONS)", "none that has them")
	}
}

func checkFigures(t *testing.T, got *result, want int) {
	t.Helper()
	figures := 0
	for _, d := range got.displays {
		for _, p := range d.Data {
			if d.Role == "figure" && p.MIME == "image/png" && strings.HasPrefix(string(p.Data), "\x89PNG") {
				figures++
			}
		}
	}
	if figures != want {
		t.Errorf("%d figures, want %d: %s", figures, want, got)
	}
}
