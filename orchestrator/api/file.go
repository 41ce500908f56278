package api

import "time"

// File is one thing in a workspace.
type File struct {
	Path     string    `json:"path" doc:"relative to the workspace, slash separated"`
	Kind     string    `json:"kind" enum:"file,dir,link,other"`
	Bytes    int64     `json:"bytes" doc:"size of a file; 0 otherwise"`
	Modified time.Time `json:"modified"`
	ETag     string    `json:"etag,omitempty" doc:"of a file; it changes whenever anything about the file does"`
	Problem  string    `json:"problem,omitempty" doc:"why a directory could not be read to its end"`
	// Replaced says of a write that there was a file before.
	Replaced bool `json:"replaced,omitempty"`
}

// FileList is one page, sorted by path.
type FileList struct {
	Files []File `json:"files"`
	Next  string `json:"next,omitempty"`
	// Omitted says that the workspace holds more than brig lists.
	Omitted bool `json:"omitted,omitempty" doc:"the workspace holds more files than brig looks at"`
}

// Range is a part of a file, in bytes. The zero value is the whole.
type Range struct {
	Offset int64
	Length int64 // 0: to the end
}

// WriteOptions of WriteFile. An ETag that does not hold is CodePrecondition.
type WriteOptions struct {
	IfMatch string // ETag that the file has to have; "*": it has to exist
	New     bool   // nothing may be there
	Bytes   int64  // how many come, so that too many are refused at once; 0: not known
}

// RemoveOptions of RemoveFile.
type RemoveOptions struct {
	IfMatch   string
	Recursive bool // a directory with everything in it
}

// ArchiveFormat is how an archive is packed.
type ArchiveFormat string

const (
	Tar   ArchiveFormat = "tar"
	TarGz ArchiveFormat = "tar.gz"
	Zip   ArchiveFormat = "zip"
)

// ArchiveResult is what was unpacked.
type ArchiveResult struct {
	Files   int              `json:"files"`
	Bytes   int64            `json:"bytes"`
	Skipped []ArchiveSkipped `json:"skipped" nullable:"false" doc:"members that were not unpacked"`
}

// ArchiveSkipped is one member that was not unpacked.
type ArchiveSkipped struct {
	Name   string `json:"name"`
	Reason string `json:"reason"`
}

// ExportFormat is what Export makes of a session.
type ExportFormat string

const (
	Notebook ExportFormat = "ipynb" // nbformat 4.5, with outputs
	Script   ExportFormat = "py"    // cells with "# %%" between them
	Bundle   ExportFormat = "zip"   // both, and the session's files beside them
)

// DatasetRequest registers a file of the workspace as a table.
type DatasetRequest struct {
	Path   string `json:"path" minLength:"1" maxLength:"4096" doc:"of the uploaded file in the workspace"`
	Format string `json:"format,omitempty" enum:"csv,tsv,json,jsonl,parquet,feather,xlsx,sqlite" doc:"empty: by the file's name"`
	Table  string `json:"table,omitempty" maxLength:"255" doc:"which sheet of an xlsx or table of a sqlite file; empty: the first"`
	Active bool   `json:"active,omitempty" doc:"it becomes df; the first one does anyway"`
}

// Dataset is a table that the interpreter finds as tables[name].
type Dataset struct {
	Name       string    `json:"name" doc:"a Python identifier or 1 to 64 characters of A-Z a-z 0-9 _ -"`
	Path       string    `json:"path"`
	Format     string    `json:"format" enum:"csv,tsv,json,jsonl,parquet,feather,xlsx,sqlite"`
	Table      string    `json:"table,omitempty"`
	Active     bool      `json:"active" doc:"it is df"`
	Registered time.Time `json:"registered"`
	Bytes      int64     `json:"bytes" doc:"size of the file now"`
	Problem    string    `json:"problem,omitempty" doc:"why it cannot be read now; the others can"`
}

// DatasetList are all of a session.
type DatasetList struct {
	Datasets []Dataset `json:"datasets" nullable:"false"`
}
