package orchestrator

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"brig/orchestrator/private"
	"brig/orchestrator/workspace"
)

const (
	homesDir  = "sessions"  // below the data directory; one directory per session
	filesDir  = "workspace" // below that: what the session sees
	keepFile  = "keep"      // beside it: neither Close nor a sweep removes the session's directory
	homeMode  = 0o700
	keepsMode = 0o600
)

// home is where a session's files lie.
type home struct {
	dir       string // to be removed with the session; empty: somebody else's
	workspace string
}

// homeName is the name of a session's directory. It says whose it is: installations
// may share a data directory, and none can tell which brigs of another live.
func homeName(owner, id string) string { return id + "." + owner }

// makeHome makes a fresh directory for a session without one.
func makeHome(data, name string, keep bool) (home, error) {
	dir := filepath.Join(data, homesDir, name)
	h := home{dir: dir, workspace: filepath.Join(dir, filesDir)}
	if err := os.MkdirAll(h.workspace, homeMode); err != nil {
		return home{}, fmt.Errorf("make the session directory: %w", err)
	}
	if !keep {
		return h, nil
	}
	kept, err := h.keep()
	if err != nil {
		return home{}, errors.Join(err, removeTree(dir))
	}
	return kept, nil
}

// keep makes a fresh directory one that stays; on error it is as it was.
func (h home) keep() (home, error) {
	if err := os.WriteFile(filepath.Join(h.dir, keepFile), nil, keepsMode); err != nil {
		return h, fmt.Errorf("mark the session directory: %w", err)
	}
	h.dir = ""
	return h, nil
}

// takeHome uses a directory that the caller names.
func takeHome(dir string) (home, error) {
	path, err := filepath.Abs(dir)
	if err != nil {
		return home{}, fmt.Errorf("find the workspace: %w", err)
	}
	info, err := os.Stat(path)
	if err != nil {
		return home{}, fmt.Errorf("use the workspace: %w", err)
	}
	if !info.IsDir() {
		return home{}, fmt.Errorf("use the workspace: %w", &fs.PathError{Op: "open", Path: path, Err: errors.New("not a directory")})
	}
	return home{workspace: path}, nil
}

// sync brings the session's directory to the disk, so that what will be in it can be
// found after a power cut.
func (h home) sync() error {
	if h.dir == "" {
		return nil
	}
	for _, dir := range []string{h.dir, filepath.Dir(h.dir), filepath.Dir(filepath.Dir(h.dir))} {
		if err := private.SyncDir(dir); err != nil {
			return fmt.Errorf("bring the session directory to the disk: %w", err)
		}
	}
	return nil
}

func (h home) remove() error {
	if h.dir == "" {
		return nil
	}
	return removeTree(h.dir)
}

// removeTree removes a directory in which user code has been, and which code may
// have made as deep and as closed as it likes.
func removeTree(dir string) error {
	if err := workspace.RemoveTree(dir); err != nil {
		return fmt.Errorf("remove a session directory: %w", err)
	}
	return nil
}
