"""How long brig may be silent, and how it takes the conversation up again.

A runner with a lease outlives its connection. When brig is back it knocks, with a
signal from outside the process namespace, and sends a mark: a nonce, and a proof
that it knows the secret of hello. The answer to that nonce is what brig finds its
place by, among bytes that user code may have chosen: code cannot print what
depends on a nonce that it never saw. The format is fixed by wire.Resume.
"""
import time

from . import outside

MAGIC = b"\xb7\x17brig resumes\r\n"
ANSWER = b"\xb7\x18brig resumed\r\n"
NONCE = PROOF = 32
SIZE = len(MAGIC) + NONCE + PROOF


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
    if dumpable != 0:
        return None
    ear = outside.ear(outside.KNOCK)
    return None if ear is None else Door(secret, ear)


class Door:
    def __init__(self, secret, ear):
        self._key = secret.encode("ascii")
        self.fd, self.knocked = ear.fd, ear.heard

    def answer(self, mark):
        """What to answer to a mark of brig's, or None if it does not know the secret."""
        from _operator import _compare_digest
        nonce, proof = mark[len(MAGIC):-PROOF], mark[-PROOF:]
        if not mark.startswith(MAGIC) or not _compare_digest(proof, self._proof(b"brig", nonce)):
            return None
        return ANSWER + self._proof(b"runner", nonce)

    def _proof(self, side, nonce):
        return hmac(self._key, side + nonce)


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
