"""How long brig may be silent, and how it takes the conversation up again.

A runner with a lease outlives its connection. When brig is back it knocks, with a
signal from outside the process namespace, and sends a mark: a nonce, and a proof
that it knows the secret of hello. The answer to that nonce is what brig finds its
place by, among bytes that user code may have chosen: code cannot print what
depends on a nonce that it never saw. The format is fixed by wire.Resume.
"""
import os
import sys
import time

from _signal import SIG_BLOCK, SIG_UNBLOCK, SIGUSR1, pthread_sigmask

from . import native

MAGIC = b"\xb7\x17brig resumes\r\n"
ANSWER = b"\xb7\x18brig resumed\r\n"
NONCE = PROOF = 32
SIZE = len(MAGIC) + NONCE + PROOF

SFD_FLAGS = os.O_NONBLOCK | os.O_CLOEXEC
SIGNAL_INFO = 128  # bytes: number, errno, code, sender's process id, …
SI_USER = 0        # it was kill; nobody can claim that for what was sent otherwise


class Silence:
    """How long brig may say nothing. Renewed by every frame. nanoseconds 0: for ever."""

    def __init__(self, nanoseconds):
        self._seconds = nanoseconds / 1e9
        self._until = 0.0
        self.renew()

    def __bool__(self):
        return self._seconds > 0

    def renew(self):
        if self._seconds:
            self._until = time.monotonic() + self._seconds

    def left(self):
        """Seconds; not positive when it has ended."""
        return self._until - time.monotonic()


class Lease(Silence):
    """A silence that also goes on after the end of the connection."""

    def __init__(self, nanoseconds, secret, dumpable):
        super().__init__(nanoseconds)
        # Where brig can knock; None where resuming is impossible.
        self.door = _door(secret, dumpable) if nanoseconds else None


def _door(secret, dumpable):
    """A door, if what it promises can be kept: user code must neither reach this
    process nor look like somebody outside."""
    if dumpable != 0 or os.getpid() != 1 or not native.available():
        return None
    try:
        return Door(secret)
    except (OSError, AttributeError):
        return None


class Door:
    def __init__(self, secret):
        self._key = secret.encode("ascii")
        mask = 1 << (SIGUSR1 - 1)
        # Blocked, it is queued even though process 1 ignores what has no handler.
        pthread_sigmask(SIG_BLOCK, (SIGUSR1,))
        try:
            self.fd = native.call("signalfd", -1, mask.to_bytes(8, sys.byteorder).ljust(128, b"\0"), SFD_FLAGS)
        except BaseException:
            leave()
            raise

    def knocked(self):
        """Whether somebody outside has knocked since the last look.

        The kernel gives the sender's process id in our namespace: 0 is outside.
        """
        try:
            info = os.read(self.fd, SIGNAL_INFO)
        except BlockingIOError:
            return False
        code = int.from_bytes(info[8:12], sys.byteorder, signed=True)
        sender = int.from_bytes(info[12:16], sys.byteorder)
        return code == SI_USER and sender == 0

    def answer(self, mark):
        """What to answer to a mark of brig's, or None if it does not know the secret."""
        from _operator import _compare_digest
        nonce, proof = mark[len(MAGIC):-PROOF], mark[-PROOF:]
        if not mark.startswith(MAGIC) or not _compare_digest(proof, self._proof(b"brig", nonce)):
            return None
        return ANSWER + self._proof(b"runner", nonce)

    def _proof(self, side, nonce):
        return hmac(self._key, side + nonce)


def leave():
    """For a process that is no supervisor: the signal means there what it means anywhere."""
    pthread_sigmask(SIG_UNBLOCK, (SIGUSR1,))


def hmac(key, message):
    """HMAC-SHA-256 with a key of at most 64 bytes, without importing hmac."""
    sha256 = sha256_type()
    key = key.ljust(64, b"\0")
    inner = sha256(bytes(b ^ 0x36 for b in key) + message).digest()
    return sha256(bytes(b ^ 0x5c for b in key) + inner).digest()


def sha256_type():
    """The constructor, without importing hashlib where that can be avoided."""
    try:
        from _sha2 import sha256  # Python 3.12
    except ImportError:
        try:
            from _sha256 import sha256
        except ImportError:
            from hashlib import sha256
    return sha256
