"""The current run: from its request through its output to its exit message."""
import time

from . import frames, link, output, verdict
from .files import Refused

RECEIVING, READY, RUNNING = "receiving", "ready", "running"

HOLD_SECONDS = 0.002  # the first messages of a run wait so long for those that follow

# After these many seconds the doorbell is rung again, if the worker has not
# heard it: a signal may come just before a system call that then blocks.
RINGS = (0.02, 0.04, 0.08, 0.16, 0.32)


class Run:
    def __init__(self, message, sequence):
        self.id = message.get("id")
        self.size = message.get("size")
        self.once = message.get("once") is True
        self.limit = message.get("limit_ns") or 0  # nanoseconds; 0: none of this side
        self.filename = message.get("filename") or ""
        self.argv = message.get("argv") or []
        if (not isinstance(self.id, str) or not 1 <= len(self.id) <= 64
                or not self.id.replace("_", "a").replace("-", "a").isalnum() or not self.id.isascii()):
            raise frames.ProtocolError("run id %.80r" % (self.id,))
        if (type(self.limit) is not int or self.limit < 0
                or type(self.size) is not int or not 0 <= self.size <= verdict.MAX_CODE
                or not isinstance(self.filename, str) or not isinstance(self.argv, list)
                or not all(isinstance(word, str) for word in self.argv)):
            raise frames.ProtocolError("run request")
        self.sequence = sequence
        self.phase = RECEIVING
        self.source = bytearray()
        self.stream = None
        self.output = None
        self.orphan = False   # whoever asked for it has gone
        self.asked = False    # somebody has interrupted it
        self.interrupted = self.hard = self.sweep = False
        self.final = None     # the last word of the one program, before it ended
        self.displays = 0
        self.display_bytes = 0
        self.began = 0
        self.oom = 0
        self.before = frozenset()
        self.swept = 0
        self.rings = ()
        self.next_ring = 0.0
        self.until = 0.0      # when it is killed, if brig does not do that before; 0.0: never
        self.exceeded = ""    # the bound that it was killed for

    # The sink of the source stream.

    def data(self, data):
        self.source += data
        if len(self.source) > self.size:
            raise frames.ProtocolError("more source than announced")
        self.stream.release(len(data))

    def end(self):
        if len(self.source) != self.size:
            raise frames.ProtocolError("less source than announced")
        self.phase = READY

    def reset(self):
        self.interrupted = True


