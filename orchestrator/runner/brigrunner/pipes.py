"""The ends of pipes, of which none ever blocks the supervisor."""
import os

from .mode import WINDOWS

PIPE_SIZE = 1 << 20

if WINDOWS:
    from .pipes_windows import POLLIN, POLLOUT, Poll, high, held, pipe, read_into, unblock, widen, write, writev  # noqa: F401
else:
    import fcntl
    import sys
    from select import POLLIN, POLLOUT, poll as Poll  # noqa: F401

    F_SETPIPE_SZ = 1031
    FIONREAD = 0x4004667F if sys.platform == "darwin" else 0x541B

    read_into, write, writev = os.readv, os.write, os.writev

    def pipe():
        """Both ends, which no child inherits."""
        return os.pipe()

    def unblock(fd):
        os.set_blocking(fd, False)

    def widen(fd):
        """Makes room in a pipe, where the system lets it grow."""
        if sys.platform != "linux":
            return
        try:
            fcntl.fcntl(fd, F_SETPIPE_SZ, PIPE_SIZE)
        except OSError:
            pass  # the kernel's bound for pipes of one user

    def high(fd):
        """A copy out of the way of what user code opens."""
        for base in (64, 16, 3):
            try:
                return fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, base)
            except OSError:
                pass
        raise OSError("no free descriptor")

    def held(fd):
        """How many bytes a pipe holds."""
        return int.from_bytes(fcntl.ioctl(fd, FIONREAD, b"\0\0\0\0"), sys.byteorder)


def complain(message):
    """Says on the standard error of the whole instance what nobody else will say."""
    try:
        os.write(2, ("brig runner: " + message[:8192].rstrip() + "\n").encode("utf-8", "backslashreplace"))
    except OSError:
        pass
