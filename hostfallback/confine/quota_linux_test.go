package confine

import (
	"strings"
	"testing"
)

const hoarder = `
import ctypes, errno, fcntl, os, shutil, socket, sys
ARM = os.uname().machine == "aarch64"
libc = ctypes.CDLL(None, use_errno=True)
open("file", "wb").write(b"x" * 4096)
r, w = os.pipe()
f = os.open("file", os.O_RDONLY)
byte = ctypes.create_string_buffer(b"x")
segment = (ctypes.c_size_t * 2)(ctypes.addressof(byte), 1)
context = ctypes.c_ulong()
def raw(x86, arm, *args):
    args = [ctypes.c_long(a) if isinstance(a, int) else a for a in args]
    if libc.syscall(ctypes.c_long(arm if ARM else x86), *args) < 0:
        raise OSError(ctypes.get_errno(), "")
def attempt(name, what):
    try: what()
    except OSError as e: print(name, errno.errorcode[e.errno].replace("EOPNOTSUPP", "ENOTSUP"))
    else: print(name, "works")
attempt("vmsplice", lambda: raw(278, 75, w, segment, 1, 0))
attempt("splice", lambda: raw(275, 76, f, None, w, None, 1, 0))
attempt("sendfile", lambda: os.sendfile(w, f, 0, 1))
attempt("io_setup", lambda: raw(206, 0, 1, ctypes.byref(context)))
g = os.open("room", os.O_RDWR | os.O_CREAT)
attempt("fallocate", lambda: raw(285, 47, g, 0, 0, 1 << 20))
attempt("F_NOTIFY", lambda: fcntl.fcntl(os.open(".", os.O_RDONLY), fcntl.F_NOTIFY, 0x10))
os.close(g)
attempt("F_SETLEASE", lambda: fcntl.fcntl(f, fcntl.F_SETLEASE, fcntl.F_RDLCK))
# What does the same another way is there all the same.
g = os.open("long", os.O_RDWR | os.O_CREAT)
os.posix_fallocate(g, 0, 1 << 20)
assert os.fstat(g).st_size == 1 << 20 and os.fstat(g).st_blocks >= 2048
shutil.copyfile("long", "copy")
a, b = socket.socketpair()
a.sendfile(open("file", "rb")); assert len(b.recv(4096)) == 4096
print("done")`

// TestHoards: what would hold memory that nobody counts, a disk before anybody looks,
// or what belongs to the whole machine. The control is the same without the filter.
func TestHoards(t *testing.T) {
	needPython(t)
	needWhole(t)
	calls := []string{"vmsplice EPERM", "splice EINVAL", "sendfile EINVAL", "io_setup ENOSYS", "fallocate ENOTSUP", "F_NOTIFY EPERM", "F_SETLEASE EPERM"}
	p := basePlan(t, python, "-I", "-c", hoarder)
	if out, _, _ := run(t, p); out != strings.Join(append(calls, "done"), "\n")+"\n" {
		t.Error(out)
	}
	p = basePlan(t, python, "-I", "-c", hoarder)
	p.Mode, p.Namespace = ModeOff, false
	if out, _, _ := run(t, p); strings.Count(out, "works") != len(calls) {
		t.Errorf("control: %s", out)
	}
}
