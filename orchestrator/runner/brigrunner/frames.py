"""Frames to and from brig: header, payload, and two ends that never block.

The format is fixed by the package wire on the other side: magic B7 16, kind,
flags, stream id and payload length, both big endian, then the payload.
"""
import os
from _collections import deque

CONTROL, DATA, END, CREDIT, RESET = 1, 2, 3, 4, 5

STREAM_STDOUT, STREAM_STDERR = 1, 2

HEADER = 12
MAX_PAYLOAD = 64 << 10
INITIAL_CREDIT = 256 << 10
MAX_REASON = 1 << 10

_MAGIC = b"\xb7\x16"


class ProtocolError(Exception):
    """brig sent what no correct brig sends."""


def header(kind, stream, length):
    return _MAGIC + bytes((kind, 0)) + stream.to_bytes(4, "big") + length.to_bytes(4, "big")


class Inbox:
    """Cuts what arrives into frames."""

    def __init__(self, fd):
        self.fd = fd
        self._buffer = bytearray()

    def read(self):
        """Reads what is there and returns (frames, open)."""
        try:
            data = os.read(self.fd, 256 << 10)
        except BlockingIOError:
            return (), True
        if not data:
            return (), False
        self._buffer += data
        return self._cut(), True

    def _cut(self):
        frames = []
        buffer, at = self._buffer, 0
        while len(buffer) - at >= HEADER:
            kind, flags = buffer[at + 2], buffer[at + 3]
            stream = int.from_bytes(buffer[at + 4:at + 8], "big")
            length = int.from_bytes(buffer[at + 8:at + 12], "big")
            if buffer[at:at + 2] != _MAGIC or flags or not CONTROL <= kind <= RESET:
                raise ProtocolError("bad frame header")
            if length > MAX_PAYLOAD or (kind == CONTROL) != (stream == 0):
                raise ProtocolError("bad frame of kind %d" % kind)
            if len(buffer) - at - HEADER < length:
                break
            at += HEADER
            frames.append((kind, stream, bytes(buffer[at:at + length])))
            at += length
        del buffer[:at]
        return frames


class Outbox:
    """Frames that wait to be written to a descriptor that does not block."""

    def __init__(self, fd):
        self.fd = fd
        self.waiting = 0  # bytes
        self._queue = deque()

    def send(self, kind, stream, payload=b""):
        head = header(kind, stream, len(payload))
        if len(payload) < 512:
            self._queue.append(head + payload)
        else:
            self._queue.append(head)
            self._queue.append(payload)
        self.waiting += HEADER + len(payload)

    def data(self, stream, data):
        """Sends data of any length, in as many frames as it takes."""
        if len(data) <= MAX_PAYLOAD:
            if data:
                self.send(DATA, stream, data)
            return
        view = memoryview(data)
        for at in range(0, len(data), MAX_PAYLOAD):
            self.send(DATA, stream, view[at:at + MAX_PAYLOAD])

    def flush(self):
        """Writes what the descriptor takes now; a short write is no surprise."""
        queue = self._queue
        while queue:
            batch = [queue[i] for i in range(min(len(queue), 64))]
            try:
                written = os.writev(self.fd, batch)
            except BlockingIOError:
                return
            self.waiting -= written
            while written:
                first = queue[0]
                if written < len(first):
                    queue[0] = memoryview(first)[written:]
                    break
                written -= len(first)
                queue.popleft()
