"""Files of the workspace for brig, beside whatever user code does to them.

User code may rename, link and replace anything at any moment. So every path is
walked part by part from the workspace's descriptor, no link is followed, and
what was checked is what is open.
"""
import errno
import os
import stat

from . import frames, place

MAX_DEPTH = 64

_CODES = {
    errno.ENOENT: "not-found", errno.EEXIST: "exists", errno.ENOTEMPTY: "exists",
    errno.ELOOP: "invalid", errno.ENOTDIR: "invalid", errno.EISDIR: "invalid", errno.EINVAL: "invalid",
    errno.ENAMETOOLONG: "invalid", errno.ENXIO: "invalid",
    errno.EACCES: "denied", errno.EPERM: "denied", errno.EROFS: "denied",
    errno.ENOSPC: "no-space", getattr(errno, "EDQUOT", errno.ENOSPC): "no-space", errno.EFBIG: "too-large",
}


class Refused(Exception):
    """A call's answer that is an error."""

    def __init__(self, code, message):
        super().__init__(message)
        self.code = code


def refusal(err):
    """The answer for an OSError."""
    return Refused(_CODES.get(err.errno, "failed"), os.strerror(err.errno) if err.errno else str(err))


def split(path):
    """The parts of a relative path that stays inside."""
    parts = path.split("/") if isinstance(path, str) else []
    if not parts or len(path) > 4096 or "\0" in path or len(parts) > MAX_DEPTH:
        raise Refused("invalid", "not a path")
    for part in parts:
        if part in ("", ".", ".."):
            raise Refused("invalid", "a path is relative to the workspace and has no empty, . or .. part")
        if not place.check(part):
            raise Refused("invalid", "this system has no file of such a name")
    return parts


def parent(root, parts, make=False):
    """Opens the directory that holds the last part."""
    directory = place.again(root)
    try:
        for part in parts[:-1]:
            if make:
                try:
                    place.make(part, directory, 0o777)
                except FileExistsError:
                    pass
            below = place.enter(part, directory)
            place.close(directory)
            directory = below
        return directory
    except BaseException:
        place.close(directory)
        raise


class Put:
    """The sink of a file's content: a new file beside it, renamed at the end."""

    _count = 0

    def __init__(self, root, path, mode, done):
        parts = split(path)
        if not isinstance(mode, int) or mode & ~0o777:
            raise Refused("invalid", "a mode holds permission bits only")
        Put._count += 1
        self._name = parts[-1]
        self._done = done
        self.stream = None
        self._directory = parent(root, parts, make=True)
        self._temporary = ".brig-put-%d-%s" % (Put._count, os.urandom(8).hex())
        try:
            self._refuse_directory()
            self._fd = place.open_new(self._temporary, self._directory, mode or 0o600)
        except BaseException:
            place.close(self._directory)
            raise
        try:
            place.set_mode(self._fd, mode or 0o600)
        except OSError:
            pass  # where changing modes is forbidden, the one of creation has to do

    def _refuse_directory(self):
        """What else stands at the end of the path, a link above all, is replaced, never followed."""
        try:
            info = place.status(self._name, self._directory)
        except FileNotFoundError:
            return
        if stat.S_ISDIR(info.st_mode):
            raise Refused("invalid", "what is there is a directory")

    def data(self, data):
        view = memoryview(data)
        try:
            while len(view):
                view = view[os.write(self._fd, view):]
        except OSError as err:
            self._fail(refusal(err))
            return
        self.stream.release(len(data))

    def end(self):
        try:
            os.close(self._fd)
            self._fd = -1
            self._refuse_directory()
            place.rename(self._temporary, self._directory, self._name, self._directory)
        except OSError as err:
            self._fail(refusal(err))
        except Refused as err:
            self._fail(err)
        else:
            place.close(self._directory)
            self._done(None)

    def reset(self):
        self._fail(Refused("failed", "the input was aborted"))

    def _fail(self, refused):
        self.stream.refuse(refused.code)
        if self._fd >= 0:
            os.close(self._fd)
        try:
            place.remove(self._temporary, self._directory)
        except OSError:
            pass
        place.close(self._directory)
        self._done(refused)


def open_regular(root, path):
    """Opens a file for reading: (descriptor, size, mode)."""
    parts = split(path)
    directory = parent(root, parts)
    try:
        fd = place.open_there(parts[-1], directory)
    finally:
        place.close(directory)
    info = os.fstat(fd)
    if not stat.S_ISREG(info.st_mode) or info.st_nlink != 1:
        os.close(fd)
        raise Refused("invalid", "not a regular file with one name")
    return fd, info.st_size, stat.S_IMODE(info.st_mode)


class Get:
    """A job that sends a file. step says whether it could go on at once, None at its end."""

    def __init__(self, fd, size, stream, congested):
        self._fd, self._size, self._stream, self._congested = fd, size, stream, congested
        self._at = 0

    def step(self):
        stream, left = self._stream, self._size - self._at
        if not stream.open or not left:
            stream.end()
        elif not stream.credit or self._congested():
            return False
        else:
            try:
                data = place.read_at(self._fd, min(frames.MAX_PAYLOAD, stream.credit, left), self._at)
            except OSError as err:
                data = b""
                stream.reset(os.strerror(err.errno))
            if data:
                self._at += stream.send(data)
                return True
            stream.reset("the file became shorter")
        os.close(self._fd)
        return None
