package apitest

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"brig/orchestrator/api"
	"brig/orchestrator/sandbox/sandboxtest"
)

func datasets(t *testing.T, s Subject) {
	b := s.Agent
	x := open(t, b, api.SessionRequest{})
	write(t, b, x.ID, "in/sales.csv", "a,b\n1,2\n")
	write(t, b, x.ID, "rows.json", "[]")
	write(t, b, x.ID, "fake.parquet", "no columns")
	write(t, b, x.ID, "empty.csv", "")
	put := func(name string, r api.DatasetRequest) api.Dataset {
		t.Helper()
		d, err := b.PutDataset(within(t), x.ID, name, r)
		must(t, err)
		return d
	}
	list := func() map[string]api.Dataset {
		t.Helper()
		l, err := b.Datasets(within(t), x.ID)
		must(t, err)
		out := map[string]api.Dataset{}
		active := 0
		for _, d := range l.Datasets {
			out[d.Name] = d
			if d.Active {
				active++
			}
		}
		if active != min(1, len(out)) {
			t.Errorf("%d are active of %d", active, len(out))
		}
		return out
	}
	sales := put("sales", api.DatasetRequest{Path: "./in//sales.csv"})
	if !sales.Active || sales.Format != "csv" || sales.Path != "in/sales.csv" || sales.Bytes != 8 || sales.Problem != "" || sales.Registered.IsZero() {
		t.Errorf("%+v", sales)
	}
	if d := put("rows", api.DatasetRequest{Path: "rows.json"}); d.Active || d.Format != "json" {
		t.Errorf("%+v", d)
	}
	if d := put("again-2", api.DatasetRequest{Path: "in/sales.csv", Format: "tsv", Table: "t", Active: true}); !d.Active || d.Format != "tsv" || d.Table != "t" {
		t.Errorf("%+v", d)
	}
	if all := list(); len(all) != 3 || all["sales"].Active || !all["again-2"].Active {
		t.Errorf("%+v", all)
	}
	if d := put("sales", api.DatasetRequest{Path: "rows.json", Active: true}); !d.Registered.After(sales.Registered) || d.Path != "rows.json" {
		t.Errorf("%+v after %+v", d, sales)
	}
	ended(t, run(t, b, x.ID, sandboxtest.Print("goes on")), "ok")

	for what, c := range map[string]struct {
		name string
		r    api.DatasetRequest
		code api.Code
	}{
		"no such file":     {"x", api.DatasetRequest{Path: "none.csv"}, api.CodeNotFound},
		"a directory":      {"x", api.DatasetRequest{Path: "in", Format: "csv"}, api.CodeUnusable},
		"not what it says": {"x", api.DatasetRequest{Path: "fake.parquet"}, api.CodeUnusable},
		"an empty file":    {"x", api.DatasetRequest{Path: "empty.csv"}, api.CodeUnusable},
		"no known format":  {"x", api.DatasetRequest{Path: "rows.json", Format: "yaml"}, api.CodeInvalid},
		"out of it":        {"x", api.DatasetRequest{Path: "../x.csv"}, api.CodeInvalid},
		"a long table":     {"x", api.DatasetRequest{Path: "rows.json", Table: strings.Repeat("t", 256)}, api.CodeInvalid},
		"a bad name":       {"-x", api.DatasetRequest{Path: "rows.json"}, api.CodeInvalid},
		"a long name":      {strings.Repeat("x", 65), api.DatasetRequest{Path: "rows.json"}, api.CodeInvalid},
	} {
		_, err := b.PutDataset(within(t), x.ID, c.name, c.r)
		wantCode(t, what, err, c.code)
	}
	must(t, b.RemoveFile(within(t), x.ID, "in", api.RemoveOptions{Recursive: true}))
	if all := list(); all["again-2"].Problem == "" || all["sales"].Problem != "" || all["rows"].Problem != "" {
		t.Errorf("a file is gone: %+v", all)
	}
	must(t, b.RemoveDataset(within(t), x.ID, "sales"))
	wantCode(t, "remove it again", b.RemoveDataset(within(t), x.ID, "sales"), api.CodeNotFound)
	if s.Other != nil {
		_, err := s.Other.Datasets(within(t), x.ID)
		wantCode(t, "another agent's datasets", err, api.CodeNotFound)
		wantCode(t, "another agent's dataset", s.Other.RemoveDataset(within(t), x.ID, "rows"), api.CodeNotFound)
	}
	list()
	must(t, b.RemoveDataset(within(t), x.ID, "rows"))
	must(t, b.RemoveDataset(within(t), x.ID, "again-2"))
	if all := list(); len(all) != 0 {
		t.Errorf("%+v", all)
	}
}

