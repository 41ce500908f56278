"""Attempts on a sibling: other sessions that were forked from the same zygote.

Prints one line for each, as JSON: what was tried, and ok or the name of an errno.
TARGETS is put before it by the test: paths, process ids and names of the sibling.
"""
import ctypes
import errno
import json
import os
import resource
import socket

libc = ctypes.CDLL(None, use_errno=True)


def attempt(name, function):
    try:
        function()
        said = "ok"
    except OSError as err:
        said = errno.errorcode.get(err.errno, str(err.errno))
    except BaseException as err:
        said = type(err).__name__
    print(json.dumps([name, said]))


def libcall(name, *args):
    if getattr(libc, name)(*args) == -1:
        raise OSError(ctypes.get_errno(), name)


def abstract():
    s = socket.socket(socket.AF_UNIX)
    s.connect("\0" + TARGETS["abstract"])


def descriptors():
    """Anything but its own pipes and files that it opened would be of somebody else."""
    for fd in range(3, 1024):
        try:
            os.fstat(fd)
        except OSError:
            continue
        target = os.readlink("/proc/self/fd/%d" % fd)
        if target.startswith("socket:"):
            return
    raise OSError(errno.EBADF, "no socket was inherited")


for what in ("workspace", "scratch"):
    path = TARGETS[what]
    attempt("list " + what, lambda: os.listdir(path))
    attempt("stat " + what, lambda: os.stat(path))
    attempt("read " + what, lambda: open(path + "/secret").read())
    attempt("write " + what, lambda: open(path + "/planted", "w").close())
    attempt("chmod " + what, lambda: os.chmod(path + "/secret", 0o777))
    attempt("chmod directory " + what, lambda: os.chmod(path, 0o777))
    attempt("rename " + what, lambda: os.rename(path + "/secret", "stolen"))
    attempt("link " + what, lambda: os.link(path + "/secret", "stolen"))
    attempt("list above " + what, lambda: os.stat(os.path.dirname(path) + "/" + TARGETS["beside"][what]))
attempt("shm", lambda: open("/dev/shm/secret").read())
attempt("tmp", lambda: open("/tmp/secret").read())
for pid in TARGETS["pids"]:
    proc = "/proc/%d/" % pid
    for name in ("mem", "environ", "maps"):
        attempt("%s of %d" % (name, pid), lambda: open(proc + name, "rb").read(1))
    for name in ("cwd", "root", "fd/0", "exe"):
        attempt("%s of %d" % (name, pid), lambda: os.stat(proc + name))
    attempt("cmdline of %d" % pid, lambda: open(proc + "cmdline").read())
    attempt("signal %d" % pid, lambda: os.kill(pid, 0))
    attempt("ptrace %d" % pid, lambda: libcall("ptrace", 16, pid, 0, 0))
    attempt("prlimit %d" % pid, lambda: resource.prlimit(pid, resource.RLIMIT_NOFILE))
    attempt("affinity %d" % pid, lambda: os.sched_setaffinity(pid, os.sched_getaffinity(0)))
    attempt("pidfd %d" % pid, lambda: os.pidfd_open(pid))
attempt("abstract", abstract)
attempt("inherited", descriptors)
attempt("mount", lambda: libcall("umount2", b"/tmp", 0))
attempt("namespaces", lambda: libcall("unshare", 0x10000000))
attempt("the zygote's proc", lambda: os.open("self/uid_map", os.O_RDONLY, dir_fd=3))
