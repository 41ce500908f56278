package main

import (
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"

	"brig/orchestrator/workspace"
)

// outDir is the directory of --out.
type outDir struct{ dir string }

// openOut makes the directory and tries it, so that nobody finds out after a
// long run that there is no place for its results. An empty dir gives nil.
func openOut(dir string) (*outDir, error) {
	if dir == "" {
		return nil, nil
	}
	const hint = "name another directory: brig run --out DIR"
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, input(hint, "--out %s could not be made: %s", dir, because(err))
	}
	probe, err := os.CreateTemp(dir, ".brig-*")
	if err != nil {
		return nil, input(hint, "--out %s cannot be written: %s", dir, because(err))
	}
	if err := errors.Join(probe.Close(), os.Remove(probe.Name())); err != nil {
		return nil, input(hint, "--out %s cannot be written: %s", dir, because(err))
	}
	return &outDir{dir}, nil
}

// brought is what came back from a workspace.
type brought struct {
	files []string // paths on this machine
	left  []string // what did not come back, with the reason
}

// bring copies every regular file that was made or changed since before. Links
// and special files stay where they are and are named.
func (o *outDir) bring(w *workspace.Workspace, before workspace.Snapshot) (brought, error) {
	var b brought
	changed, err := w.Changed(before)
	if err != nil {
		return b, fmt.Errorf("look for what the run changed: %w", err)
	}
	root, err := os.OpenRoot(o.dir)
	if err != nil {
		return b, fmt.Errorf("open the directory of --out: %w", err)
	}
	defer root.Close()
	for _, e := range changed {
		if e.Kind == "dir" {
			continue
		}
		if parent := path.Dir(e.Path); parent != "." {
			if err := root.MkdirAll(filepath.FromSlash(parent), 0o755); err != nil {
				return b, fmt.Errorf("make a directory in %s: %w", o.dir, err)
			}
		}
		dest := filepath.Join(o.dir, filepath.FromSlash(e.Path))
		switch err := w.CopyOut(e.Path, dest); {
		case errors.Is(err, workspace.ErrNotRegular), errors.Is(err, workspace.ErrLinked),
			errors.Is(err, workspace.ErrTooLarge), errors.Is(err, workspace.ErrEscapes):
			b.left = append(b.left, err.Error())
		case err != nil:
			return b, fmt.Errorf("bring %q back: %w", e.Path, err)
		default:
			b.files = append(b.files, dest)
		}
	}
	return b, nil
}
