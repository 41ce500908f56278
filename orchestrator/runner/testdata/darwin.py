"""Starts the runner as it is on macOS: python3 -I -u darwin.py start.py

What that system has not is not here either: pipe2, descriptors that only name a
file, /proc, prctl and the like. What libproc would say is made from /proc in the
layout of its structures, and about those processes alone that a profile of macOS
would let it speak of: what was started from here.
"""
import os
import struct
import sys

MARK = "BRIG_TEST_DARWIN"
if MARK not in os.environ:
    # What is started from here is known by the environment that it begins with.
    os.environ[MARK] = "%d-%s" % (os.getpid(), os.urandom(6).hex())
    os.execv(sys.executable, [sys.executable, "-I", "-u"] + sys.argv)
mark = ("%s=%s" % (MARK, os.environ[MARK])).encode()
first = os.getpid()

sys.platform = "darwin"
del os.pipe2, os.O_PATH
for name in ("memfd_create", "pidfd_open", "sched_getaffinity", "prlimit"):
    if hasattr(os, name):
        delattr(os, name)


def refuse_proc(function):
    def refusing(path='.', *args, **kwargs):
        if isinstance(path, str) and (path == "/proc" or path.startswith("/proc/")):
            refused.append(path)
            raise FileNotFoundError(2, "No such file or directory", path)
        return function(path, *args, **kwargs)
    return refusing


refused = []
really = {name: getattr(os, name) for name in ("open", "listdir", "readlink", "stat", "scandir", "chmod")}
for name, function in really.items():
    setattr(os, name, refuse_proc(function))


def refuse_mode(path, mode, *, dir_fd=None, follow_symlinks=True):
    """chmod of macOS can name a link itself; here that is asked of what is no link anyway."""
    if not follow_symlinks:
        assert not stat_module.S_ISLNK(really["stat"](path, dir_fd=dir_fd, follow_symlinks=False).st_mode)
    return refuse_proc(really["chmod"])(path, mode, dir_fd=dir_fd)


import stat as stat_module  # noqa: E402

os.chmod = refuse_mode

import fcntl  # noqa: E402

real_ioctl = fcntl.ioctl


def ioctl(fd, request, *args):
    return real_ioctl(fd, {0x4004667F: 0x541B}.get(request, request), *args)


fcntl.ioctl = ioctl


def slurp(path):
    try:
        fd = really["open"](path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return b""
    try:
        data = b""
        while True:
            piece = os.read(fd, 65536)
            if not piece:
                return data
            data += piece
    except OSError:
        return b""
    finally:
        os.close(fd)


def ours(pid):
    if pid == first:
        return True
    environ = slurp("/proc/%d/environ" % pid).split(b"\0")
    return mark in environ


def fields(pid):
    return slurp("/proc/%d/stat" % pid).rpartition(b")")[2].split()


def fill(buffer, data):
    import ctypes
    ctypes.memmove(ctypes.cast(ctypes.c_char_p(buffer), ctypes.c_void_p), data, min(len(data), len(buffer)))
    return len(data)


def proc_listpids(what, _, buffer, size):
    pids = sorted(int(name) for name in really["listdir"]("/proc") if name.isdigit())
    return fill(buffer, struct.pack("<%di" % len(pids), *pids)[:size])


def proc_pidinfo(pid, flavor, _, buffer, size):
    about = fields(pid)
    if not about or about[0] in b"ZX" or not ours(pid):
        return 0
    if flavor == 3:
        start = int(about[19])
        return fill(buffer, struct.pack("<12I16s32s6I2Q", 0, 3, 0, pid, int(about[1]), 0, 0, 0, 0, 0, 0, 0,
                                        b"comm", b"name", 0, 0, 0, 0, 0, 0, start, 0))
    ticks = (int(about[11]) * 10 ** 7, int(about[12]) * 10 ** 7)
    return fill(buffer, struct.pack("<6Q12i", 0, int(about[21]) * 4096, *ticks, 0, 0,
                                    0, 0, 0, 0, 0, 0, 0, 0, 0, int(about[17]), 0, 0))


def mach_timebase_info(buffer):
    return fill(buffer, struct.pack("<2I", 1, 1))


THERE = {f.__name__: f for f in (proc_listpids, proc_pidinfo, mach_timebase_info)}
MISSING = ("prctl", "signalfd", "unshare", "syscall", "mount", "ptrace", "memfd_create")

script = sys.argv[1]
sys.argv[:] = sys.argv[1:]
sys.path.insert(0, os.path.dirname(script))
from brigrunner import native  # noqa: E402

sys.path.pop(0)
real_call = native.call


def call(name, *args):
    if name in THERE:
        return THERE[name](*args)
    if name in MISSING:
        raise OSError("dlsym(RTLD_DEFAULT, %s): symbol not found" % name)
    if name == "bind" and args[1][:2] == b"\x10\x02":  # an address begins with its own length there
        args = (args[0], b"\x02\x00" + args[1][2:]) + args[2:]
    return real_call(name, *args)


native.call = call
with open(script) as source:
    program = compile(source.read(), script, "exec")
exec(program, {"__name__": "__main__", "__file__": script})
