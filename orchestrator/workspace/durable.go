package workspace

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"sync"
	"syscall"
)

// dirs are directories whose entries have changed and are not on the disk yet. A
// nil one remembers nothing.
type dirs struct {
	w     *Workspace
	mu    sync.Mutex
	names map[string]struct{} // guarded by mu
}

func (w *Workspace) freshDirs() *dirs { return &dirs{w: w, names: make(map[string]struct{})} }

func (d *dirs) changed(name string) {
	if d == nil {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.names[name] = struct{}{}
}

// sync brings them to the disk. One that is gone by now has nothing to bring.
func (d *dirs) sync() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	for name := range d.names {
		dir, err := openSub(d.w.root, name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil {
			err = errors.Join(syncDir(dir), dir.Close())
		}
		if err != nil {
			return err
		}
		delete(d.names, name)
	}
	return nil
}

// syncDir brings the entries of an open directory to the disk.
func syncDir(dir *os.Root) error {
	if !dirsSync {
		return nil
	}
	f, err := dir.Open(".")
	if err != nil {
		return err
	}
	return errors.Join(flush(f), f.Close())
}

// flush brings a file to the disk. Some file systems have nothing to sync.
func flush(f *os.File) error {
	if err := f.Sync(); err != nil && !errors.Is(err, syscall.EINVAL) && !errors.Is(err, errors.ErrUnsupported) {
		return err
	}
	return nil
}

// Bulk puts many files and brings their directories to the disk only once, with
// Sync. Its methods may be called at the same time.
type Bulk struct {
	w    *Workspace
	dirs *dirs

	mu   sync.Mutex
	done func() // guarded by mu, as left
	left int    // puts before the workspace is measured again
}

// bulkMeasure is how many puts of a bulk share a measurement: code may write meanwhile.
const bulkMeasure = 256

// Bulk begins a bulk, which Close ends.
func (w *Workspace) Bulk() *Bulk {
	return &Bulk{w: w, dirs: w.freshDirs(), done: w.Batch(), left: bulkMeasure}
}

// Put is Workspace.Put, but for the directories.
func (b *Bulk) Put(name string, r io.Reader, mode fs.FileMode) (int64, error) {
	clean, err := cleanNew("put", name)
	if err != nil {
		return 0, err
	}
	b.count()
	written, err := b.w.put(clean, r, mode, putting{dirs: b.dirs})
	return written.Bytes, err
}

// count has the workspace measured again once in a while.
func (b *Bulk) count() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.left--; b.left < 0 {
		b.done()
		b.done, b.left = b.w.Batch(), bulkMeasure
	}
}

// Mkdir makes a directory and its parents; one that is there already stays as it is.
func (b *Bulk) Mkdir(name string) error {
	clean, err := cleanNew("put", name)
	if err != nil {
		return err
	}
	h, err := b.w.heir()
	if err != nil {
		return b.w.fail("put", clean, err)
	}
	if err := b.w.makeParents(clean, 0o600, h, b.dirs); err != nil {
		return err
	}
	info, err := b.w.root.Stat(clean)
	if err == nil && !info.IsDir() {
		return &Error{Op: "put", Name: clean, Err: fs.ErrExist, Why: "it is " + kindOf(info.Mode()) + ", not a directory"}
	}
	return b.w.fail("put", clean, err)
}

// Sync returns when everything that was put is on the disk.
func (b *Bulk) Sync() error { return b.w.fail("put", "", b.dirs.sync()) }

// Close ends the bulk; it is idempotent.
func (b *Bulk) Close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.done()
}
