"""Calls into the C library for what Python's standard modules do not offer.

_ctypes alone is enough and loads in a fraction of the time of ctypes. Where it
is missing, calls raise OSError(ENOSYS) and the report says "unavailable".
"""
import errno
import os

from .mode import WINDOWS

try:
    import _ctypes
except ImportError:  # a minimal Python
    _ctypes = None

if WINDOWS:  # there is no such library, and no such call
    _ctypes = None

PR_SET_PDEATHSIG = 1
PR_GET_DUMPABLE = 3
PR_SET_DUMPABLE = 4
PR_SET_CHILD_SUBREAPER = 36

SIGKILL = 9

if _ctypes is not None:
    class _Long(_ctypes._SimpleCData):
        _type_ = "l"

    class _Function(_ctypes.CFuncPtr):
        _flags_ = _ctypes.FUNCFLAG_CDECL | _ctypes.FUNCFLAG_USE_ERRNO
        _restype_ = _Long

    class _Char(_ctypes._SimpleCData):
        _type_ = "c"

    _libc = _ctypes.dlopen(None, 0)
    _functions = {}


def available():
    return _ctypes is not None


def call(name, *args):
    """Calls a C function that returns -1 and sets errno on failure.

    Arguments are integers, or bytes for pointers; None is a null pointer.
    """
    if _ctypes is None:
        raise OSError(errno.ENOSYS, "no _ctypes")
    function = _functions.get(name)
    if function is None:
        function = _functions[name] = _Function(_ctypes.dlsym(_libc, name))
    _ctypes.set_errno(0)
    result = function(*[_Long(a) if isinstance(a, int) else a for a in args])
    if result in (-1, 0xffffffff):  # what returns an int fills half of it
        number = _ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result


class Fixed:
    """Bytes at an address that a structure can name."""

    def __init__(self, data):
        kind = type("Bytes", (_ctypes.Array,), {"_type_": _Char, "_length_": len(data)})
        self._held = kind.from_buffer_copy(data)
        self._length = len(data)
        self.address = _ctypes.addressof(self._held)

    def __len__(self):
        return self._length


def prctl(option, value=0):
    return call("prctl", option, value, 0, 0, 0)


def harden():
    """Makes this process unreadable for others and the parent of its orphans.

    Non-dumpable, nobody of the same uid can open its /proc files, its memory
    or its descriptors. Returns what the kernel says: 0, or -1 for unknown.
    """
    for option, value in ((PR_SET_DUMPABLE, 0), (PR_SET_CHILD_SUBREAPER, 1)):
        try:
            prctl(option, value)
        except OSError:
            pass
    try:
        return prctl(PR_GET_DUMPABLE)
    except OSError:
        return -1


def soften():
    """Undoes harden in a worker, which holds nothing worth hiding any more.

    A worker also ends with its supervisor, should that ever be killed; and where
    memory is short, it and what it starts go first.
    """
    for option, value in ((PR_SET_DUMPABLE, 1), (PR_SET_PDEATHSIG, SIGKILL)):
        try:
            prctl(option, value)
        except OSError:
            pass
    try:
        fd = os.open("/proc/self/oom_score_adj", os.O_WRONLY | os.O_CLOEXEC)
        try:
            os.write(fd, b"1000")
        finally:
            os.close(fd)
    except OSError:
        pass
