package workspace

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// Limits bound what a workspace takes. Zero means the default, never unlimited.
type Limits struct {
	Bytes int64 // allocated, of all files together; default 2 GiB
	File  int64 // apparent size of one file that is put or copied out; default 1 GiB
	Files int   // files, directories and links together; default and most MaxEntries
}

// MaxEntries is how many entries a walk looks at before it gives up with ErrTooMany.
const MaxEntries = 1 << 18

// MaxNesting is how deep directories may be nested for a measurement, which gives
// up with ErrTooDeep below that: each level holds a descriptor.
const MaxNesting = 256

func (l Limits) withDefaults() Limits {
	if l.Bytes <= 0 {
		l.Bytes = 2 << 30
	}
	if l.File <= 0 {
		l.File = 1 << 30
	}
	if l.Files <= 0 || l.Files > MaxEntries {
		l.Files = MaxEntries
	}
	return l
}

// Workspace is an open session directory. All methods may be called at the same
// time and while code changes the directory.
type Workspace struct {
	root   *os.Root
	dir    string
	limits Limits
	walks  int   // how many entries a walk looks at: MaxEntries
	escape error // what os.Root says about a name that leads out

	ledger ledger // by which puts at the same time see each other
}

// Open opens the directory dir with the default limits.
func Open(dir string) (*Workspace, error) { return OpenLimited(dir, Limits{}) }

// OpenLimited opens the directory dir. Whoever calls it decides that dir is the
// right directory: links on the way to it are followed.
func OpenLimited(dir string, limits Limits) (*Workspace, error) {
	w := &Workspace{dir: dir, limits: limits.withDefaults(), walks: MaxEntries}
	root, err := openDir(dir)
	if err != nil {
		return nil, &Error{Op: "open", Name: dir, Why: reason(err), Err: bare(err)}
	}
	w.root = root
	if err := w.look(); err != nil {
		_ = root.Close() // the error that matters is the one below
		return nil, &Error{Op: "open", Name: dir, Err: bare(err)}
	}
	return w, nil
}

// openDir opens a host directory as a root. The trailing dot makes the system
// refuse everything but a directory: without it, a named pipe would hang us.
func openDir(dir string) (*os.Root, error) {
	if dir == "" {
		return nil, fs.ErrNotExist
	}
	return os.OpenRoot(dir + string(filepath.Separator) + ".")
}

// openSub opens the directory name below root, for the same reason with a dot:
// Root.OpenRoot(name) itself would wait for a writer of a named pipe.
func openSub(root *os.Root, name string) (*os.Root, error) {
	if name == "" || name == "." {
		return root.OpenRoot(".")
	}
	return root.OpenRoot(name + "/.")
}

func (w *Workspace) look() error {
	var err error
	if w.escape, err = escapeOf(w.root); err != nil {
		return err
	}
	_, err = w.heir()
	return err
}

// heir is who gets new files: nobody but ourselves, unless brig runs as root in a
// directory of somebody else.
type heir struct {
	uid, gid int
	is       bool
}

// heir looks anew each time: a backend gives the directory away after it was opened.
func (w *Workspace) heir() (heir, error) {
	info, err := w.root.Stat(".")
	if err != nil {
		return heir{}, err
	}
	var h heir
	h.uid, h.gid, h.is = giveAway(info)
	return h, nil
}

// adopt gives an opened file or directory to the heir.
func (h heir) adopt(f *os.File) error {
	if !h.is {
		return nil
	}
	return f.Chown(h.uid, h.gid)
}

func reason(err error) string {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "no such directory"
	case errors.Is(err, fs.ErrPermission):
		return "permission denied"
	}
	return ""
}

// Dir is the directory on the host, as it was given to Open.
func (w *Workspace) Dir() string { return w.dir }

// Limits are the limits in force.
func (w *Workspace) Limits() Limits { return w.limits }

// Close lets go of the directory. It removes nothing. Readers that Get returned stay usable.
func (w *Workspace) Close() error { return w.root.Close() }
