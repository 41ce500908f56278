package confine

import (
	"fmt"
	"strings"
	"testing"
)

// holding are programs that keep 192 MB where no resident page of theirs shows
// it. Each prints "ready" when it is held, and ends well if nobody ends it.
var holding = []struct {
	name    string
	bare    bool // only without the filter, which refuses the call
	program string
}{
	{"memfd, open", true, `
fd = os.memfd_create("m"); fill(fd)`},
	{"memfd, in another process", true, `
fd = os.memfd_create("m")
if os.fork() == 0: time.sleep(600)
fill(fd); os.close(fd)`},
	{"memfd, mapped and closed", true, `
fd = os.memfd_create("m"); fill(fd); m = mmap.mmap(fd, SIZE, access=mmap.ACCESS_READ); os.close(fd)`},
	{"shared mapping, dropped", false, `
m = mmap.mmap(-1, SIZE)
for n in range(0, SIZE, len(block)): m[n:n+len(block)] = block
m.madvise(mmap.MADV_DONTNEED)`},
	{"shared memory, not mapped", false, `
for name in "ab":
    fd = os.open("/dev/shm/brig-" + name, os.O_RDWR | os.O_CREAT, 0o600)
    if name == "a": os.unlink("/dev/shm/brig-a")
    fill(fd, 30 << 20)  # as much as an instance's own /dev/shm takes
x = bytearray(80 << 20)
for n in range(0, len(x), 4096): x[n] = 1`},
	{"empty files", false, `
for n in range(8000):
    for dir in ("/tmp", "/dev/shm"): os.mknod(dir + "/brig-%d" % n)
x = bytearray(112 << 20)
for n in range(0, len(x), 4096): x[n] = 1`},
	{"page tables", false, `
# 0x4000 is MAP_NORESERVE, 15 is MADV_NOHUGEPAGE: a table for every page that is read.
m = mmap.mmap(-1, 100 << 30, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x4000, prot=mmap.PROT_READ)
m.madvise(15)
for n in range(0, 100 << 30, 2 << 20): m[n]`},
	{"threads without their first", false, `
import ctypes, threading
def hold():
    # Shared, because the kernel bounds private data by itself.
    m = mmap.mmap(-1, SIZE)
    for n in range(0, SIZE, len(block)): m[n:n+len(block)] = block
    ready(); time.sleep(WAIT); os._exit(0)
threading.Thread(target=hold).start()
ctypes.CDLL(None).syscall(93 if os.uname().machine == "aarch64" else 60, 0)`},
}

const holder = `
import mmap, os, sys, time
SIZE, WAIT = 192 << 20, %d
block = bytes(1 << 20)
def fill(fd, size=SIZE):
    for _ in range(size // len(block)): os.write(fd, block)
def ready(): print("ready", flush=True)
%s
ready(); time.sleep(WAIT)`

// TestHeldMemory: memory that no page of a process shows counts towards the
// limit of the tree, and the same is allowed under a wider limit.
func TestHeldMemory(t *testing.T) {
	needPython(t)
	needWhole(t)
	for _, h := range holding {
		t.Run(h.name, func(t *testing.T) {
			plan := func(memory int64, wait int) Plan {
				p := basePlan(t, python, "-I", "-c", fmt.Sprintf(holder, wait, strings.TrimSpace(h.program)))
				p.Limits.Memory = memory
				if h.bare {
					p.Mode, p.Namespace = ModeOff, false
				}
				return p
			}
			out, ended, _ := run(t, plan(128<<20, 600))
			if ended.Cause != EndMemory || ended.Used <= 128<<20 {
				t.Errorf("ended: %+v; output: %s", ended, out)
			}
			if out, ended, _ := run(t, plan(1<<30, 1)); ended.Cause != EndSelf || !strings.Contains(out, "ready") {
				t.Errorf("control: %+v; output: %s", ended, out)
			}
		})
	}
}

// deeply deletes a file at a path that the kernel tells of no descriptor.
const deeply = `
at = os.open(".", os.O_RDONLY)
for _ in range(20):
    os.mkdir("d" * 250, dir_fd=at); at = os.open("d" * 250, os.O_RDONLY, dir_fd=at)
f = os.open("big", os.O_RDWR | os.O_CREAT, 0o600, dir_fd=at); os.unlink("big", dir_fd=at)
`

// TestHeldDisk: a deleted file counts as long as somebody keeps it.
func TestHeldDisk(t *testing.T) {
	needPython(t)
	needWhole(t)
	for name, program := range map[string]string{
		"open":                          `fill(f)`,
		"no name ever":                  `f = os.open(os.environ["HOME"], os.O_RDWR | os.O_TMPFILE, 0o600); fill(f)`,
		"mapped":                        `fill(f); m = mmap.mmap(f, SIZE); os.close(f)`,
		"below a path that is too long": deeply + `fill(f)`,
		"mapped below such a path":      deeply + `fill(f); m = mmap.mmap(f, SIZE); os.close(f)`,
		"hidden child": `
if os.fork() == 0:
    import ctypes; ctypes.CDLL(None).prctl(4, 0, 0, 0, 0); fill(f); time.sleep(600)
os.close(f)`,
	} {
		t.Run(name, func(t *testing.T) {
			setup := `f = os.open("deleted", os.O_RDWR | os.O_CREAT, 0o600); os.unlink("deleted")` + "\n"
			plan := func(disk int64, wait int) Plan {
				p := basePlan(t, python, "-I", "-c", fmt.Sprintf(holder, wait, setup+program))
				p.Limits.Disk = disk
				return p
			}
			out, ended, _ := run(t, plan(128<<20, 600))
			if ended.Cause != EndDisk || ended.Used <= 128<<20 {
				t.Errorf("ended: %+v; output: %s", ended, out)
			}
			if out, ended, _ := run(t, plan(1<<30, 2)); ended.Cause != EndSelf || !strings.Contains(out, "ready") {
				t.Errorf("control: %+v; output: %s", ended, out)
			}
		})
	}
}
