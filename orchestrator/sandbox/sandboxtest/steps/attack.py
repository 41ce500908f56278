import ctypes as _ctypes, errno as _errno, json as _json, os as _os, struct as _struct

_rows = []
_libc = _ctypes.CDLL(None, use_errno=True)
_forged = b'{"type":"exit","run":"forged","outcome":"ok","status":0,"state":"kept"}'
_forged = _struct.pack(">2sBBII", b"\xb7\x16", 1, 0, 0, len(_forged)) + _forged


def _try(target, op, thing, attempt):
    # One attempt; "ok" means that it worked, which only a control may.
    try:
        attempt()
        result = "ok"
    except OSError as error:
        result = _errno.errorcode.get(error.errno, str(error.errno))
    _rows.append({"target": target, "op": op, "object": thing, "result": result})


def _open(path, flags, use=None):
    fd = _os.open(path, flags | _os.O_NONBLOCK)
    try:
        if use is not None:
            use(fd)
    except BlockingIOError:
        pass  # nothing to read just now, but it could be
    finally:
        _os.close(fd)


def _call(function, *args):
    _ctypes.set_errno(0)
    value = function(*args)
    if value == -1:
        raise OSError(_ctypes.get_errno(), "refused")
    return value


def _trace(pid):
    _call(_libc.ptrace, 0x4206, pid, None, None)  # PTRACE_SEIZE: the target runs on


def _take(pid, fd):
    handle = _call(_libc.syscall, 434, pid, 0)  # pidfd_open
    try:
        _os.close(_call(_libc.syscall, 438, handle, fd, 0))  # pidfd_getfd
    finally:
        _os.close(handle)


def _peek(pid):
    class Range(_ctypes.Structure):
        _fields_ = [("base", _ctypes.c_void_p), ("size", _ctypes.c_size_t)]

    here = _ctypes.create_string_buffer(8)
    near, far = Range(_ctypes.addressof(here), 8), Range(_ctypes.addressof(here), 8)
    try:
        _call(_libc.process_vm_readv, pid, _ctypes.byref(near), 1, _ctypes.byref(far), 1, 0)
    except OSError as error:
        # A bad address is found after the permission was given.
        if error.errno != _errno.EFAULT:
            raise


def _attack(name, fds):
    base = "/proc/" + name + "/"
    _try(name, "list", "fd", lambda: _os.listdir(base + "fd"))
    for fd in fds:
        path = base + "fd/%d" % fd
        _try(name, "forge", "fd/%d" % fd, lambda: _open(path, _os.O_WRONLY, lambda f: _os.write(f, _forged)))
        _try(name, "steal", "fd/%d" % fd, lambda: _open(path, _os.O_RDONLY, lambda f: _os.read(f, 65536)))
    for thing, flags in (("mem", _os.O_RDONLY), ("mem", _os.O_RDWR), ("environ", _os.O_RDONLY)):
        _try(name, "read", thing, lambda: _open(base + thing, flags))
    _try(name, "trace", "ptrace", lambda: _trace(int(name)))
    _try(name, "peek", "process_vm_readv", lambda: _peek(int(name)))
    for fd in (0, 1):
        _try(name, "take", "pidfd_getfd %d" % fd, lambda: _take(int(name), fd))


def _ancestors():
    # The supervisor, whatever started it as far as that can be seen, and process 1;
    # or only the parent.
    pid, found = _os.getppid(), []
    if _step["to"] == "parent":
        return [pid]
    while pid > 1 and pid not in found:
        found.append(pid)
        try:
            with open("/proc/%d/status" % pid) as file:
                pid = [int(line.split()[1]) for line in file if line.startswith("PPid:")][0]
        except OSError:
            break
    return found if 1 in found else found + [1]


def _main():
    ends = _os.pipe()
    own = "/proc/self/fd/%d"
    _try("self", "forge", "pipe", lambda: _open(own % ends[1], _os.O_WRONLY, lambda f: _os.write(f, b"x")))
    _try("self", "steal", "pipe", lambda: _open(own % ends[0], _os.O_RDONLY, lambda f: _os.read(f, 1)))
    _try("self", "read", "mem", lambda: _open("/proc/self/mem", _os.O_RDONLY))
    for pid in _ancestors():
        _attack(str(pid), range(10))
    print(_json.dumps(_rows))


_main()