class Runs:
    """Owns the current run. sup is the supervisor."""

    def __init__(self, sup):
        self._sup = sup
        self.current = None
        self.over = False  # the one program has ended
        self._sequence = 0

    def forget(self):
        """Another conversation begins. Returns the id of the run that goes on, or ""."""
        run = self.current
        if run is None:
            return ""
        if run.phase != RUNNING:  # no code has run: it was never there
            self.current = None
            return ""
        if not run.orphan:
            run.orphan = True
            run.output.abandon()
        return run.id

    def any(self):
        """Whether a run was ever asked for."""
        return self._sequence > 0

    def request(self, message):
        if self.current is not None or self.over:
            raise frames.ProtocolError("a run while another is current, or after the last")
        self._sequence += 1
        run = Run(message, self._sequence)
        run.stream = self._sup.streams.accept(message.get("code"), run)
        self.current = run

    def advance(self):
        """Starts the run as soon as its source and the worker are there."""
        run = self.current
        if run is None or run.phase == RUNNING:
            return
        if run.interrupted:
            run.stream.refuse("interrupted")
            self._begin(run)
            self._sup.drain()
            self._exit(run, {"outcome": "interrupted", "hard": run.hard}, self._kept())
        elif run.phase == READY and not self._sup.calls.asking and self._sup.ensure_worker():
            self._begin(run)
            self._sup.worker.send({"t": "run", "n": run.sequence, "size": run.size, "filename": run.filename,
                                   "argv": run.argv, "once": run.once}, run.source)
            run.source = bytearray()

    def _begin(self, run):
        sup = self._sup
        sup.drain()
        sup.late.finish(sup.control)
        run.phase = RUNNING
        run.output = output.Output(run.id, sup.hello["bounds"], sup.workspace)
        sup.outbox.hold(HOLD_SECONDS)
        sup.control({"type": "started", "run": run.id}, at_once=False)
        if sup.lost:
            self.note(run, sup.lost)
        run.oom = sup.oom.count()
        if sup.worker is not None:
            run.before = sup.tree.snapshot(spare=sup.worker.pid)
        run.began = time.monotonic_ns()
        if run.limit:
            run.until = time.monotonic() + run.limit / 1e9

    def note(self, run, message):
        """A line of our own among what the code prints to stderr."""
        run.output.add(frames.STREAM_STDERR, memoryview(("brig: %s\n" % message).encode()), self._sup.outbox)

    def interrupt(self, name, level, sweep):
        """Answers the call interrupt; Refused if that run is not current."""
        run, sup = self.current, self._sup
        if run is None or run.id != name:
            raise Refused("not-running", "that run is not running")
        run.asked = True
        run.sweep = run.sweep or sweep
        if level == "hard":
            run.hard = True
            if run.phase != RUNNING:
                run.interrupted = True
            run.swept += sup.kill_all()
        elif run.phase != RUNNING:
            run.interrupted = True
        else:
            sup.worker.interrupt(run.sequence)
            run.rings = RINGS
            self._schedule(run)

    @staticmethod
    def _schedule(run):
        run.next_ring = time.monotonic() + run.rings[0] if run.rings else 0.0
        run.rings = run.rings[1:]

    def tick(self):
        """Rings again where the first signal was not heard, and keeps the limit of the
        run, which is brig's to keep as long as brig is heard: nothing else would end
        a run whose connection stands still."""
        run, sup = self.current, self._sup
        if run is not None and run.until and time.monotonic() >= run.until:
            run.until, run.exceeded = 0.0, run.exceeded or "time"
            run.asked = run.hard = True
            run.swept += sup.kill_all()
            return
        if run is None or not run.next_ring or time.monotonic() < run.next_ring:
            return
        if sup.worker.status is not None:
            run.next_ring = 0.0
            return
        if not sup.worker.heard():
            sup.worker.ring()
        if run.sweep and len(run.rings) == len(RINGS) - 2:
            # The worker may be waiting for a child that it started.
            new = sup.tree.snapshot(spare=sup.worker.pid) - run.before
            if new:
                sup.tree.interrupt(sup.worker.pid, [pid for pid, _ in new])
        self._schedule(run)

    # Reports of the worker.

    def display(self, message):
        """Announces a bundle; returns the parts whose bytes follow: [(stream, size)]."""
        run, sup = self.current, self._sup
        parts = verdict.parts(message)
        if run is None or run.phase != RUNNING or message.get("n") != run.sequence or run.orphan:
            return [(None, size) for _, size, text in parts if text is None]  # of a thread that came too late
        size = sum(size for _, size, _ in parts)
        if run.display_bytes + size > sup.hello["bounds"]["display"] or run.displays >= verdict.MAX_DISPLAYS:
            run.exceeded = "displays"
            raise link.Misuse("more displays than allowed")
        run.displays += 1
        run.display_bytes += size
        sup.drain_before_report()
        bundle, following = [], []
        for mime, size, text in parts:
            part = {"mime": mime, "size": size}
            if text is None:
                stream = sup.streams.open()
                part["stream"] = stream.number
                following.append((stream, size))
            else:
                part["text"] = text
            bundle.append(part)
        sup.control({"type": "display", "run": run.id, "role": message["role"], "bundle": bundle}, at_once=False)
        return following

    def done(self, message):
        """The worker has finished the run and lives on, unless it is the one program."""
        run = self.current
        if run is None or run.phase != RUNNING or message.get("n") != run.sequence:
            raise link.Misuse("the end of a run that is not current")
        end = verdict.end(message)
        if end["outcome"] == "interrupted" and not run.asked:
            raise link.Misuse("an interrupt that nobody has asked for")
        if run.once:
            run.final = end
            return
        self._sup.drain_before_report()
        self._exit(run, end, self._kept())

    def died(self, status):
        """The worker has ended, everything below it too, and its reports are read."""
        run = self.current
        if run is None or run.phase != RUNNING:
            return False
        end = verdict.of_status(status, run.final)
        if run.hard:
            end["hard"] = True
        if run.exceeded:
            end["exceeded"] = run.exceeded
        self.over = self.over or run.once
        self._sup.drain()
        self._exit(run, end, "ended" if run.once else "lost")
        return True

    def _kept(self):
        return "kept" if self._sup.lost is None else "lost"

    def _exit(self, run, end, state):
        """The output of the run was read, as far as it was there."""
        sup = self._sup
        if run.sweep and sup.worker is not None and sup.worker.status is None:
            run.swept += sup.tree.kill_since(run.before, sup.worker.pid, sup.ended)
            sup.drain()
        elapsed = time.monotonic_ns() - run.began
        message = {"type": "exit", "run": run.id, "status": 0}
        message.update(end)
        message.update(run.output.finish(sup.outbox, sup.control))
        message.update({"displays": run.displays, "elapsed_ns": elapsed,
                        "oom_kills": max(0, sup.oom.count() - run.oom), "swept": run.swept, "state": state})
        sup.control(message)
        sup.lost = None
        if run.orphan:
            sup.late.forget()
        else:
            sup.late.begin(run.id)
        self.current = None
