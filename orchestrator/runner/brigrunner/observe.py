"""What this process can see of its own confinement, before user code runs.

Facts are copied from the kernel's text. Attempts are really made, each in a
child of its own kind that can be lost: a filter may kill instead of refusing.
"""
import errno
import os
import stat
import sys

from . import native, procs
from .mode import DARWIN, PRIVATE, WINDOWS

_STATUS = ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb", "NoNewPrivs", "Seccomp", "Seccomp_filters", "NSpid")

_RLIMITS = {
    "Max cpu time": "cpu", "Max file size": "fsize", "Max data size": "data", "Max stack size": "stack",
    "Max core file size": "core", "Max resident set": "rss", "Max processes": "nproc",
    "Max open files": "nofile", "Max locked memory": "memlock", "Max address space": "as",
    "Max file locks": "locks", "Max pending signals": "sigpending", "Max msgqueue size": "msgqueue",
    "Max nice priority": "nice", "Max realtime priority": "rtprio", "Max realtime timeout": "rttime",
}

_CGROUP = {
    1: {"memory": ("memory.limit_in_bytes", "memory.memsw.limit_in_bytes", "memory.kmem.tcp.limit_in_bytes"), "pids": ("pids.max",),
        "cpu": ("cpu.cfs_quota_us", "cpu.cfs_period_us")},
    2: {"memory": ("memory.max", "memory.swap.max"), "pids": ("pids.max",), "cpu": ("cpu.max",)},
}

_PACKAGES = ("PIL", "duckdb", "matplotlib", "numpy", "openpyxl", "pandas", "polars", "pyarrow", "scipy",
             "seaborn", "sklearn", "statsmodels", "sympy")

_MASKED = ("/proc/keys", "/proc/timer_list", "/proc/interrupts", "/proc/sched_debug", "/proc/latency_stats",
           "/proc/kcore", "/proc/acpi", "/proc/asound", "/proc/scsi", "/sys/firmware", "/sys/devices/virtual/powercap",
           "/proc/config.gz", "/proc/key-users")
_MASKED_OF_MACHINE = ("/proc/cmdline",)  # gVisor shows one that it made up

_SYSCALLS = {  # io_uring_setup, keyctl
    "x86_64": (425, 250),
    "aarch64": (425, 219),
}

ATTEMPTS_SECONDS = 2  # that all attempts together may take


def begin(workspace, scratch):
    """Starts the attempts, whose results observed() waits for."""
    return None if WINDOWS else Attempts(workspace, scratch)


def observed(workspace, scratch, dumpable, attempts):
    if WINDOWS:
        return _observed_windows(workspace, scratch)
    if DARWIN:
        return _observed_darwin(dumpable, attempts)
    return Observation(workspace, scratch, dumpable, attempts).report()


class Observation:
    """What was read at once, and attempts that go on in the background meanwhile."""

    def __init__(self, workspace, scratch, dumpable, attempts):
        self.of = workspace, scratch
        self._attempts = attempts
        self._seen = _seen(workspace, scratch, dumpable)

    def report(self):
        return dict(self._seen, attempts=self._attempts.results())


def _seen(workspace, scratch, dumpable):
    return {
        "pid": os.getpid(), "uid": os.getuid(), "gid": os.getgid(), "dumpable": dumpable,
        "status": _status(), "uid_map": " ".join(procs.read("/proc/self/uid_map").split()),
        "mounts": _mounts(("/", workspace, scratch, "/tmp", "/dev/shm", "/proc/sys")),
        "interfaces": _interfaces(), "rlimits": _rlimits(), "cgroup": _cgroup(),
        "cgroup_path": _cgroup_path(), "namespaces": _namespaces(),
        "kernel": procs.read("/proc/version").strip(),
        "apparmor": procs.read("/proc/self/attr/current").strip("\0 \n"),
        "environ": sorted(name[:64] for name in os.environ)[:256], "devices": _devices(),
    }


def _observed_darwin(dumpable, attempts):
    """What can be seen where there is no /proc."""
    import resource
    system, limits = os.uname(), {}
    for name in sorted(set(_RLIMITS.values())):
        number = getattr(resource, "RLIMIT_" + name.upper(), None)
        if number is not None:
            soft, hard = (-1 if n == resource.RLIM_INFINITY else n for n in resource.getrlimit(number))
            limits[name] = {"soft": soft, "hard": hard}
    return {
        "pid": os.getpid(), "uid": os.getuid(), "gid": os.getgid(), "dumpable": dumpable, "status": {},
        "interfaces": [], "rlimits": limits, "kernel": "%s %s" % (system.sysname, system.release),
        "environ": sorted(name[:64] for name in os.environ)[:256], "devices": _devices(),
        "attempts": attempts.results(),
    }


