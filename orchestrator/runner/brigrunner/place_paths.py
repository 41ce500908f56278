"""Places that are paths, for systems on which no directory can be held open.

User code can put a link in the place of a directory between a look and what
follows it. It wins nothing by that: this process has no more rights than the
code, so it reaches nothing that the code could not.
"""
import errno
import os
import stat

from .mode import PRIVATE, WINDOWS

REPARSE_POINT = 0x400  # FILE_ATTRIBUTE_REPARSE_POINT: a link, a junction, or what else leads elsewhere
_FORBIDDEN = set('\\:*?"<>|') | {chr(n) for n in range(32)}
_DEVICES = {"CON", "PRN", "AUX", "NUL", "CONIN$", "CONOUT$"} | {k + n for k in ("COM", "LPT") for n in "0123456789¹²³"}


def check(name):
    """Whether a part of a path may be that here: on Windows a colon names a stream, and some names are devices."""
    if not WINDOWS:
        return True
    return not (_FORBIDDEN & set(name) or name[-1] in ". " or name.partition(".")[0].rstrip().upper() in _DEVICES)


def open_dir(path):
    if not os.path.isdir(path):
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
    return path


def again(place):
    return place


def close(place):
    pass


def listdir(place):
    return os.listdir(place)


def _at(name, place):
    return place + os.sep + name


def status(name, place):
    info = os.lstat(_at(name, place))
    if getattr(info, "st_file_attributes", 0) & REPARSE_POINT and not stat.S_ISLNK(info.st_mode):
        # A junction counts as a directory there; here it is what it is.
        info = os.stat_result((stat.S_IFLNK | 0o777,) + tuple(info)[1:])
    return info


def enter(name, place):
    if not stat.S_ISDIR(status(name, place).st_mode):
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
    if not os.access(_at(name, place), os.R_OK | os.X_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    return _at(name, place)


def make(name, place, mode):
    os.mkdir(_at(name, place), mode)


def open_new(name, place, mode):
    return os.open(_at(name, place), os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0) | PRIVATE, mode)


def open_there(name, place):
    """A regular file for reading; anything else might block whoever opens it."""
    before = status(name, place)
    if stat.S_ISLNK(before.st_mode):
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
    if stat.S_ISDIR(before.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    if not stat.S_ISREG(before.st_mode):
        raise OSError(errno.ENXIO, os.strerror(errno.ENXIO))
    fd = os.open(_at(name, place), os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOFOLLOW", 0) | PRIVATE)
    try:
        if not os.path.samestat(os.fstat(fd), before):
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
    except BaseException:
        os.close(fd)
        raise
    return fd


def read_at(fd, length, offset):
    os.lseek(fd, offset, os.SEEK_SET)
    return os.read(fd, length)


def set_mode(fd, mode):
    if not WINDOWS:
        os.fchmod(fd, mode)


def rename(name, place, to, target):
    os.replace(_at(name, place), _at(to, target))


def remove(name, place):
    path = _at(name, place)
    try:
        os.unlink(path)
    except PermissionError:
        if not WINDOWS or stat.S_ISDIR(os.lstat(path).st_mode) and not _leads_elsewhere(path):
            raise
        if _leads_elsewhere(path):
            os.rmdir(path)  # a junction, not what it leads to
            return
        os.chmod(path, 0o600)  # one that is marked read-only
        os.unlink(path)


def _leads_elsewhere(path):
    return bool(getattr(os.lstat(path), "st_file_attributes", 0) & REPARSE_POINT)


def remove_dir(name, place):
    os.rmdir(_at(name, place))


def modify(place, bits):
    os.chmod(place, stat.S_IMODE(os.stat(place).st_mode) | bits)


def allow(name, place, bits):
    info = status(name, place)
    if stat.S_ISDIR(info.st_mode) or stat.S_ISREG(info.st_mode) and info.st_nlink == 1:
        os.chmod(_at(name, place), stat.S_IMODE(info.st_mode) | bits)
