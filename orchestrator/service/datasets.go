package service

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	"brig/orchestrator"
	"brig/orchestrator/api"
	"brig/orchestrator/store"
	"brig/orchestrator/wire"
	"brig/orchestrator/workspace"
)

func (v *view) PutDataset(ctx context.Context, session, name string, r api.DatasetRequest) (api.Dataset, error) {
	if !regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_-]{0,63}$`).MatchString(name) {
		return api.Dataset{}, invalid("path.name", "it is 1 to 64 characters of A-Z a-z 0-9 _ - and does not begin with -")
	}
	if len(r.Table) > 255 || strings.ContainsRune(r.Table, 0) {
		return api.Dataset{}, invalid("body.table", "it is longer than 255 bytes, or has a NUL in it")
	}
	x, w, err := v.files(ctx, session)
	if err != nil {
		return api.Dataset{}, err
	}
	file, err := workspace.Clean(r.Path)
	if err != nil {
		return api.Dataset{}, invalid("body.path", sentence(err))
	}
	format := r.Format
	if format == "" {
		if format = formatOf(file); format == "" {
			return api.Dataset{}, invalid("body.format", "the file's name does not say it: give csv, tsv, json, jsonl, parquet, feather, xlsx or sqlite")
		}
	} else if magicOf(format) == nil {
		return api.Dataset{}, invalid("body.format", "it is csv, tsv, json, jsonl, parquet, feather, xlsx or sqlite")
	}
	if _, why, err := examine(w, file, format); err != nil {
		return api.Dataset{}, fileProblem(err)
	} else if why != "" {
		return api.Dataset{}, api.NewProblem(api.CodeUnusable, why, "give the format that it has")
	}
	d := store.Dataset{Session: x.id, Name: name, Path: file, Format: format, Table: r.Table, Active: r.Active, Registered: time.Now()}
	list, err := v.s.changeDatasets(ctx, x, func(before []store.Dataset) error {
		for _, old := range before {
			// Another registration is told from the one before by its time.
			if old.Name == name && !d.Registered.After(old.Registered.Add(time.Millisecond)) {
				d.Registered = old.Registered.Add(time.Millisecond)
			}
		}
		// Their list has to fit into what an interpreter takes.
		if len(mustJSON(tablesOf(append(slices.Clone(before), d)))) > wire.MaxTablesBytes {
			return store.ErrTooMany
		}
		return v.s.options.Store.PutDataset(ctx, d)
	})
	if err != nil {
		return api.Dataset{}, err
	}
	for _, one := range list {
		if one.Name == name {
			return datasetOf(w, one), nil
		}
	}
	return api.Dataset{}, api.NewProblem(api.CodeConflict, "it was removed at the same moment", "")
}

func (v *view) Datasets(ctx context.Context, session string) (api.DatasetList, error) {
	x, w, err := v.files(ctx, session)
	if err != nil {
		return api.DatasetList{}, err
	}
	list, err := v.s.options.Store.Datasets(ctx, x.id)
	if err != nil {
		return api.DatasetList{}, v.s.unread(ctx, err)
	}
	out := api.DatasetList{Datasets: make([]api.Dataset, 0, len(list))}
	for _, d := range list {
		out.Datasets = append(out.Datasets, datasetOf(w, d))
	}
	return out, nil
}

func (v *view) RemoveDataset(ctx context.Context, session, name string) error {
	x, _, err := v.files(ctx, session)
	if err != nil {
		return err
	}
	_, err = v.s.changeDatasets(ctx, x, func([]store.Dataset) error { return v.s.options.Store.RemoveDataset(ctx, x.id, name) })
	return err
}

// changeDatasets makes one change of a session's datasets and has the interpreter
// told of it. The change is on the disk first: what is told is what comes back.
func (s *Service) changeDatasets(ctx context.Context, x *session, change func(before []store.Dataset) error) ([]store.Dataset, error) {
	x.datasets.Lock()
	defer x.datasets.Unlock()
	list, err := s.options.Store.Datasets(ctx, x.id)
	if err == nil {
		err = change(list)
	}
	if err == nil {
		list, err = s.options.Store.Datasets(ctx, x.id)
	}
	switch {
	case errors.Is(err, store.ErrTooMany):
		return nil, api.NewProblem(api.CodeTooMany, fmt.Sprintf("a session has at most %d datasets", store.MaxDatasets), "brig data rm")
	case errors.Is(err, store.ErrNotFound):
		return nil, api.NewProblem(api.CodeNotFound, "there is no such dataset", "brig data list")
	case errors.Is(err, store.ErrNotHeld):
		return nil, s.problem(orchestrator.ErrClosed)
	case err != nil:
		return nil, s.storage(ctx, err)
	}
	if err := x.live.SetTables(tablesOf(list)); err != nil {
		return nil, s.problem(err)
	}
	return list, nil
}

// recallDatasets tells a session that was taken over of the datasets that it had. A
// run of it waits for nothing else: without this, code would not find them.
func (s *Service) recallDatasets(ctx context.Context, live *orchestrator.Session) error {
	list, err := s.options.Store.Datasets(ctx, live.ID())
	if err != nil {
		return fmt.Errorf("read the datasets of session %s: %w", live.ID(), err)
	}
	return live.SetTables(tablesOf(list))
}

func tablesOf(list []store.Dataset) []wire.Table {
	out := make([]wire.Table, 0, len(list))
	for _, d := range list {
		out = append(out, wire.Table{Name: d.Name, Path: d.Path, Format: d.Format, Table: d.Table, Active: d.Active, Version: d.Registered.UnixMilli()})
	}
	return out
}

// datasetOf is a dataset with how its file is now.
func datasetOf(w *workspace.Workspace, d store.Dataset) api.Dataset {
	out := api.Dataset{Name: d.Name, Path: d.Path, Format: d.Format, Table: d.Table, Active: d.Active, Registered: d.Registered.UTC()}
	size, why, err := examine(w, d.Path, d.Format)
	if err != nil {
		why = sentence(err)
	}
	out.Bytes, out.Problem = size, why
	return out
}

// formatOf is the format that the name of a file speaks of; empty: none.
func formatOf(name string) string {
	switch strings.ToLower(path.Ext(name)) {
	case ".csv":
		return "csv"
	case ".tsv", ".tab":
		return "tsv"
	case ".json":
		return "json"
	case ".jsonl", ".ndjson":
		return "jsonl"
	case ".parquet", ".pq":
		return "parquet"
	case ".feather", ".arrow":
		return "feather"
	case ".xlsx", ".xlsm":
		return "xlsx"
	case ".sqlite", ".sqlite3", ".db", ".db3":
		return "sqlite"
	}
	return ""
}

// magicOf is what files of a format can begin with; nil: there is no such format.
func magicOf(format string) []string {
	switch format {
	case "csv", "tsv", "json", "jsonl":
		return []string{""}
	case "parquet":
		return []string{"PAR1"}
	case "feather":
		return []string{"ARROW1", "FEA1"}
	case "xlsx":
		return []string{"PK\x03\x04"}
	case "sqlite":
		return []string{"SQLite format 3\x00"}
	}
	return nil
}

// examine looks at a dataset's file without reading it: brig parses nothing that
// code may have written. why is what speaks against its being read.
func examine(w *workspace.Workspace, name, format string) (size int64, why string, err error) {
	r, e, err := w.GetPart(name, 0, 4096)
	if err != nil {
		return 0, "", err
	}
	defer r.Close()
	head, err := io.ReadAll(r)
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
		return e.Size, "", err
	}
	if e.Size == 0 {
		return 0, "the file is empty", nil
	}
	for _, magic := range magicOf(format) {
		if magic != "" && bytes.HasPrefix(head, []byte(magic)) {
			return e.Size, "", nil
		}
		if magic == "" {
			utf16 := bytes.HasPrefix(head, []byte{0xff, 0xfe}) || bytes.HasPrefix(head, []byte{0xfe, 0xff})
			if !utf16 && bytes.IndexByte(head, 0) >= 0 {
				return e.Size, "it is not text", nil
			}
			return e.Size, "", nil
		}
	}
	return e.Size, "it is no " + format + " file by its first bytes", nil
}
