"""What code prints, bounded while it is read: the beginning goes out at once,
the end waits in a ring, exact counts say what is missing between, and the full
text goes into a file of the workspace as soon as anything would be lost.
"""
import errno
import os

from . import frames, place

LATE_LIMIT = 64 << 10
LOG_DIRECTORY = (".brig", "log")


class Ring:
    """The last bytes of what was written to it."""

    def __init__(self, size):
        self.size = size
        self.total = 0
        self._buffer = bytearray()

    def write(self, data):
        """Adds a memoryview."""
        size, length = self.size, len(data)
        if not size:
            self.total += length
            return
        at = self.total % size  # where a byte lies: its offset in all that was written, modulo size
        self.total += length
        if length >= size:
            data = data[length - size:]
            at = self.total % size
            self._buffer[:] = data[size - at:]
            self._buffer += data[:size - at]
            return
        if len(self._buffer) < size:  # it never wraps before it is full
            room = size - len(self._buffer)
            self._buffer += data[:room]
            data = data[room:]
            at = 0
        first = data[:size - at]
        self._buffer[at:at + len(first)] = first
        rest = data[len(first):]
        self._buffer[:len(rest)] = rest

    def content(self):
        at = self.total % self.size if self.total > self.size > 0 else 0
        return bytes(self._buffer[at:] + self._buffer[:at])


class Stream:
    """One output stream of one run."""

    def __init__(self, number, kept):
        self.number = number
        self.name = "stdout" if number == frames.STREAM_STDOUT else "stderr"
        self.total = 0
        self._passed = None  # once abandoned: how much brig was sent
        self._head = kept - kept // 2
        self._tail = Ring(kept // 2)

    def add(self, data, outbox):
        """Takes a memoryview; returns whether something had to be dropped."""
        head = self._head - self.total
        self.total += len(data)
        if self._passed is not None:
            return True
        if head > 0:
            outbox.data(self.number, bytes(data[:head]))
            data = data[head:]
        if len(data):
            self._tail.write(data)
        return self.dropped > 0

    def abandon(self):
        self._passed = min(self.total, self._head)

    @property
    def dropped(self):
        if self._passed is not None:
            return self.total - self._passed
        return max(0, self._tail.total - self._tail.size)

    def finish(self, run, outbox, control):
        if self._passed is not None:
            return
        if self.dropped:
            control({"type": "gap", "run": run, "name": self.name, "bytes": self.dropped})
        outbox.data(self.number, self._tail.content())

    def count(self):
        return {"total": self.total, "kept": self.total - self.dropped, "dropped": self.dropped}


class Output:
    """Both output streams of one run and their log."""

    def __init__(self, run, bounds, workspace):
        self.run = run
        self.streams = {n: Stream(n, bounds["kept"])
                        for n in (frames.STREAM_STDOUT, frames.STREAM_STDERR)}
        self.log = None
        self._journal = bytearray()  # all output, until it is known whether a log is needed
        self._limit = bounds["logged"]
        self._workspace = workspace

    def abandon(self):
        """Whoever asked for the run has gone: from here on its output is only logged."""
        for stream in self.streams.values():
            stream.abandon()
        self._open_log()

    def _open_log(self):
        if self.log is None:
            self.log = Log(self._workspace, self.run, self._limit)
            self.log.write(memoryview(self._journal))
            self._journal = bytearray()

    def add(self, number, data, outbox):
        dropped = self.streams[number].add(data, outbox)
        if self.log is None:
            self._journal += data
            if dropped:
                self._open_log()
        else:
            self.log.write(data)

    def finish(self, outbox, control):
        """Sends the ends; returns what the exit message says about output."""
        for stream in self.streams.values():
            stream.finish(self.run, outbox, control)
        account = {s.name: s.count() for s in self.streams.values()}
        if self.log is not None:
            account["log"] = self.log.close()
        return account


class Late:
    """Output between two runs. It counts as that of the run that ended last."""

    def __init__(self):
        self.run = None
        self._sent = {}
        self._dropped = {}

    def forget(self):
        """Nobody is there any more who knows that run."""
        self.run = None
        self._dropped = {}

    def begin(self, run):
        self.run = run
        self._sent = {frames.STREAM_STDOUT: 0, frames.STREAM_STDERR: 0}
        self._dropped = dict(self._sent)

    def add(self, number, data, outbox):
        if self.run is None:
            return  # no user code has run yet
        room = LATE_LIMIT - self._sent[number]
        if room > 0:
            outbox.data(number, bytes(data[:room]))
            self._sent[number] += min(room, len(data))
        self._dropped[number] += max(0, len(data) - room)

    def finish(self, control):
        for number, dropped in self._dropped.items():
            if dropped:
                name = "stdout" if number == frames.STREAM_STDOUT else "stderr"
                control({"type": "gap", "run": self.run, "name": name, "bytes": dropped})
        self.run = None
        self._dropped = {}


class Log:
    """The full output of one run as a file of the workspace, up to a bound.

    Each directory is opened without following links, and the file is created
    anew: whatever user code has planted there is not written through.
    """

    def __init__(self, workspace, run, limit):
        self.path = "/".join(LOG_DIRECTORY + (run + ".log",))
        self._limit = limit
        self._written = 0
        self._dropped = 0
        self._error = None
        self._fd = -1
        try:
            self._fd = _create(workspace, run + ".log")
        except OSError as err:
            self._error = err

    def write(self, data):
        keep = data[:max(0, self._limit - self._written)]
        self._dropped += len(data) - len(keep)
        while len(keep):
            if self._error is not None:
                self._dropped += len(keep)
                return
            try:
                written = os.write(self._fd, keep)
            except OSError as err:
                self._error = err
                continue
            self._written += written
            keep = keep[written:]

    def close(self):
        if self._fd >= 0:
            try:
                os.close(self._fd)
            except OSError as err:  # some file systems report a full disk here
                self._error = self._error or err
            self._fd = -1
        account = {"path": self.path, "bytes": self._written, "dropped": self._dropped}
        if self._error is not None:
            account["error"] = "%s: %s" % (errno.errorcode.get(self._error.errno, "error"),
                                           os.strerror(self._error.errno or 0))
        return account


def _create(workspace, name):
    directory = place.again(workspace)
    try:
        for part in LOG_DIRECTORY:
            try:
                place.make(part, directory, 0o700)
            except FileExistsError:
                pass
            below = place.enter(part, directory)
            place.close(directory)
            directory = below
        try:
            place.remove(name, directory)  # run ids are never used twice: it was planted
        except FileNotFoundError:
            pass
        return place.open_new(name, directory, 0o600)
    finally:
        place.close(directory)
