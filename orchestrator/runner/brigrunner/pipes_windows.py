"""The same for Windows, whose pipes cannot be waited for together.

What a pipe holds can be asked for at any time, so reading never blocks; a pipe
that is told not to wait takes what it has room for. What remains is to look
again and again, at first at once and then more rarely.
"""
import ctypes
import msvcrt
import os
import time

import _winapi

POLLIN, POLLOUT = 1, 4
PIPE_SIZE = 1 << 20
PIPE_NOWAIT = 1
ERROR_BROKEN_PIPE, ERROR_NO_DATA = 109, 232
CHUNKS = (64 << 10, 4096, 512, 64)  # a pipe with less room may take nothing of a larger piece
PAUSES = (0.0, 0.0005, 0.001, 0.002, 0.004, 0.008, 0.015)

_kernel = ctypes.WinDLL("kernel32", use_last_error=True)
_handle, _number = ctypes.c_void_p, ctypes.c_ulong
_kernel.SetNamedPipeHandleState.argtypes = (_handle, ctypes.POINTER(_number), ctypes.c_void_p, ctypes.c_void_p)
_kernel.WriteFile.argtypes = (_handle, ctypes.c_void_p, _number, ctypes.POINTER(_number), ctypes.c_void_p)
_kernel.ReadFile.argtypes = _kernel.WriteFile.argtypes


def pipe():
    reading, writing = _winapi.CreatePipe(None, PIPE_SIZE)
    return (msvcrt.open_osfhandle(reading, os.O_RDONLY | os.O_BINARY | os.O_NOINHERIT),
            msvcrt.open_osfhandle(writing, os.O_WRONLY | os.O_BINARY | os.O_NOINHERIT))


def high(fd):
    copy = os.dup(fd)
    msvcrt.setmode(copy, os.O_BINARY)
    return copy


def widen(fd):
    """They are made with all the room they will have."""


def unblock(fd):
    """A reading end needs nothing: it is read only for what it is known to hold."""
    mode = _number(PIPE_NOWAIT)
    _kernel.SetNamedPipeHandleState(msvcrt.get_osfhandle(fd), ctypes.byref(mode), None, None)


def held(fd):
    """How many bytes a pipe holds; -1 where all writers have gone."""
    try:
        return _winapi.PeekNamedPipe(msvcrt.get_osfhandle(fd), 0)[0]
    except OSError as err:
        if err.winerror in (ERROR_BROKEN_PIPE, ERROR_NO_DATA):
            return -1
        raise


def read_into(fd, views):
    there = held(fd)
    if there < 0:
        return 0
    if not there:
        raise BlockingIOError
    view = views[0]
    length, done = min(len(view), there), _number(0)
    space = (ctypes.c_char * length).from_buffer(view)
    if not _kernel.ReadFile(msvcrt.get_osfhandle(fd), space, length, ctypes.byref(done), None):
        raise ctypes.WinError(ctypes.get_last_error())
    return done.value


def write(fd, data):
    """Writes the beginning of data; BlockingIOError if there is no room for any of it."""
    data = bytes(data[:CHUNKS[0]])
    handle, done = msvcrt.get_osfhandle(fd), _number(0)
    for size in CHUNKS:
        if size != CHUNKS[0] and size >= len(data):
            continue
        if not _kernel.WriteFile(handle, data, min(size, len(data)), ctypes.byref(done), None):
            raise BrokenPipeError(32, "the reader has gone")
        if done.value:
            return done.value
    raise BlockingIOError


def writev(fd, batch):
    return write(fd, b"".join(batch))


class Poll:
    """Looks at pipes until something can be done with one of them."""

    def __init__(self):
        self._masks = {}
        self._calm = 0  # looks in a row at which nothing had happened

    def register(self, fd, mask):
        self._masks[fd] = mask

    def unregister(self, fd):
        del self._masks[fd]

    def poll(self, timeout=None):
        until = None if timeout is None else time.monotonic() + timeout / 1000
        first = True
        while True:
            found = [(fd, POLLIN) for fd, mask in self._masks.items() if mask & POLLIN and held(fd)]
            # Whether there is room again is seen by trying, after a pause.
            if not first:
                found += [(fd, POLLOUT) for fd, mask in self._masks.items() if mask & POLLOUT]
            if found:
                self._calm = 0
                return found
            pause = PAUSES[min(self._calm, len(PAUSES) - 1)]
            if until is not None:
                left = until - time.monotonic()
                if left <= 0:
                    return []
                pause = min(pause, left)
            self._calm += 1
            first = False
            time.sleep(pause)
            if self._calm >= len(PAUSES):
                return []  # a process may have ended, which no pipe tells
