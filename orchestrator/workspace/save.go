package workspace

import (
	"io"
	"os"
	"path/filepath"
	"strings"
)

// Save writes what a file of a workspace elsewhere holds to dest, a path on the host,
// as CopyOut does, and with keep as CopyOutNew. name is the file's there, for messages.
// An error of content ends it, and then nothing of it stays.
func Save(name string, content io.Reader, dest string, keep bool) error {
	clean, err := clean("copy", name)
	if err != nil {
		return err
	}
	base := filepath.Base(dest)
	if dest == "" || base == "." || base == ".." || strings.HasSuffix(dest, "/") || strings.HasSuffix(dest, string(filepath.Separator)) {
		return &Error{Op: "copy", Name: clean, Kind: ErrName, Why: "the destination names no file"}
	}
	dir, err := openDir(filepath.Dir(dest))
	if err != nil {
		return &Error{Op: "copy", Name: clean, Why: "open the destination's directory: " + bare(err).Error(), Err: bare(err)}
	}
	defer dir.Close()
	p := placing{w: &Workspace{}, op: "copy", name: clean, dir: dir, base: base, host: true, keep: keep}
	return p.place(func(f *os.File) error { return copySparse(f, content) })
}
