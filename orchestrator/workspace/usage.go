package workspace

import (
	"io/fs"
	"slices"
	"time"
)

// Usage is the room that the files take on the disk (a sparse file takes little,
// a file with several links counts once) and the number of files, directories
// and links. It is a measurement of a directory that others change. What stands
// in a directory that brig may not read is not in it. What it cannot measure whole
// it does not measure: that is ErrTooMany or ErrTooDeep.
func (w *Workspace) Usage() (int64, int, error) {
	return w.usage(func(string, fs.FileInfo) bool { return false })
}

// usage is Usage without the files that skip knows by their last name and identity.
func (w *Workspace) usage(skip func(base string, info fs.FileInfo) bool) (int64, int, error) {
	var bytes int64
	var files int
	seen := map[node]bool{}
	err := w.whole("measure", func(f found) {
		if skip(f.path, f.info) {
			return
		}
		files++
		if f.info.Mode().IsRegular() && shared(f.info) {
			id := nodeOf(f.info)
			id.changed = 0
			if seen[id] {
				return
			}
			seen[id] = true
		}
		bytes += allocated(f.info)
	})
	return bytes, files, err
}

// Snapshot remembers what stood in a workspace at one time.
type Snapshot struct {
	at map[string]stamp
}

// Len is the number of files in the snapshot.
func (s Snapshot) Len() int { return len(s.at) }

// node identifies a file and its last change of any kind, as far as the system tells.
type node struct {
	dev, ino uint64
	changed  int64
}

// ChangeTime is when anything about a file changed last, in nanoseconds, which code
// cannot set back; 0 where the system does not tell.
func ChangeTime(info fs.FileInfo) int64 { return nodeOf(info).changed }

type stamp struct {
	size int64
	mod  time.Time
	mode fs.FileMode
	node node
}

func stampOf(info fs.FileInfo) stamp {
	// Type and mode are part of it: a file that became a link has changed.
	return stamp{size: info.Size(), mod: info.ModTime(), mode: info.Mode(), node: nodeOf(info)}
}

// Snapshot remembers every file and its size, times and identity. Directories are
// not in it, and neither is what stands deeper than MaxDepth, of which Changed says so.
func (w *Workspace) Snapshot() (Snapshot, error) {
	s := Snapshot{at: map[string]stamp{}}
	err := w.walk("measure", "", func(f found) {
		if !f.info.IsDir() {
			s.at[f.path] = stampOf(f.info)
		}
	})
	if err != nil {
		return Snapshot{}, err
	}
	return s, nil
}

// Changed lists, sorted by path, what is new or different since the snapshot:
// files, and also links and special files, which Get and CopyOut refuse. A file
// whose content was changed and whose size and times were then set back is still
// found where the system keeps a change time of its own. Removed files are not
// listed, and neither are directories, with one exception: a directory that could
// not be read to its end, because it is nested too deeply, closed to brig or changed
// meanwhile, is listed with its Problem. Whatever changed in it is not known.
func (w *Workspace) Changed(since Snapshot) ([]Entry, error) {
	var out []Entry
	err := w.walk("list", "", func(f found) {
		if f.info.IsDir() && f.problem == nil {
			return
		}
		if old, ok := since.at[f.path]; !ok || old != stampOf(f.info) {
			out = append(out, entryOf(f))
		}
	})
	if err != nil {
		return nil, err
	}
	slices.SortFunc(out, byPath)
	return out, nil
}
