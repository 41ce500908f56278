package runner

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Install writes the program below dir and returns the path of start.py. The
// directory is named after the content, so an existing one is complete and
// stays; whatever user code cannot write to may be shared by all instances.
// Several processes may install at the same time.
func Install(dir string) (script string, err error) {
	target := filepath.Join(dir, Hash()[:16])
	script = filepath.Join(target, "start.py")
	if intact(target) {
		return script, nil
	}
	if err := install(dir, target); err != nil {
		return "", fmt.Errorf("install the runner in %s: %w", dir, cause(err))
	}
	return script, nil
}

// Intact tells whether what Install wrote is still there, unchanged.
func Intact(script string) bool { return intact(filepath.Dir(script)) }

func install(dir, target string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	temporary, err := os.MkdirTemp(dir, ".new-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(temporary)
	if err := write(temporary); err != nil {
		return err
	}
	return replace(temporary, target)
}

// cause strips what names a file with a random name, and the call that met it.
func cause(err error) error {
	var path *fs.PathError
	var link *os.LinkError
	switch {
	case errors.As(err, &path):
		return path.Err
	case errors.As(err, &link):
		return link.Err
	}
	return err
}

// intact tells whether target holds the program, unchanged.
func intact(target string) bool {
	for _, name := range names() {
		data, err := os.ReadFile(filepath.Join(target, filepath.FromSlash(name)))
		if err != nil || !bytes.Equal(data, content(name)) {
			return false
		}
	}
	return true
}

func write(dir string) error {
	// Readable for the uid that an instance runs as, whatever the umask of brig is.
	for _, d := range []string{dir, filepath.Join(dir, "brigrunner")} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			return err
		}
		if err := os.Chmod(d, 0o755); err != nil {
			return err
		}
	}
	for _, name := range names() {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.WriteFile(path, content(name), 0o644); err != nil {
			return err
		}
		if err := os.Chmod(path, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// replace renames temporary to target. Where another process was first, its
// files serve as well; what is there but damaged makes way.
func replace(temporary, target string) error {
	err := os.Rename(temporary, target)
	if err == nil || intact(target) {
		return nil
	}
	if !errors.Is(err, fs.ErrExist) && !isDirectory(target) {
		return err
	}
	if err := os.RemoveAll(target); err != nil {
		return err
	}
	return os.Rename(temporary, target)
}

func isDirectory(path string) bool {
	info, err := os.Lstat(path)
	return err == nil && info.IsDir()
}
