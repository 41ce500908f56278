package confine

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

const (
	deletedMark = " (deleted)"
	memfdMark   = "/memfd:"
	shmDir      = "/dev/shm/"
	tooLong     = "/..." // in place of a path
)

// held sums files that have no name any more and live as long as somebody has
// them open or mapped. Each counts once, however many hold it. The work is
// bounded by the limits on processes and on open files.
type held struct {
	within       []string // directories whose files are disk; everything else is memory
	runner       int
	shm          bool // files of /dev/shm are counted elsewhere
	memory, disk int64
	unseen       string // why not everything could be looked at

	seen  map[inode]bool
	known map[object]int64 // what was counted
}

type inode struct{ dev, ino uint64 }

// object names a file as both descriptors and mappings show it. The numbers of
// devices differ between the two on some file systems.
type object struct{ ino, path string }

// descriptors adds what the descriptors of a process keep. The filter lets no
// thread have descriptors of its own, so those of one thread are those of all.
func (h *held) descriptors(p process) {
	dir, err := os.Open(p.dir + "/fd")
	if errors.Is(err, fs.ErrPermission) {
		h.hidden(p)
	}
	if err != nil {
		return
	}
	defer func() { _ = dir.Close() }() // opened for reading
	buffer := make([]byte, unix.PathMax)
	for {
		names, err := dir.Readdirnames(512)
		for _, name := range names {
			n, err := unix.Readlinkat(int(dir.Fd()), name, buffer)
			if err != nil && !errors.Is(err, unix.ENAMETOOLONG) {
				continue // closed meanwhile
			}
			target := tooLong
			if err == nil {
				target = string(buffer[:n])
			}
			// Only a name is read for most; asking more of a pipe or socket is not needed.
			var st unix.Stat_t
			if (target == tooLong || strings.HasSuffix(target, deletedMark)) && unix.Fstatat(int(dir.Fd()), name, &st, 0) == nil {
				if target == tooLong {
					target = h.guess(p.dir + "/fd/" + name)
				}
				h.file(st, target)
			}
		}
		if err != nil { // io.EOF, or the process has ended
			return
		}
	}
}

// hidden does the same for a process that does not let others list its
// descriptors. The owner of its user namespace may still take copies of them.
// The runner hides as well, but it is no code of the user's.
func (h *held) hidden(p process) {
	if p.pid == h.runner || len(h.within) == 0 {
		return // where this is possible, memory has no descriptors: the filter is there
	}
	pidfd, err := unix.PidfdOpen(p.pid, 0)
	if err != nil {
		return
	}
	defer func() { _ = unix.Close(pidfd) }()
	size, err := strconv.Atoi(statusField(p.status, "FDSize:"))
	if err != nil {
		return
	}
	for n := range size {
		fd, err := unix.PidfdGetfd(pidfd, n, 0)
		if errors.Is(err, unix.EBADF) {
			continue
		}
		if err != nil { // not allowed, or it has ended
			return
		}
		var st unix.Stat_t
		if err := unix.Fstat(fd, &st); err == nil {
			self := "/proc/self/fd/" + strconv.Itoa(fd)
			target, err := os.Readlink(self)
			if errors.Is(err, unix.ENAMETOOLONG) {
				target, err = h.guess(self), nil
			}
			if err == nil {
				h.file(st, target)
			}
		}
		_ = unix.Close(fd) // a copy
	}
}

// guess stands for a path that is longer than the kernel tells. Whoever counts what
// is on disk counts it: nothing else could be written to at such a depth. Whoever
// counts memory does so where it is of a file system in memory.
func (h *held) guess(descriptor string) string {
	if len(h.within) > 0 {
		return h.within[0] + tooLong
	}
	var st unix.Statfs_t
	if unix.Statfs(descriptor, &st) == nil && st.Type == unix.TMPFS_MAGIC {
		return shmDir + tooLong
	}
	return tooLong
}

// file adds what an open file without a name occupies.
func (h *held) file(st unix.Stat_t, target string) {
	id := inode{uint64(st.Dev), st.Ino}
	if st.Mode&unix.S_IFMT != unix.S_IFREG || st.Nlink > 0 || h.seen[id] {
		return
	}
	if h.seen == nil {
		h.seen = make(map[inode]bool)
	}
	h.seen[id] = true
	o := object{strconv.FormatUint(st.Ino, 10), target}
	h.object(o, st.Blocks*512)
	h.known[o] = 1 << 62 // its mappings tell nothing more
}

// object adds a file by its path, or what more of it is known now.
func (h *held) object(o object, bytes int64) {
	if h.known == nil {
		h.known = make(map[object]int64)
	}
	more := bytes - h.known[o]
	if more <= 0 {
		return
	}
	h.known[o] = bytes
	switch {
	case h.isDisk(o.path):
		h.disk += more
	case strings.HasPrefix(o.path, shmDir) && h.shm:
	case strings.HasPrefix(o.path, memfdMark), strings.HasPrefix(o.path, shmDir), strings.HasPrefix(o.path, "/dev/zero"):
		h.memory += more
	}
}

func (h *held) isDisk(path string) bool {
	for _, dir := range h.within {
		if strings.HasPrefix(path, dir+"/") {
			return true
		}
	}
	return false
}

// heldDisk is what the processes keep of files without a name in these directories,
// and why that may not be all.
func heldDisk(pids []int, runner int, dirs []string) (int64, string) {
	h := held{within: dirs, runner: runner}
	for _, pid := range pids {
		p := look(pid)
		h.descriptors(p)
		h.mappings(p, mappingsPerTick)
	}
	return h.disk, h.unseen
}

// realPaths are the directories as the kernel names them.
func realPaths(dirs ...string) []string {
	for i, dir := range dirs {
		if real, err := filepath.EvalSymlinks(dir); err == nil {
			dirs[i] = real
		}
	}
	return dirs
}
