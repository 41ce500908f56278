"""Announced streams with credit, in both directions."""
from . import frames


class Sending:
    """A stream to brig. It sends only what credit allows."""

    def __init__(self, outbox, number):
        self.number = number
        self.credit = frames.INITIAL_CREDIT
        self.open = True  # until its end, or until brig wants no more
        self._outbox = outbox

    def send(self, data):
        """Sends the beginning of data and returns how much that was.

        What nobody wants any more counts as sent.
        """
        if not self.open:
            return len(data)
        length = min(len(data), self.credit)
        if length:
            self.credit -= length
            self._outbox.data(self.number, bytes(data[:length]))
        return length

    def end(self):
        if self.open:
            self.open = False
            self._outbox.send(frames.END, self.number)

    def reset(self, reason):
        if self.open:
            self.open = False
            self._outbox.send(frames.RESET, self.number, reason.encode("utf-8", "replace")[:frames.MAX_REASON])


class Receiving:
    """A stream from brig. sink has data(bytes), end() and reset()."""

    def __init__(self, outbox, number, sink):
        self.number = number
        self.open = True
        self._sink = sink
        self._window = frames.INITIAL_CREDIT
        self._owed = 0
        self._outbox = outbox

    def data(self, data):
        self._window -= len(data)
        if self._window < 0:
            raise frames.ProtocolError("data on stream %d beyond its credit" % self.number)
        self._sink.data(data)

    def release(self, length):
        """The sink has used up that much: grants as much again, in large steps."""
        self._owed += length
        if self.open and self._owed >= frames.INITIAL_CREDIT // 4:
            self._window += self._owed
            self._outbox.send(frames.CREDIT, self.number, self._owed.to_bytes(4, "big"))
            self._owed = 0

    def end(self, aborted):
        self.open = False
        if aborted:
            self._sink.reset()
        else:
            self._sink.end()

    def refuse(self, reason):
        """Tells brig to stop. What is still under way is ignored."""
        if self.open:
            self.open = False
            self._outbox.send(frames.RESET, self.number, reason.encode("utf-8", "replace")[:frames.MAX_REASON])


class Streams:
    def __init__(self, outbox):
        self._outbox = outbox
        self._next = 4
        self._last = 1
        self._sending = {}
        self._receiving = {}

    def forget(self):
        """Another conversation begins: aborts every stream without a word to brig."""
        receiving = [s for s in self._receiving.values() if s.open]
        for stream in receiving + list(self._sending.values()):
            stream.open = False
        for stream in receiving:
            stream.end(True)
        self.__init__(self._outbox)

    def open(self):
        stream = Sending(self._outbox, self._next)
        self._next += 2
        self._sending = {n: s for n, s in self._sending.items() if s.open}
        self._sending[stream.number] = stream
        return stream

    def accept(self, number, sink):
        """Prepares for a stream that brig has just announced."""
        if type(number) is not int or number < 3 or number % 2 == 0 or number <= self._last:
            raise frames.ProtocolError("stream %r announced" % (number,))
        self._last = number
        self._receiving = {n: s for n, s in self._receiving.items() if s.open}
        stream = Receiving(self._outbox, number, sink)
        self._receiving[number] = stream
        return stream

    def handle(self, kind, number, payload):
        """Takes any frame but control."""
        if kind == frames.CREDIT:
            if len(payload) != 4:
                raise frames.ProtocolError("credit of %d bytes" % len(payload))
            if number in self._sending:
                self._sending[number].credit += int.from_bytes(payload, "big")
            return
        if kind == frames.RESET and number % 2 == 0:
            if number in self._sending:
                self._sending[number].open = False
            return
        if number % 2 == 0 or number > self._last:
            raise frames.ProtocolError("frame on stream %d, which was never announced" % number)
        stream = self._receiving.get(number)
        if stream is None or not stream.open:
            return  # it was refused
        if kind == frames.DATA:
            stream.data(payload)
        else:
            stream.end(kind == frames.RESET)
