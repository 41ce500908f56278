"""The supervisor's end of a worker: its pipes, its messages, its process.

Whatever comes from a worker may come from user code that has taken it over, so
lengths and types are checked here and a violation ends the worker.
"""
import os

from . import native, outside, pipes, text
from .mode import SPAWNED
from .pipes import PIPE_SIZE, held as readable_bytes  # noqa: F401

MAX_REPORT = 512 << 10

SIGINT = 2


class Misuse(Exception):
    """The worker's control channel carried what no worker sends."""


class Boot(BaseException):
    """Raised in a freshly forked worker, to leave all of the supervisor behind."""

    def __init__(self, commands, reports, doorbell):
        super().__init__()
        self.commands, self.reports, self.doorbell = commands, reports, doorbell
        self.hello = None


class Worker:
    def __init__(self, hello, null, directory, tree):
        commands_read, self._commands = pipes.pipe()
        self.reports, reports_write = pipes.pipe()
        self._doorbell_read, self._doorbell = pipes.pipe()
        out_read, out_write = pipes.pipe()
        err_read, err_write = pipes.pipe()
        theirs = (commands_read, reports_write, out_write, err_write)
        self.status = None  # wait status, once it has ended
        try:
            if SPAWNED:
                from . import spawn
                self.pid = spawn.start(directory, null, commands_read, reports_write, self._doorbell_read,
                                       out_write, err_write, tree)
            else:
                self.pid = os.fork()
        except OSError:
            for fd in theirs + (self._commands, self.reports, self._doorbell_read, self._doorbell, out_read, err_read):
                os.close(fd)
            raise
        if self.pid == 0:
            os.setsid()  # a signal to "my own group" stays below
            for fd, number in ((null, 0), (out_write, 1), (err_write, 2)):
                os.dup2(fd, number)
            boot = Boot(*keep(commands_read, reports_write, self._doorbell_read))
            boot.hello = hello
            raise boot
        for fd in theirs:
            os.close(fd)
        self.outputs = {1: out_read, 2: err_read}
        for fd in (out_read, err_read):
            pipes.widen(fd)
        for fd in (self._commands, self.reports, self._doorbell, out_read, err_read):
            pipes.unblock(fd)
        self._waiting = bytearray()  # to be written to it
        self._buffer = bytearray()   # read from it
        self._space = memoryview(bytearray(64 << 10))
        self.readable = True         # there may be something to read
        self.drained = False         # the output before what was read is read too
        self.silent = False          # no report will follow
        if SPAWNED:
            self.send(hello)

    # Commands.

    @property
    def backlog(self):
        return len(self._waiting)

    @property
    def commands(self):
        return self._commands

    def send(self, message, data=b""):
        message = text.dumps(message)
        self._waiting += len(message).to_bytes(4, "big")
        self._waiting += message
        self._waiting += data
        self.flush()

    def chunk(self, data):
        """A piece of a command's input; an empty one ends it."""
        self._waiting += len(data).to_bytes(4, "big")
        self._waiting += data
        self.flush()

    def abort(self):
        """Ends a command's input before its time."""
        self._waiting += b"\xff\xff\xff\xff"
        self.flush()

    def flush(self):
        while self._waiting:
            try:
                written = pipes.write(self._commands, memoryview(self._waiting)[:256 << 10])
            except BlockingIOError:
                return
            except OSError:  # it has gone, or closed its end; its end will be seen
                self._waiting = bytearray()
                return
            del self._waiting[:written]

    def interrupt(self, sequence):
        """Rings: a number that says which run is meant, and a signal."""
        try:
            pipes.write(self._doorbell, sequence.to_bytes(8, "big"))
        except OSError:
            pass
        self.ring()

    def ring(self):
        if self.status is not None or SPAWNED:
            return  # its process id may be somebody else's by now; or the number is all that it waits for
        try:
            os.kill(self.pid, SIGINT)
        except OSError:
            pass

    def heard(self):
        """Whether the worker has taken the number."""
        return readable_bytes(self._doorbell_read) == 0

    # Reports.

    def receive(self):
        """Reads a piece; False when there is nothing to read for now."""
        if self.silent:
            return False
        if not self.readable:
            return False
        try:
            length = pipes.read_into(self.reports, (self._space,))
        except BlockingIOError:
            self.readable = False
            return False
        self.drained = False
        if not length:
            self.silent = True
            return False
        # A pipe that gave less is empty, until poll says otherwise or its other end is closed.
        self.readable = length == len(self._space) or self.status is not None
        self._buffer += self._space[:length]
        return True

    @property
    def pending(self):
        """Whether there may be a report."""
        return self.readable or len(self._buffer) > 0

    def mute(self):
        """Listens to no further report."""
        self.silent = True
        self._buffer = bytearray()

    def report(self):
        """The next complete message, or None."""
        buffer = self._buffer
        if len(buffer) < 4:
            return None
        length = int.from_bytes(buffer[:4], "big")
        if length > MAX_REPORT:
            raise Misuse("a message of %d bytes" % length)
        if len(buffer) < 4 + length:
            return None
        try:
            message = text.loads(buffer[4:4 + length])
        except ValueError:
            raise Misuse("not JSON") from None
        if not isinstance(message, dict):
            raise Misuse("not an object")
        del buffer[:4 + length]
        return message

    def raw(self, limit):
        """Up to limit bytes that follow a message; used(n) drops them."""
        return bytes(self._buffer[:limit])

    def used(self, length):
        del self._buffer[:length]

    def close(self):
        """Closes all pipes. The process itself is not touched."""
        for fd in [self._commands, self.reports, self._doorbell, self._doorbell_read, *self.outputs.values()]:
            if fd >= 0:
                os.close(fd)
        self._commands = self.reports = self._doorbell = self._doorbell_read = -1
        self.outputs = {}


def keep(*fds):
    """Moves fds out of the way and closes every other descriptor but 0, 1 and 2."""
    import fcntl
    for base in (240, 120, 48, 24):
        try:
            kept = [fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, base) for fd in fds]
            break
        except OSError:
            kept = None
    if kept is None:
        os._exit(70)
    at = 3
    for fd in sorted(kept):
        os.closerange(at, fd)
        at = fd + 1
    os.closerange(at, at + 256)
    native.soften()
    outside.leave()
    return kept