func exported(t *testing.T, b api.Brig, session string, f api.ExportFormat) string {
	t.Helper()
	r, err := b.Export(within(t), session, f)
	must(t, err)
	text, err := io.ReadAll(r)
	must(t, err)
	must(t, r.Close())
	return string(text)
}

// notebook is what the test needs of one.
type notebook struct {
	Cells []struct {
		Type    string   `json:"cell_type"`
		ID      string   `json:"id"`
		Source  []string `json:"source"`
		Outputs []struct {
			Type string   `json:"output_type"`
			Text []string `json:"text"`
		} `json:"outputs"`
	} `json:"cells"`
	Format int `json:"nbformat"`
}

func exports(t *testing.T, s Subject) {
	b := s.Agent
	x := open(t, b, api.SessionRequest{Name: "export"})
	var empty notebook
	must(t, json.Unmarshal([]byte(exported(t, b, x.ID, api.Notebook)), &empty))
	if len(empty.Cells) != 1 {
		t.Errorf("a notebook of nothing has %d cells", len(empty.Cells))
	}
	var sources []string
	for i := range 3 {
		steps := []sandboxtest.Step{sandboxtest.Print(fmt.Sprintf("line %d", i))}
		if i == 1 {
			steps = append(steps, sandboxtest.Raise("ValueError", "no\nnumber"))
		}
		request := code(steps...)
		sources = append(sources, request.Code)
		r, err := b.Run(within(t), x.ID, request, api.RunOptions{}, nil)
		must(t, err)
		if r.State != api.RunEnded {
			t.Errorf("%+v", r)
		}
	}
	write(t, b, x.ID, "out/result.txt", "42")

	var n notebook
	must(t, json.Unmarshal([]byte(exported(t, b, "export", api.Notebook)), &n))
	if n.Format != 4 || len(n.Cells) != 4 || n.Cells[0].Type != "markdown" {
		t.Fatalf("%+v", n)
	}
	ids := map[string]bool{}
	for i, c := range n.Cells {
		ids[c.ID] = true
		if i == 0 {
			continue
		}
		if c.Type != "code" || strings.Join(c.Source, "") != strings.TrimRight(sources[i-1], "\n") {
			t.Errorf("cell %d: %+v", i, c)
		}
		if len(c.Outputs) == 0 || strings.Join(c.Outputs[0].Text, "") != fmt.Sprintf("line %d\n", i-1) {
			t.Errorf("outputs of cell %d: %+v", i, c.Outputs)
		}
	}
	if len(ids) != 4 {
		t.Error("two cells have one id")
	}
	if at := slices.IndexFunc(n.Cells[2].Outputs, func(o struct {
		Type string   `json:"output_type"`
		Text []string `json:"text"`
	},
	) bool {
		return o.Type == "error"
	}); at < 0 {
		t.Errorf("the exception is not told: %+v", n.Cells[2].Outputs)
	}
	script := exported(t, b, x.ID, api.Script)
	if strings.Count(script, "\n# %% [") != 3 || !strings.Contains(script, "\n# ended: exception, ValueError: no number\n") {
		t.Errorf("%s", script)
	}
	for _, source := range sources {
		if !strings.Contains(script, strings.TrimRight(source, "\n")) {
			t.Errorf("not in the script: %s", source)
		}
	}
	all := unpack(t, api.Zip, []byte(exported(t, b, x.ID, api.Bundle)))
	if all["export.py"] == "" || all["export.ipynb"] == "" || all["files/out/result.txt"] != "42" {
		t.Errorf("%v", all)
	}
	if s.Other != nil {
		_, err := s.Other.Export(within(t), x.ID, api.Script)
		wantCode(t, "another agent's session", err, api.CodeNotFound)
	}
}
