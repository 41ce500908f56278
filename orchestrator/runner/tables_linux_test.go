package runner

import (
	"archive/zip"
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"brig/orchestrator/sandbox/sandboxtest"
	"brig/orchestrator/wire"
)

// register tells the runner of datasets.
func (r *rig) register(list ...wire.Table) {
	r.t.Helper()
	text, err := json.Marshal(list)
	if err != nil {
		r.t.Fatal(err)
	}
	if list == nil {
		text = []byte("[]")
	}
	if _, err := r.Call(limited(r.t), wire.Control{Op: wire.OpTables}, bytes.NewReader(text), nil); err != nil {
		r.t.Fatalf("tables: %v", err)
	}
}

func (r *rig) upload(path, content string) {
	r.t.Helper()
	if err := r.put(path, content); err != nil {
		r.t.Fatal(err)
	}
}

// withPandas finds an interpreter that has the library.
func withPandas(t *testing.T) interpreter {
	t.Helper()
	for _, name := range []string{"/usr/bin/python3", "python3"} {
		path, err := exec.LookPath(name)
		if err != nil {
			continue
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if exec.CommandContext(ctx, path, "-I", "-c", "import pandas").Run() == nil {
			if found, ok := ask(path); ok && readableByAll(found.path) {
				return found
			}
		}
	}
	sandboxtest.Skip(t, "a Python with pandas that every user may run", "none")
	return interpreter{}
}

// workbook is an XLSX file as a spreadsheet program writes it, in short.
func workbook(t *testing.T) string {
	t.Helper()
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for name, content := range map[string]string{
		"xl/workbook.xml": `<workbook xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main" xmlns:r="http://schemas.openxmlformats.org/officeDocument/2006/relationships">` +
			`<sheets><sheet name="First" sheetId="1" r:id="rId1"/><sheet name="Second" sheetId="2" r:id="rId2"/></sheets></workbook>`,
		"xl/_rels/workbook.xml.rels": `<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships">` +
			`<Relationship Id="rId1" Target="worksheets/sheet1.xml"/><Relationship Id="rId2" Target="/xl/worksheets/sheet2.xml"/></Relationships>`,
		"xl/sharedStrings.xml": `<sst xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"><si><t>city</t></si><si><r><t>Ko</t></r><r><t>eln</t></r></si></sst>`,
		"xl/styles.xml": `<styleSheet xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"><numFmts><numFmt numFmtId="164" formatCode="yyyy\-mm\-dd"/></numFmts>` +
			`<cellXfs><xf numFmtId="0"/><xf numFmtId="164"/></cellXfs></styleSheet>`,
		"xl/worksheets/sheet1.xml": `<worksheet xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"><sheetData>` +
			`<row r="1"><c r="A1" t="s"><v>0</v></c><c r="B1" t="inlineStr"><is><t>n</t></is></c><c r="D1" t="str"><v>day</v></c></row>` +
			`<row r="2"><c r="A2" t="s"><v>1</v></c><c r="B2"><v>7</v></c><c r="C2"><v>1.5</v></c><c r="D2" s="1"><v>45000</v></c></row></sheetData></worksheet>`,
		"xl/worksheets/sheet2.xml": `<worksheet xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"><sheetData>` +
			`<row><c t="inlineStr"><is><t>x</t></is></c></row><row><c t="b"><v>1</v></c></row></sheetData></worksheet>`,
	} {
		w, err := z.Create(name)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(content)); err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// uploads are files of every format that the standard library can read, and some that nothing can.
func uploads(t *testing.T, r *rig) []wire.Table {
	t.Helper()
	for path, content := range map[string]string{
		"in/sales.csv": "\ufeffcity,n\nKöln,7\n\"a, b\",8\n", "semi.csv": "a;b\n1;\"x,y\"\n", "windows.csv": "name\nK\xf6ln\n", "t.tsv": "a\tb\n1\t2\n",
		"rows.json": `[{"a": 1, "b": "x"}, {"a": 2, "b": null}]`, "columns.json": `{"a": {"0": 1, "1": 2}, "b": {"0": 3, "1": 4}}`,
		"lines.jsonl": "{\"a\": \"007\"}\n\n{\"a\": \"8\"}\n", "broken.jsonl": "{}\n{\n", "broken.json": "{", "empty.csv": "", "p.parquet": "PAR1", "fake.xlsx": "PK", "fake.db": "no database at all", "wb.xlsx": workbook(t),
	} {
		r.upload(path, content)
	}
	r.ok(`
import sqlite3
with sqlite3.connect('some #?%.db') as c:
    c.execute('CREATE TABLE first (a INTEGER, "b c" TEXT)'); c.execute("INSERT INTO first VALUES (1, 'x')")
    c.execute('CREATE TABLE "odd ""name" (z)'); c.execute('INSERT INTO "odd ""name" VALUES (9)')
c.close()`)
	return []wire.Table{
		{Name: "sales", Path: "in/sales.csv", Format: "csv", Active: true, Version: 1},
		{Name: "semi", Path: "semi.csv", Format: "csv"},
		{Name: "windows", Path: "windows.csv", Format: "csv"},
		{Name: "t", Path: "t.tsv", Format: "tsv"},
		{Name: "rows", Path: "rows.json", Format: "json"},
		{Name: "columns", Path: "columns.json", Format: "json"},
		{Name: "lines", Path: "lines.jsonl", Format: "jsonl"},
		{Name: "wb", Path: "wb.xlsx", Format: "xlsx"},
		{Name: "second", Path: "wb.xlsx", Format: "xlsx", Table: "Second"},
		{Name: "db", Path: "some #?%.db", Format: "sqlite"},
		{Name: "odd", Path: "some #?%.db", Format: "sqlite", Table: `odd "name`},
		{Name: "gone", Path: "gone.csv", Format: "csv"},
		{Name: "empty", Path: "empty.csv", Format: "csv"},
		{Name: "dir", Path: "in", Format: "csv"},
		{Name: "broken", Path: "broken.jsonl", Format: "jsonl"},
		{Name: "brokenjson", Path: "broken.json", Format: "json"},
		{Name: "parquet", Path: "p.parquet", Format: "parquet"},
		{Name: "feather", Path: "p.parquet", Format: "feather"},
		{Name: "fake", Path: "fake.xlsx", Format: "xlsx"},
		{Name: "fakedb", Path: "fake.db", Format: "sqlite"},
		{Name: "nosheet", Path: "wb.xlsx", Format: "xlsx", Table: "Third"},
		{Name: "notable", Path: "some #?%.db", Format: "sqlite", Table: "none"},
		{Name: "odd-name", Path: "semi.csv", Format: "csv"},
		{Name: "novel", Path: "semi.csv", Format: "novel"},
	}
}

// unreadable are those of uploads, with words of the reason.
var unreadable = map[string]string{
	"gone": "not there", "empty": "empty", "dir": "not a regular file", "broken": "line 2", "brokenjson": "JSON", "parquet": "pyarrow", "feather": "pyarrow", "fake": "no XLSX",
	"fakedb": "not a database", "nosheet": "'First', 'Second'", "notable": "'first'", "novel": "not known",
}

func wantUnreadable(t *testing.T, r *rig) {
	t.Helper()
	for name, words := range unreadable {
		got := r.run("tables['" + name + "']")
		if got.Exception == nil || got.Exception.Name != "brig.TableError" || !strings.Contains(got.Exception.Message, "table '"+name+"' (") || !strings.Contains(got.Exception.Message, words) {
			t.Errorf("%s: %s", name, got)
		}
		if got.State != wire.StateKept {
			t.Errorf("%s cost the interpreter", name)
		}
	}
	if got := r.ok("print(tables)").out; !strings.Contains(got, "tables['gone']: gone.csv, csv, cannot be read: the file is not there any more\n") {
		t.Errorf("%s", got)
	}
	if got := r.run("tables['none']"); got.Exception == nil || got.Exception.Name != "KeyError" || !strings.Contains(got.Exception.Message, "'sales'") {
		t.Errorf("%s", got)
	}
}

// withoutPandas is the same interpreter where it cannot find the library.
func withoutPandas(t *testing.T, p interpreter) interpreter {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	run := func(args ...string) ([]byte, error) {
		cmd := exec.CommandContext(ctx, p.path, append([]string{"-I"}, args...)...)
		cmd.Env = p.env
		return cmd.CombinedOutput()
	}
	if _, err := run("-c", "import pandas"); err != nil {
		return p
	}
	dir, err := os.MkdirTemp(shared.dir, "bare-") // which every user may read
	if err == nil {
		err = os.Chmod(dir, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	if out, err := run("-m", "venv", "--without-pip", dir); err != nil {
		t.Fatalf("make an environment without libraries: %v\n%s", err, out)
	}
	p.path = filepath.Join(dir, "bin", "python3")
	return p
}

// eachWithoutPandas is each, with every interpreter as withoutPandas makes it.
func eachWithoutPandas(t *testing.T, f func(t *testing.T, p interpreter)) {
	each(t, func(t *testing.T, p interpreter) { f(t, withoutPandas(t, p)) })
}

func TestTablesWithoutPandas(t *testing.T) {
	eachWithoutPandas(t, func(t *testing.T, p interpreter) {
		r := start(t, p)
		if got := r.ok("print(len(tables), tables, 'df' in globals())").out; got != "0 no tables False\n" {
			t.Errorf("%s", got)
		}
		list := uploads(t, r)
		r.register(list...)
		for name, want := range map[string]string{
			"sales": "[{'city': 'Köln', 'n': '7'}, {'city': 'a, b', 'n': '8'}]", "semi": "[{'a': '1', 'b': 'x,y'}]", "windows": "[{'name': 'Köln'}]", "t": "[{'a': '1', 'b': '2'}]",
			"rows": "[{'a': 1, 'b': 'x'}, {'a': 2, 'b': None}]", "columns": "[{'a': 1, 'b': 3}, {'a': 2, 'b': 4}]", "lines": "[{'a': '007'}, {'a': '8'}]",
			"wb":     "[{'city': 'Koeln', 'n': 7, 'Unnamed: 2': 1.5, 'day': datetime.datetime(2023, 3, 15, 0, 0)}]",
			"second": "[{'x': True}]", "db": "[{'a': 1, 'b c': 'x'}]", "odd": "[{'z': 9}]", "odd-name": "[{'a': '1', 'b': 'x,y'}]",
		} {
			if got := r.ok("print(tables['" + name + "'])").out; got != want+"\n" {
				t.Errorf("%s: %s, want %s", name, got, want)
			}
		}
		wantUnreadable(t, r)
		if got := r.ok("c = tables.connect('db')\nprint([r['b c'] for r in c.execute('SELECT * FROM first')], len(tables), 'sales' in tables, tables.active)").out; got != "['x'] 24 True sales\n" {
			t.Errorf("%s", got)
		}
		if got := r.run("c.execute('DROP TABLE first')"); got.Exception == nil || !strings.Contains(got.Exception.Message, "readonly") {
			t.Errorf("%s", got)
		}
	})
}

func TestTablesWithPandas(t *testing.T) {
	p := withPandas(t)
	r := start(t, p)
	r.register(uploads(t, r)...)
	for name, want := range map[string]string{
		"sales": `"city":["Köln","a, b"],"n":[7,8]`, "semi": `"a":[1],"b":["x,y"]`, "windows": `"name":["Köln"]`, "t": `"a":[1],"b":[2]`, "rows": `"a":[1,2],"b":["x",null]`,
		"columns": `"a":[1,2],"b":[3,4]`, "lines": `"a":["007","8"]`, "second": `"x":[true]`, "db": `"a":[1],"b c":["x"]`, "odd": `"z":[9]`,
	} {
		got := r.ok("import json, pandas\nx = tables['" + name + "']\nassert isinstance(x, pandas.DataFrame)\nprint(json.dumps(x.to_dict('list'), ensure_ascii=False, separators=(',', ':')))").out
		if got != "{"+want+"}\n" {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
	if got := r.ok("print(tables['wb'].dtypes.astype(str).to_dict())").out; got != "{'city': 'object', 'n': 'int64', 'Unnamed: 2': 'float64', 'day': 'datetime64[ns]'}\n" {
		t.Errorf("%s", got)
	}
	wantUnreadable(t, r)
	if got := r.ok("df.n.sum()"); got.part("text/plain") != "15" {
		t.Errorf("%s", got)
	}
}

// TestActiveTable: df is the active one wherever code asks for it, and what code
// calls df itself stays its own.
func TestActiveTable(t *testing.T) {
	eachWithoutPandas(t, func(t *testing.T, p interpreter) {
		one := wire.Table{Name: "one", Path: "one.csv", Format: "csv", Active: true, Version: 1}
		fresh := func(active wire.Table) *rig {
			r := start(t, p)
			r.upload("one.csv", "a\n1\n")
			r.upload("two.csv", "a\n2\n")
			r.register(active, wire.Table{Name: "bad", Path: "bad.csv", Format: "csv"})
			return r
		}
		const first = "[{'a': '1'}]\n"
		for name, source := range map[string]string{
			"read": "print(df)", "in a function": "def f(): return df\nprint(f())", "in a comprehension": "print([x for _ in '1' for x in df])", "by eval": "print(eval('df'))",
			"by name": "print(globals()['df'])", "in a class": "class C: x = df\nprint(C.x)", "before it is set": "df = list(df)\nprint(df)", "with await": "async def f(): return df\nprint(await f())",
			"in a query": "query = 'SELECT * FROM df'\nprint(globals().get('df'))",
		} {
			if got := fresh(one).run(source); got.out != first || got.errout != "" {
				t.Errorf("%s: %s", name, got)
			}
		}
		bad := wire.Table{Name: "one", Path: "bad.csv", Format: "csv", Active: true}
		for name, source := range map[string]string{
			"set before it is read": "df = 5\nprint(df)", "an import": "import os as df\nprint(5)", "a loop": "for df in [5]: print(df)", "another word": "dfs = 5\nprint(dfs, end='\\n')",
			"a parameter": "def f(df): return df\nprint(f(5))", "an attribute": "class C: pass\nC.df = 5\nprint(C.df)",
		} {
			if got := fresh(bad).run(source); got.out != "5\n" || got.errout != "" {
				t.Errorf("%s: %s", name, got)
			}
		}

		r := fresh(bad)
		if got := r.run("print(1)\ndf"); got.Exception == nil || !strings.Contains(got.Exception.Message, "table 'one' (bad.csv) cannot be read: the file is not there") {
			t.Errorf("%s", got)
		}
		// Where it is used, and it can be caught: what comes before it has run.
		for name, source := range map[string]string{
			"called": "def f(): return df.head()\nprint(1)\nf()", "repr": "print(1)\nprint(df)", "len": "print(1)\nlen(df)", "item": "print(1)\ndf['a']",
			"add": "print(1)\n1 + df", "loop": "print(1)\nfor x in df: pass", "if": "print(1)\nif df: pass", "isinstance": "print(1)\nisinstance(df, dict)",
		} {
			got := r.run(source)
			if got.out != "1\n" || got.Exception == nil || got.Exception.Name != "brig.TableError" || !strings.Contains(got.Exception.Message, "table 'one' (bad.csv) cannot be read") {
				t.Errorf("%s: %s", name, got)
			}
			if got.Exception != nil && (strings.Contains(got.Exception.Traceback, "brigrunner") || !strings.Contains(got.Exception.Traceback, "cell")) {
				t.Errorf("%s: %s", name, got.Exception.Traceback)
			}
		}
		if got := r.ok("try:\n    df.x\nexcept Exception as err:\n    print(type(err).__name__)\nprint(len(tables))").out; got != "TableError\n2\n" {
			t.Errorf("%s", got)
		}
		r.upload("bad.csv", "a\n1\n")
		if got := r.ok("print(df)").out; got != first {
			t.Errorf("mended: %s", got)
		}

		r = fresh(one)
		r.ok("df.append({'a': '3'}); other = 1")
		two := wire.Table{Name: "two", Path: "two.csv", Format: "csv"}
		r.register(one, two) // as an instance is told that a later brig has taken over
		if got := r.ok("print(len(df), len(tables['one']), tables['two'])").out; got != "2 2 [{'a': '2'}]\n" {
			t.Errorf("telling it again changed what code has made of it: %s", got)
		}
		r.ok("del df")
		if got := r.ok("print(len(df))").out; got != "2\n" {
			t.Errorf("%s", got)
		}
		r.ok("df = 'mine'")
		r.register(one, two)
		if got := r.ok("print(df)").out; got != "mine\n" {
			t.Errorf("%s", got)
		}
		one.Active, two.Active = false, true
		r.register(one, two)
		if got := r.ok("print(df)").out; got != "[{'a': '2'}]\n" {
			t.Errorf("another active one: %s", got)
		}
		r.register()
		if got := r.run("df"); got.Exception == nil || got.Exception.Name != "NameError" {
			t.Errorf("df is still there: %s", got)
		}
		r.ok("df = 'mine'")
		r.register()
		if got := r.ok("print(df, len(tables))").out; got != "mine 0\n" {
			t.Errorf("%s", got)
		}
	})
}

// TestTablesComeBack: an interpreter that has died, or whose names were reset, has
// them all, and a file that was written again is read again.
func TestTablesComeBack(t *testing.T) {
	eachWithoutPandas(t, func(t *testing.T, p interpreter) {
		r := start(t, p)
		r.upload("one.csv", "a\n1\n")
		r.register(wire.Table{Name: "one", Path: "one.csv", Format: "csv", Active: true, Version: 1})
		r.run("import os; os._exit(3)")
		if got := r.ok("print(df, tables['one'] is df)").out; got != "[{'a': '1'}] True\n" {
			t.Errorf("%s", got)
		}
		r.ok("df.append(5)")
		r.call(wire.OpReset, wire.ControlArgs{}, nil)
		if got := r.ok("print(tables['one'], df)").out; got != "[{'a': '1'}] [{'a': '1'}]\n" {
			t.Errorf("after reset: %s", got)
		}
		r.upload("one.csv", "a\nnew\n")
		if got := r.ok("print(tables['one'], df)").out; got != "[{'a': 'new'}] [{'a': '1'}]\n" {
			t.Errorf("written again: %s", got)
		}
		r.register(wire.Table{Name: "one", Path: "one.csv", Format: "csv", Active: true, Version: 2})
		if got := r.ok("print(df)").out; got != "[{'a': 'new'}]\n" {
			t.Errorf("registered again: %s", got)
		}
		var body wire.VariablesBody
		r.call(wire.OpVariables, wire.ControlArgs{}, &body)
		for _, v := range body.Variables {
			if v.Name == "tables" {
				t.Error("tables is listed as the user's")
			}
		}
		run := r.background("import time\nprint('ready', flush=True)\ntime.sleep(1000)")
		run.until(t, "ready")
		r.register(wire.Table{Name: "late", Path: "one.csv", Format: "csv"})
		r.interrupt(run, wire.Soft, false)
		<-run.done
		if got := r.ok("print(list(tables))").out; got != "['late']\n" {
			t.Errorf("registered during a run: %s", got)
		}
		// A module of the workspace with a name that the runner uses must not speak for it.
		for _, name := range []string{"csv", "dis", "json", "sqlite3", "codecs"} {
			r.upload(name+".py", "raise SystemExit(1)")
		}
		r.run("import os; os._exit(3)")
		if got := r.ok("print(tables['late'])").out; got != "[{'a': 'new'}]\n" {
			t.Errorf("%s", got)
		}
	})
}

// TestTablesRefused: what is no list of datasets is refused, and the list before stays.
func TestTablesRefused(t *testing.T) {
	eachWithoutPandas(t, func(t *testing.T, p interpreter) {
		r := start(t, p)
		r.upload("one.csv", "a\n1\n")
		r.register(wire.Table{Name: "one", Path: "one.csv", Format: "csv"})
		for name, text := range map[string]string{
			"nothing": "", "no list": "{}", "no object": "[1]", "no name": `[{"path":"x"}]`, "a NUL": `[{"name":"x","path":"a\u0000b"}]`,
			"twice": `[{"name":"x"},{"name":"x"}]`, "no text": `[{"name":["x"]}]`,
		} {
			if _, err := r.Call(limited(t), wire.Control{Op: wire.OpTables}, strings.NewReader(text), nil); code(err) != wire.CodeInvalid {
				t.Errorf("%s: %v", name, err)
			}
		}
		if _, err := r.Call(limited(t), wire.Control{Op: wire.OpTables}, strings.NewReader(strings.Repeat(" ", wire.MaxTablesBytes+1)), nil); code(err) != wire.CodeTooLarge {
			t.Errorf("too long: %v", err)
		}
		if _, err := r.Call(limited(t), wire.Control{Op: wire.OpTables}, nil, nil); code(err) != wire.CodeInvalid {
			t.Errorf("no input: %v", err)
		}
		if got := r.ok("print(tables['one'])").out; got != "[{'a': '1'}]\n" {
			t.Errorf("%s", got)
		}
		if _, err := os.Stat(filepath.Join(r.workspace, "one.csv")); err != nil {
			t.Error(err)
		}
	})
}
