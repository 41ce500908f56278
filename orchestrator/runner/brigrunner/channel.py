"""The worker's end of its pipes to the supervisor, and what a soft interrupt does.

A signal alone does not say which run it means. So the supervisor first writes
the run's number to a pipe, the doorbell, and a number of another run is ignored:
an interrupt that comes too late never hits the run after.
"""
import os
import sys
import time

from _signal import SIG_DFL, SIG_IGN, SIGINT, signal
from _thread import allocate_lock, get_ident, start_new_thread

from . import loops, pipes, text
from .mode import SPAWNED, WINDOWS
from .own import trusted


REMIND_SECONDS = 0.02  # between the reminders of an interrupt that an event loop was given


class Channel:
    def __init__(self, boot):
        self._commands, self._reports, self._doorbell = boot.commands, boot.reports, boot.doorbell
        self._rung = 0            # the number that the doorbell's thread has read, where there is one
        if not SPAWNED:
            pipes.unblock(self._doorbell)
        self._lock = allocate_lock()
        self._read = b""          # of the commands, and not used yet
        self._kept = b""          # a message that goes out with the next
        self._main = get_ident()
        self.foreign = False      # this is a process that user code forked
        self.run = 0              # the current run's number, or 0
        self._armed = False       # user code may be interrupted now
        self._pending = 0         # the run that was interrupted while it was not armed
        self._rang = 0            # the last run that an interrupt was for
        self._answering = False   # the doorbell is being read
        self._given = 0           # the run whose event loop is to raise the interrupt, or 0
        self._echo = False        # a reminder of that may come too late
        self._settle()
        self.listen()
        if SPAWNED:
            start_new_thread(self._attend, ())

    def _settle(self):
        """Signals mean what they mean in any program, but for the interrupt."""
        if WINDOWS:
            from _signal import SIGBREAK
            signal(SIGBREAK, SIG_IGN)  # it is for what this process has started
            return
        from _signal import SIGCHLD, SIGHUP, SIGTERM, set_wakeup_fd
        set_wakeup_fd(-1)
        for number in (SIGCHLD, SIGHUP, SIGTERM):
            signal(number, SIG_DFL)
        os.register_at_fork(after_in_child=self._forked)

    # Interrupts.

    def _attend(self):
        """Waits at the doorbell where no signal can come from the supervisor: a thread that
        reads it and then sends one here. A signal also wakes what sleeps."""
        while not self.foreign:
            try:
                data = os.read(self._doorbell, 8 * 64)
            except OSError:
                return
            if not data:
                return
            self._rung = int.from_bytes(data[-8:], "big")
            self._signal()

    def _signal(self):
        """Sends the main thread a signal, from another one."""
        if WINDOWS:
            from _signal import raise_signal
            raise_signal(SIGINT)
        else:
            from _signal import pthread_kill
            pthread_kill(self._main, SIGINT)

    def listen(self):
        """Puts our handler in place, whatever user code has put there."""
        self._given, self._echo = 0, False
        sys.unraisablehook = self._unraisable
        self.handler = self._interrupted
        signal(SIGINT, self.handler)

    def _interrupted(self, number, frame):
        if self._answering:
            return  # a second ring, inside the answer to the first: raising here would lose for whom that was
        self._answering = True
        try:
            meant = self._read_doorbell()
            self._rang = meant or self._rang
        finally:
            self._answering = False
        if not meant:
            if self._given:
                meant = self._given
            elif self._echo:
                self._echo = False
                return
            else:
                meant = self.run  # nobody rang: user code sent the signal to itself
        if meant != self.run or not meant:
            if meant > self.run:
                self._pending = meant  # it overtook the command that starts the run
            return
        if self._armed and self._give(frame):
            return
        self._given = 0
        if not self._armed:
            self._pending = meant
            return
        raise KeyboardInterrupt

    def _give(self, frame):
        """Has an event loop whose own code was interrupted raise it, between two steps. As the step
        that comes next may never end, reminders follow until the interrupt was raised."""
        loop = loops.between(frame)
        if loop is None:
            return False
        try:
            loop.call_soon_threadsafe(self._take, loop)  # again for each reminder: it may be another loop
            self._owe()
        except Exception:  # a loop that is closed or that user code has changed, no room for a thread
            return False
        return True

    def _owe(self):
        """Has reminders come until this run's interrupt was raised where it counts."""
        if not self._given:
            start_new_thread(self._remind, (self.run,))
            self._given = self.run

    def _take(self, loop):
        if self._given and not loops.ending(loop):
            self._interrupted(SIGINT, None)

    def _unraisable(self, given):
        """Python drops what is raised in a finalizer, and an interrupt would be lost with it."""
        if given.exc_type is KeyboardInterrupt and self._armed and self.run and get_ident() == self._main:
            try:
                return self._owe()
            except RuntimeError:  # no room for a thread
                pass
        sys.__unraisablehook__(given)

    def _remind(self, run):
        time.sleep(REMIND_SECONDS)
        while self._given == self.run == run and not self.foreign:
            self._echo = True
            self._signal()
            time.sleep(REMIND_SECONDS)

    @property
    def interrupted(self):
        """Whether the current run was interrupted, heeded or not."""
        return self._rang == self.run != 0

    def _read_doorbell(self):
        if SPAWNED:
            meant, self._rung = self._rung, 0
            return meant
        meant = 0
        while not self.foreign:
            try:
                data = os.read(self._doorbell, 8 * 64)
            except OSError:
                break
            if not data:
                break
            meant = int.from_bytes(data[-8:], "big")
        return meant

    def arm(self):
        """From here on an interrupt raises KeyboardInterrupt; one that waited does so now."""
        self._armed = True
        if self._pending and self._pending == self.run:
            self._pending = 0
            raise KeyboardInterrupt

    def disarm(self):
        self._armed = False

    # Messages.

    def _forked(self):
        """In a child of user code: nothing of this is its business."""
        if self.foreign:
            return  # a child of such a child: the numbers may mean files of its own by now
        self.foreign = True
        for fd in (self._commands, self._reports, self._doorbell):
            os.close(fd)

    def receive(self):
        """The next command."""
        return text.loads(self._exactly(int.from_bytes(self._exactly(4), "big")))

    def receive_raw(self, length):
        return self._exactly(length)

    def receive_chunks(self):
        """Yields the pieces of a command's input; raises EOFError if it was aborted."""
        while True:
            length = int.from_bytes(self._exactly(4), "big")
            if length == 0xffffffff:
                raise EOFError("the input was aborted")
            if not length:
                return
            yield self._exactly(length)

    def waiting(self):
        """Whether a command has arrived."""
        if WINDOWS:
            return bool(self._read) or pipes.held(self._commands) != 0
        return bool(self._read) or bool(trusted("select").select([self._commands], [], [], 0)[0])

    def _exactly(self, length):
        data, self._read = self._read[:length], self._read[length:]
        if len(data) == length:
            return data
        parts, length = [data], length - len(data)
        while length:
            data = os.read(self._commands, min(max(length, 4096), 1 << 20))
            if not data:
                os._exit(0)  # the supervisor has gone
            parts.append(data[:length])
            self._read = data[length:]
            length -= len(parts[-1])
        return b"".join(parts)

    def keep(self, message):
        """Has a message go out with the next, which follows at once: one write, not two."""
        data = text.dumps(message)
        with self._lock:
            self._kept += len(data).to_bytes(4, "big") + data

    def send(self, message, blobs=()):
        """Sends a message and the bytes that follow it. An interrupt waits until all is out."""
        data = text.dumps(message)
        main = get_ident() == self._main
        armed, self._armed = self._armed, self._armed and not main
        try:
            with self._lock:
                kept, self._kept = self._kept, b""
                self._write(kept + len(data).to_bytes(4, "big") + data)
                for blob in blobs:
                    self._write(blob)
        finally:
            if main and armed:
                self.arm()

    def _write(self, data):
        view = memoryview(data)
        while len(view):
            view = view[os.write(self._reports, view[:1 << 20]):]
