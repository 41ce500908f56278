package runner

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
)

// Precompile makes the byte code that python wants beside an installed program,
// which saves some forty milliseconds at every start. It compiles and runs
// nothing of it; the program works without. It is to be called outside of any
// sandbox, as whoever owns the directory, and does its work once per
// interpreter: one that was replaced counts as another.
func Precompile(ctx context.Context, python, script string) error {
	dir := filepath.Dir(script)
	info, err := os.Stat(python)
	if err != nil {
		return fmt.Errorf("compile the runner: %w", err)
	}
	identity := sha256.Sum256(fmt.Appendf(nil, "%s\x00%d\x00%d", python, info.Size(), info.ModTime().UnixNano()))
	marker := filepath.Join(dir, "compiled-"+hex.EncodeToString(identity[:8]))
	if _, err := os.Lstat(marker); err == nil {
		return nil
	}
	// The directory is named after its content, so nothing ever has to be compared with the source.
	cmd := exec.CommandContext(ctx, python, "-I", "-m", "compileall", "-q", "--invalidation-mode", "unchecked-hash", dir)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("compile the runner: %w: %.300q", err, out)
	}
	if err := readable(dir); err != nil {
		return fmt.Errorf("compile the runner: %w", err)
	}
	if err := os.WriteFile(marker, nil, 0o644); err != nil {
		return fmt.Errorf("compile the runner: %w", err)
	}
	return nil
}

// readable opens the byte code to every uid, as the source is.
func readable(dir string) error {
	return filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && d.Name() == "__pycache__":
			return os.Chmod(path, 0o755)
		case filepath.Ext(path) == ".pyc":
			return os.Chmod(path, 0o644)
		}
		return nil
	})
}
