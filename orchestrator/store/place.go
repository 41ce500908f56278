package store

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"brig/orchestrator/private"
)

// companions are the files that SQLite keeps beside a database.
func companions() []string { return []string{"-wal", indexSuffix} }

const indexSuffix = "-shm"

// secureFiles makes the database file or checks that it and its companions are
// ordinary files of this user alone. SQLite opens them by name, so what else
// stands there is refused before; nobody else can write the directory.
func secureFiles(path string) (existed bool, size int64, err error) {
	for _, name := range append([]string{path}, suffixed(path)...) {
		info, err := os.Lstat(name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return false, 0, err
		}
		// The index of the journal is made anew by whoever comes first after the last one
		// has closed, with the mode that the umask leaves; in this directory it harms nobody.
		most := private.FileMode
		if name == path+indexSuffix {
			most = 0o666
		}
		if err := private.Check(name, info, most); err != nil {
			return false, 0, err
		}
		size += info.Size()
		existed = existed || name == path
	}
	for _, name := range append([]string{path}, suffixed(path)...) {
		f, err := os.OpenFile(name, os.O_CREATE|os.O_RDWR, private.FileMode)
		if err != nil {
			return false, 0, err
		}
		if err := errors.Join(f.Chmod(private.FileMode), f.Close()); err != nil {
			return false, 0, err
		}
	}
	// What is acknowledged in these files is nothing without their names.
	return existed, size, private.SyncDir(filepath.Dir(path))
}

func suffixed(path string) []string {
	var out []string
	for _, suffix := range companions() {
		out = append(out, path+suffix)
	}
	return out
}

// moveAside renames the database and its companions to a name that nothing has;
// the caller holds the guard. It returns the new name.
func moveAside(path, why string) (string, error) {
	base := fmt.Sprintf("%s.%s-%s", path, why, time.Now().UTC().Format("20060102T150405Z"))
	aside := base
	for n := 2; ; n++ {
		if _, err := os.Lstat(aside); errors.Is(err, fs.ErrNotExist) {
			break
		}
		aside = fmt.Sprintf("%s-%d", base, n)
	}
	// The database last: as long as it is there, a start that was killed in between goes on from here.
	for _, suffix := range append(companions(), "") {
		if err := os.Rename(path+suffix, aside+suffix); err != nil && !(suffix != "" && errors.Is(err, fs.ErrNotExist)) {
			return "", fmt.Errorf("move %s aside: %w", path+suffix, err)
		}
	}
	return aside, nil
}
