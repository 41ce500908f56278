"""Signals that are heeded only if somebody outside of the process namespace sent them.

User code may signal process 1, which has its user. The kernel says who did: the
sender's process id in our namespace, and that is 0 for one outside.
"""
import os
import sys

from . import native
from .mode import WINDOWS

if WINDOWS:  # nobody can send any
    KNOCK = END = ()
    SFD_FLAGS = 0
else:
    from _signal import SIG_BLOCK, SIG_UNBLOCK, SIGHUP, SIGTERM, SIGUSR1, pthread_sigmask

    KNOCK, END = (SIGUSR1,), (SIGTERM, SIGHUP)
    SFD_FLAGS = os.O_NONBLOCK | os.O_CLOEXEC
SIGNAL_INFO = 128  # bytes: number, errno, code, sender's process id, …
AT_ONCE = 64       # no more are looked at in one go: user code can send as many as it likes
SI_USER = 0        # it was kill; nobody can claim that for what was sent otherwise


def possible():
    """Whether there is an outside, and the kernel can be asked."""
    return os.getpid() == 1 and not WINDOWS and native.available()


class Ear:
    """Takes signals away from this process and reads them from a descriptor."""

    def __init__(self, numbers):
        mask = sum(1 << (number - 1) for number in numbers)
        # Blocked, it is queued even though process 1 ignores what has no handler.
        pthread_sigmask(SIG_BLOCK, numbers)
        try:
            self.fd = native.call("signalfd", -1, mask.to_bytes(8, sys.byteorder).ljust(128, b"\0"), SFD_FLAGS)
        except BaseException:
            pthread_sigmask(SIG_UNBLOCK, numbers)
            raise

    def heard(self):
        """Whether somebody outside has sent one since the last look."""
        found = False
        for _ in range(AT_ONCE):
            try:
                info = os.read(self.fd, SIGNAL_INFO)
            except BlockingIOError:
                break
            code = int.from_bytes(info[8:12], sys.byteorder, signed=True)
            sender = int.from_bytes(info[12:16], sys.byteorder)
            found = found or code == SI_USER and sender == 0
        return found


def ear(numbers):
    """An Ear, or None where there is no telling who sends a signal."""
    if not possible():
        return None
    try:
        return Ear(numbers)
    except (OSError, AttributeError):
        return None


def leave():
    """For a process that is no supervisor: the signals mean there what they mean anywhere."""
    pthread_sigmask(SIG_UNBLOCK, KNOCK + END)