def _observed_windows(workspace, scratch):
    """What can be seen without the files in which POSIX tells it. Attempts are made right here: nothing
    kills for one."""
    above, parent = os.path.dirname(scratch), os.getppid()
    attempts = (
        ("write_workspace", lambda: _create(workspace)), ("write_scratch", lambda: _create(scratch)),
        ("write_outside", lambda: _create(above)), ("list_outside", lambda: os.listdir(above)),
        ("kill_parent", lambda: _may_end(parent)),
    )
    return {
        "pid": os.getpid(), "uid": -1, "gid": -1, "dumpable": -1, "status": {}, "interfaces": [], "rlimits": {},
        "kernel": "Windows %d.%d.%d" % sys.getwindowsversion()[:3],
        "environ": sorted(name[:64] for name in os.environ)[:256],
        "attempts": {name: _outcome(attempt) for name, attempt in attempts},
    }


def _may_end(pid):
    """Asks for the right to end a process, and does not use it."""
    import _winapi
    _winapi.CloseHandle(_winapi.OpenProcess(1, False, pid))


def packages(importable):
    """Those of the data stack that an import would find there, without importing them."""
    names = set()
    for directory in importable:
        try:
            names.update(os.listdir(directory))
        except OSError:
            pass
    return [name for name in _PACKAGES if name in names]


def _status():
    found = {}
    for line in procs.read("/proc/self/status").splitlines():
        name, _, value = line.partition(":")
        if name in _STATUS:
            found[name] = value.strip()
    return found


def _mounts(paths):
    """For each path the mount it lies on."""
    table = {}
    for line in procs.read("/proc/self/mountinfo", 1 << 20).splitlines():
        left, _, right = line.partition(" - ")
        left, right = left.split(), right.split()
        if len(left) >= 6 and len(right) >= 3:
            point = left[4].replace("\\040", " ").replace("\\134", "\\")
            table[point] = (right[0], left[5] + "," + right[2])  # a later mount hides an earlier
    found = []
    for path in paths:
        point = os.path.realpath(path)
        if not os.path.isdir(point):
            continue
        while point not in table and point != "/":
            point = os.path.dirname(point)
        if point in table:
            found.append({"path": path, "fstype": table[point][0], "options": table[point][1][:4096]})
    return found


def _interfaces():
    lines = procs.read("/proc/self/net/dev").splitlines()[2:]
    return sorted(line.partition(":")[0].strip() for line in lines)[:128]


def _devices():
    found = []
    try:
        with os.scandir("/dev") as entries:
            for entry in entries:
                mode = entry.stat(follow_symlinks=False).st_mode
                if stat.S_ISCHR(mode) or stat.S_ISBLK(mode):
                    found.append(entry.name[:64])
    except OSError:
        pass
    return sorted(found)[:256]


def _rlimits():
    found = {}
    for line in procs.read("/proc/self/limits").splitlines()[1:]:
        name = _RLIMITS.get(line[:26].strip())
        words = line[26:].split()
        if name and len(words) >= 2:
            soft, hard = (-1 if word == "unlimited" else int(word) for word in words[:2])
            found[name] = {"soft": soft, "hard": hard}
    return found


def _cgroup():
    found = {}
    for controller in ("memory", "pids", "cpu"):
        for directory, version in procs.cgroup_directories(controller):
            for name in _CGROUP[version][controller]:
                value = procs.read(directory + "/" + name).strip()
                if value:
                    found.setdefault(name, value)
    return found


def _cgroup_path():
    for line in procs.read("/proc/self/cgroup").splitlines():
        if line.startswith("0::"):
            return line[3:][:4096]
    return ""


def _namespaces():
    found = {}
    for kind in ("ipc", "mnt", "net", "pid", "user"):
        try:
            found[kind] = os.readlink("/proc/self/ns/" + kind)
        except OSError:
            pass
    return found


class Attempts:
    """Runs the attempts in a child and reads its results from a pipe."""

    def __init__(self, workspace, scratch):
        self._attempts = _attempts(workspace, scratch)
        self._found = {}
        self._pid, self._fd = -1, -1
        self._start(0)

    def _start(self, first):
        reading, writing = os.pipe()
        try:
            self._pid = os.fork()
        except OSError:
            os.close(reading)
            os.close(writing)
            return
        if self._pid == 0:
            try:
                for name, attempt in self._attempts[first:]:
                    os.write(writing, (name + "=").encode())
                    os.write(writing, (_outcome(attempt) + "\n").encode())
            finally:
                os._exit(0)
        os.close(writing)
        self._fd = reading

    def results(self):
        import select
        import time
        until = time.monotonic() + ATTEMPTS_SECONDS
        while self._fd >= 0:
            text, poll = b"", select.poll()
            poll.register(self._fd, select.POLLIN)
            while poll.poll(max(0, int((until - time.monotonic()) * 1000))):
                data = os.read(self._fd, 4096)
                if not data:
                    break
                text += data
            else:
                os.kill(self._pid, native.SIGKILL)
            os.close(self._fd)
            self._fd = -1
            try:
                os.waitpid(self._pid, 0)
            except ChildProcessError:  # whoever collects what has ended was first
                pass
            for line in text.decode().splitlines():
                name, _, value = line.partition("=")
                self._found[name] = value or "killed"
            if text and text[-1:] != b"\n":  # it was killed in the middle: on with the next
                self._start(len(self._found))
        return {name: self._found.get(name, "unavailable") for name, _ in self._attempts}


