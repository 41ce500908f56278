"""Directories that are held, and what can be done in them without following a link.

A place is an open directory here, so nothing that user code renames or links
meanwhile leads elsewhere. place_paths has the same for systems without that.
"""
import errno
import os
import stat

from .mode import DARWIN, PRIVATE, SPAWNED

if SPAWNED:
    from .place_paths import (allow, again, check, close, enter, listdir, make, modify, open_dir, open_new,  # noqa: F401
                              open_there, read_at, remove, remove_dir, rename, set_mode, status)
else:
    NO_LINK = os.O_NOFOLLOW
    _DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | PRIVATE

    def check(name):
        """Whether a part of a path may be that here."""
        return True

    def open_dir(path):
        """The place at a path, which may be a link."""
        return os.open(path, os.O_RDONLY | os.O_DIRECTORY | PRIVATE)

    again, close, listdir = os.dup, os.close, os.listdir

    def enter(name, place):
        """Opens a directory in another, never through a link.

        gVisor forgets O_NOFOLLOW where O_DIRECTORY stands beside it, so what was
        opened has to be what the name itself is.
        """
        below = os.open(name, _DIRECTORY, dir_fd=place)
        try:
            if not os.path.samestat(os.fstat(below), status(name, place)):
                raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
        except BaseException:
            os.close(below)
            raise
        return below

    def status(name, place):
        return os.stat(name, dir_fd=place, follow_symlinks=False)

    def make(name, place, mode):
        os.mkdir(name, mode, dir_fd=place)

    def open_new(name, place, mode):
        """A file for writing that was not there before."""
        return os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | NO_LINK | PRIVATE, mode, dir_fd=place)

    def open_there(name, place):
        """A file for reading. Without O_NONBLOCK a FIFO would hold this process for as long as it likes."""
        return os.open(name, os.O_RDONLY | os.O_NONBLOCK | NO_LINK | PRIVATE, dir_fd=place)

    read_at, set_mode = os.pread, os.fchmod

    def rename(name, place, to, target):
        os.rename(name, to, src_dir_fd=place, dst_dir_fd=target)

    def remove(name, place):
        os.unlink(name, dir_fd=place)

    def remove_dir(name, place):
        os.rmdir(name, dir_fd=place)

    def modify(place, bits):
        """Adds permissions to the place itself."""
        os.fchmod(place, stat.S_IMODE(os.fstat(place).st_mode) | bits)

    def allow(name, place, bits):
        """Adds permissions, but to no link and to no file that has other names elsewhere. What the name
        is gets held without being read, so that its mode can be changed and nothing else's."""
        if DARWIN:  # nothing can be held so there, but the mode of a link itself can be named
            info = status(name, place)
            if stat.S_ISDIR(info.st_mode) or stat.S_ISREG(info.st_mode) and info.st_nlink == 1:
                os.chmod(name, stat.S_IMODE(info.st_mode) | bits, dir_fd=place, follow_symlinks=False)
            return
        held = os.open(name, os.O_PATH | NO_LINK | PRIVATE, dir_fd=place)
        try:
            info = os.fstat(held)
            if stat.S_ISDIR(info.st_mode) or stat.S_ISREG(info.st_mode) and info.st_nlink == 1:
                os.chmod("/proc/self/fd/%d" % held, stat.S_IMODE(info.st_mode) | bits)
        finally:
            os.close(held)
