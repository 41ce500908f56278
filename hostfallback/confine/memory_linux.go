package confine

import (
	"bufio"
	"bytes"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// mappingsPerTick bounds how many mappings one look at the memory reads. What
// lies beyond counts as held, up to the address space that may be shared.
const mappingsPerTick = 200_000

// longestPath bounds a line about a mapping. The kernel tells paths of any length there.
const longestPath = 1 << 20

// memory measures what a tree of processes holds and cannot be dropped.
type memory struct {
	limit int64
	shm   *os.File // the instance's own /dev/shm, or nil
	tmp   *os.File // the same of /tmp
}

// watchMemory prepares the measuring of a tree. Without an own /dev/shm, files
// there are the user's; those of the instance count while it has them open.
func watchMemory(limit int64, runner int) *memory {
	return &memory{limit: limit, shm: privately(runner, shmRoot), tmp: privately(runner, tmpDir)}
}

// privately opens a directory that another file system has for the runner than
// for this process. The way through a process leads into its view of the files.
func privately(runner int, dir string) *os.File {
	fd, err := unix.Open("/proc/"+strconv.Itoa(runner)+"/root"+dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	var own, shared unix.Stat_t
	if unix.Fstat(fd, &own) == nil && (unix.Stat(dir, &shared) != nil || own.Dev != shared.Dev) {
		return os.NewFile(uintptr(fd), dir)
	}
	_ = unix.Close(fd) // a path only
	return nil
}

func (m *memory) close() {
	for _, f := range []*os.File{m.shm, m.tmp} {
		if f != nil {
			_ = f.Close() // a path only
		}
	}
	m.shm, m.tmp = nil, nil
}

// of sums anonymous memory, page tables, and shared memory whether it is mapped
// or not. The cheap sum can be too high, because forked processes share pages
// and a page of shared memory may count as mapped and as part of its file; only
// when it is above the limit is it looked at closely.
//
// The supervisor cannot see a descriptor in flight between two sockets, the
// buffers of sockets and pipes, and how much of a shared mapping is left after
// parts of it were unmapped. The first is why the filter refuses memfd_create.
func (m *memory) of(pids []int) int64 {
	files := held{shm: m.shm != nil}
	tree := make([]process, len(pids))
	var cheap, maybe int64
	for i, pid := range pids {
		tree[i] = look(pid)
		cheap += tree[i].private() + tree[i].kilobytes("RssShmem:")
		maybe += tree[i].sharedSpace()
		files.descriptors(tree[i])
	}
	if sum := cheap + files.memory + m.shmUse(); sum+maybe <= m.limit {
		return sum // whatever is mapped and not resident, it is within the limit
	}
	left := mappingsPerTick
	for _, p := range tree {
		if left <= 0 {
			files.memory += p.sharedSpace()
			continue
		}
		left -= files.mappings(p, left)
	}
	objects := files.memory + m.shmUse()
	if cheap+objects <= m.limit {
		return cheap + objects
	}
	var private, shared int64
	for _, p := range tree {
		if raw, err := os.ReadFile(p.dir + "/smaps_rollup"); err == nil {
			private += p.kilobytes("VmSwap:") + p.kilobytes("VmPTE:") + kilobytes(string(raw), "Pss_Anon:")
			shared += kilobytes(string(raw), "Pss_Shmem:")
			continue
		}
		// It hides from other processes, or it has ended; what it shares cannot be told.
		private += p.private()
		shared += p.kilobytes("RssShmem:")
	}
	// A resident page of shared memory lies in one of the objects, apart from
	// files with a name on a tmpfs of the user, which count as disk.
	return private + max(shared, objects)
}

// shmUse is what all files of the instance's own /dev/shm and /tmp hold, with a
// name or without, empty ones too.
func (m *memory) shmUse() int64 {
	return inMemory(m.shm) + inMemory(m.tmp)
}

func inMemory(f *os.File) int64 {
	var st unix.Statfs_t
	if f == nil || unix.Fstatfs(int(f.Fd()), &st) != nil {
		return 0
	}
	return int64(st.Blocks-st.Bfree)*int64(st.Bsize) + int64(st.Files-st.Ffree)*inodeSize
}

// process is one that was looked at: where /proc speaks about it, and its status.
type process struct {
	pid         int
	dir, status string
}

// look reads the status of a process. When its first thread has ended, that one
// tells nothing about what the others still share, so one of them is asked.
func look(pid int) process {
	p := process{pid: pid, dir: "/proc/" + strconv.Itoa(pid)}
	p.read()
	if statusField(p.status, "State:") != "Z" {
		return p
	}
	tasks, err := os.ReadDir(p.dir + "/task")
	if err != nil {
		return p
	}
	for _, t := range tasks {
		thread := process{pid: pid, dir: p.dir + "/task/" + t.Name()}
		if thread.read(); thread.kilobytes("VmSize:") > 0 {
			return thread
		}
	}
	return p
}

func (p *process) read() {
	raw, err := os.ReadFile(p.dir + "/status")
	if err != nil {
		return // it has ended
	}
	p.status = string(raw)
}

func (p process) kilobytes(name string) int64 { return kilobytes(p.status, name) }

// private is what belongs to this process alone: anonymous pages, also those in
// swap, and page tables.
func (p process) private() int64 {
	return p.kilobytes("RssAnon:") + p.kilobytes("VmSwap:") + p.kilobytes("VmPTE:")
}

// sharedSpace is the address space that may be shared memory: all but data,
// stacks and code. Constants of libraries are in it as well.
func (p process) sharedSpace() int64 {
	other := p.kilobytes("VmSize:")
	for _, name := range []string{"VmData:", "VmStk:", "VmExe:", "VmLib:"} {
		other -= p.kilobytes(name)
	}
	return max(other, 0)
}

func kilobytes(text, name string) int64 {
	n, err := strconv.ParseInt(statusField(text, name), 10, 64)
	if err != nil {
		return 0
	}
	return n << 10
}

// mappings adds the deleted files and shared memory that a process has mapped
// and that no descriptor showed. How long such an object is cannot be asked: it
// counts up to the end of the mapping. The answer is how many lines were read.
func (h *held) mappings(p process, most int) int {
	f, err := os.Open(p.dir + "/maps")
	if err != nil {
		return 0
	}
	defer func() { _ = f.Close() }() // opened for reading
	lines := bufio.NewScanner(f)
	lines.Buffer(make([]byte, 0, 8<<10), longestPath)
	n := 0
	for ; n < most && lines.Scan(); n++ {
		if line := lines.Bytes(); bytes.HasSuffix(line, []byte(deletedMark)) {
			h.mapping(string(line))
		}
	}
	if lines.Err() == bufio.ErrTooLong {
		h.unseen = "the path of a file that is mapped is too long to be read"
		h.memory += p.sharedSpace()
	}
	return n
}

// mapping reads a line of /proc/PID/maps: "from-to perms offset major:minor inode path".
func (h *held) mapping(line string) {
	fields := strings.SplitN(line, " ", 6)
	if len(fields) < 6 {
		return
	}
	from, to, _ := strings.Cut(fields[0], "-")
	var n [3]int64
	for i, hex := range []string{from, to, fields[2]} {
		v, err := strconv.ParseUint(hex, 16, 64)
		if err != nil {
			return // the page of old system calls lies beyond, and is none of these
		}
		n[i] = int64(v)
	}
	h.object(object{fields[4], strings.TrimLeft(fields[5], " ")}, n[1]-n[0]+n[2])
}