def _outcome(attempt):
    try:
        attempt()
        return "ok"
    except _Unavailable:
        return "unavailable"
    except OSError as err:
        return errno.errorcode.get(err.errno, "E%d" % (err.errno or 0))
    except Exception:  # whatever it is, it was not done
        return "unavailable"


class _Unavailable(Exception):
    pass


def _attempts(workspace, scratch):
    """Those that mean here what their names say: calls by their number, families of sockets and the like are Linux's."""
    return [(name, attempt) for name, attempt in _all_attempts(workspace, scratch) if not DARWIN or name in _DARWIN_TOO]


_DARWIN_TOO = ("write_root", "write_workspace", "write_scratch", "exec_workspace", "bind_loopback", "kill_parent",
               "list_outside", "stat_outside", "chmod_root")


def _all_attempts(workspace, scratch):
    return [
        ("write_root", lambda: _create("/")),
        ("write_workspace", lambda: _create(workspace)),
        ("write_scratch", lambda: _create(scratch)),
        ("exec_workspace", lambda: _execute(workspace)),
        ("unshare_user", lambda: _native("unshare", 0x10000000)),
        ("socket_inet", lambda: _native("socket", 2, 1, 0)),
        ("bind_loopback", _bind_loopback),
        ("socket_unix", lambda: _native("socket", 1, 1, 0)),
        ("socket_netlink", lambda: _native("socket", 16, 3, 0)),
        ("socket_vsock", lambda: _native("socket", 40, 1, 0)),
        ("io_uring_setup", lambda: _syscall(0, 1, bytes(bytearray(120)))),
        ("ptrace_traceme", lambda: _native("ptrace", 0, 0, 0, 0)),
        ("keyctl", lambda: _syscall(1, 0, -3, 0)),
        ("mount", lambda: _mount(scratch)),
        ("kill_parent", _kill_parent(os.getppid())),
        ("list_outside", lambda: _list_outside(workspace, scratch)),
        ("stat_outside", lambda: os.stat(os.path.join(os.path.dirname(scratch), "lock"))),
        ("read_masked", _read_masked),
        ("read_cgroup_path", _read_cgroup_path),
        ("chmod_root", lambda: os.chmod("/", stat.S_IMODE(os.stat("/").st_mode))),
    ]


def _create(directory):
    path = "%s/.brig-probe-%d" % (directory.rstrip("/"), os.getpid())
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0) | PRIVATE, 0o600))
    os.unlink(path)


def _list_outside(workspace, scratch):
    """Succeeds if something is there that is not the instance's own."""
    above = os.path.dirname(scratch)
    own = [os.path.basename(path) for path in (workspace, scratch) if os.path.dirname(path) == above]
    if not [name for name in os.listdir(above) if name not in own]:
        raise OSError(errno.ENODATA, "nothing else is there")


def _execute(directory):
    path = "%s/.brig-probe-%d" % (directory.rstrip("/"), os.getpid())
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o700)
    os.write(fd, b"\0not a program\n")
    os.close(fd)
    try:
        os.execv(path, [path])
    except OSError as err:
        if err.errno != errno.ENOEXEC:  # that is what the kernel says after it would have executed it
            raise
    finally:
        os.unlink(path)


def _native(name, *args):
    if not native.available():
        raise _Unavailable()
    return native.call(name, *args)


def _bind_loopback():
    """Binds a datagram socket to 127.0.0.1, which is there only where the loopback device is up."""
    # Where sockets come from BSD, an address begins with its own length.
    family = bytes(bytearray((16, 2))) if DARWIN else (2).to_bytes(2, sys.byteorder)
    address = family + bytes(bytearray((0, 0, 127, 0, 0, 1))) + bytes(bytearray(8))
    _native("bind", _native("socket", 2, 2, 0), address, len(address))


def _syscall(index, *args):
    numbers = _SYSCALLS.get(os.uname().machine)
    if numbers is None or sys.maxsize < 1 << 32:
        raise _Unavailable()
    return _native("syscall", numbers[index], *args)


def _mount(directory):
    try:
        _native("mount", b"none\0", os.fsencode(directory) + b"\0", b"brig-no-such-type\0", 0, None)
    except OSError as err:
        if err.errno != errno.ENODEV:  # past the check of permissions, and nothing was mounted
            raise


def _kill_parent(pid):
    def attempt():
        if pid == 0:  # it is in another process namespace
            raise _Unavailable()
        os.kill(pid, 0)
    return attempt


def _read_masked():
    """Succeeds if a file that containers mask says anything, or such a directory lists anything."""
    guest = "gvisor" in procs.read("/proc/version").lower()
    for path in _MASKED + (() if guest else _MASKED_OF_MACHINE):
        try:
            if os.listdir(path) if os.path.isdir(path) else procs.read(path, 1):
                return
        except OSError:
            pass
    raise OSError(errno.ENODATA, "nothing to read")


def _read_cgroup_path():
    """Succeeds if a control group shows where it is on the machine, not only where it is in its own namespace."""
    for line in procs.read("/proc/self/cgroup").splitlines():
        if line.split(":", 2)[2:] not in ([], ["/"]):
            return
    raise OSError(errno.ENODATA, "nothing to read")
