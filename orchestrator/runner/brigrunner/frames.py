"""Frames to and from brig: header, payload, and two ends that never block.

The format is fixed by the package wire on the other side: magic B7 16, kind,
flags, stream id and payload length, both big endian, then the payload.
"""
import os
from _collections import deque
from time import monotonic

from . import pipes, resume

MARK = 0  # not a frame: brig takes the conversation up again
CONTROL, DATA, END, CREDIT, RESET = 1, 2, 3, 4, 5

STREAM_STDOUT, STREAM_STDERR = 1, 2

HEADER = 12
MAX_PAYLOAD = 64 << 10
INITIAL_CREDIT = 256 << 10
MAX_REASON = 1 << 10
HELD = 32 << 10  # bytes; more is not held back

_MAGIC = b"\xb7\x16"


class ProtocolError(Exception):
    """brig sent what no correct brig sends."""


def header(kind, stream, length):
    return _MAGIC + bytes((kind, 0)) + stream.to_bytes(4, "big") + length.to_bytes(4, "big")


class Inbox:
    """Cuts what arrives into frames."""

    def __init__(self, fd):
        self.fd = fd
        self.open = True      # its end was not seen
        self.door = None      # a resume.Door
        self._space = memoryview(bytearray(256 << 10))  # to read into: a new one each time costs more than the read
        self._buffer = bytearray()
        self._seeking = False

    def read(self):
        """Reads what is there and returns the frames in it."""
        try:
            length = pipes.read_into(self.fd, (self._space,))
        except BlockingIOError:
            return ()
        except ConnectionResetError:
            length = 0
        # What follows a knock may have been read before the knock was noticed.
        if self.door is not None and self.door.knocked():
            self.seek()
        if not length:
            self.open = False
            return ()
        self._buffer += self._space[:length]
        return self._cut()

    def seek(self):
        """Somebody has knocked: everything before brig's next mark is void."""
        self._buffer = bytearray()
        self._seeking = True
        self.open = True  # there may be a new writer

    def _cut(self):
        frames = []
        buffer, at = self._buffer, 0
        while True:
            if self._seeking:
                found = buffer.find(resume.MAGIC, at)
                at = found if found >= 0 else max(at, len(buffer) - len(resume.MAGIC) + 1)
                if found < 0:
                    break
            # A mark may also follow the frames of another that was not answered in time.
            if self.door is not None and buffer[at:at + 2] == resume.MAGIC[:2]:
                if len(buffer) - at < resume.SIZE:
                    break
                answer = self.door.answer(bytes(buffer[at:at + resume.SIZE]))
                if answer is not None:
                    frames.append((MARK, 0, answer))
                    self._seeking = False
                    at += resume.SIZE
                    continue
                if self._seeking:
                    at += 1
                    continue
            if len(buffer) - at < HEADER:
                break
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
        self.patient = False  # a reader that has gone may come back
        self._queue = deque()
        self._held = 0.0  # until when what waits is left waiting; 0.0: it is not

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

    def hold(self, seconds):
        """Lets what is sent from here on wait for what follows it, to be written at once.

        So brig is woken once for a short run, not for each of its messages.
        """
        if not self.waiting:
            self._held = monotonic() + seconds

    def release(self):
        self._held = 0.0

    def held(self):
        """How many more seconds it waits; 0.0 for none."""
        if self._held:
            left = self._held - monotonic()
            if left > 0 and self.waiting < HELD:
                return left
            self._held = 0.0
        return 0.0

    def restart(self, mark):
        """Drops what waits, half a frame too, and begins anew with a mark."""
        self._held = 0.0
        self._queue.clear()
        self._queue.append(mark)
        self.waiting = len(mark)

    def flush(self):
        """Writes what the descriptor takes now, unless it is held; a short write is no surprise."""
        if self._held and self.held():
            return
        queue = self._queue
        while queue:
            batch = [queue[i] for i in range(min(len(queue), 64))]
            try:
                written = pipes.writev(self.fd, batch)
            except BlockingIOError:
                return
            except ConnectionError:
                if not self.patient:
                    raise
                queue.clear()
                self.waiting = 0
                return
            self.waiting -= written
            while written:
                first = queue[0]
                if written < len(first):
                    queue[0] = memoryview(first)[written:]
                    break
                written -= len(first)
                queue.popleft()
