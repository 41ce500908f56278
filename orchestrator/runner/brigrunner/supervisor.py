"""The half that never runs user code: it owns the frames to and from brig,
forks the worker, pumps its output, answers for files beside a run, and ends
everything below it when brig says so or has gone.

One thread, one poll loop, no call that waits for anybody.
"""
import os
import time

from _signal import SIG_IGN, SIGINT, signal

from . import VERSION, calls, frames, link, native, output, outside, pipes, procs, ready, resume, runs, streams, text, verdict
from .mode import PRIVATE, WINDOWS
from .pipes import POLLIN, POLLOUT, complain

HELLO_SECONDS = 10
CONGESTED = 1 << 20  # bytes that wait for brig; beyond, the worker has to wait too
REPORTS_AT_ONCE = 64
GATHER_SECONDS = 0.002  # small writes are left alone for so long, to be read together
GATHER_BELOW = 64 << 10
LAST_SECONDS = 10     # for what is below this process, before it ends
FAREWELL_SECONDS = 1  # for what brig has not read yet, once this process was asked to end


def main(directory, places=None):
    """Runs the supervisor. It returns, with a link.Boot, in forked workers only.
    places are workspace and scratch where those are known before brig says hello."""
    dumpable = native.harden()
    supervisor = Supervisor(directory, dumpable)
    if places is not None:
        from . import observe
        supervisor.observation = observe.Observation(*places, dumpable, observe.begin(*places))
    try:
        supervisor.loop()
    except link.Boot as boot:
        return boot.with_traceback(None)  # which held the frames of the supervisor
    except frames.ProtocolError as err:
        complain("protocol violation: %s" % err)
        supervisor.end(65)
    except ConnectionError:  # brig does not read any more
        supervisor.end(0)
    except BaseException:
        import traceback
        complain(traceback.format_exc())
        supervisor.end(70)


class Supervisor:
    def __init__(self, directory, dumpable):
        self.directory = directory
        self.dumpable = dumpable
        self.observation = None  # that has begun already
        self.tree = procs.Tree()
        self.ended = {}         # process id: wait status, since the last look
        self._woken = True      # a child may have ended
        self._own_descriptors()
        self._signals()
        self.streams = streams.Streams(self.outbox)
        self.oom = procs.OutOfMemoryKills()
        self.hello = None
        self.lease = resume.Lease(0, "", dumpable)
        self.silence = resume.Silence(0)
        self.workspace = -1     # its descriptor
        self.worker = None
        self._forked = False
        self.lost = None        # how the interpreter ended while no run was there to be told; "" if brig ended it
        self.late = output.Late()
        self.runs = runs.Runs(self)
        self.calls = calls.Calls(self)
        self._jobs = []         # [job, whether it could go on at once]
        self._following = []    # [stream, size]: bytes that follow in the worker's reports
        self._more = False      # there are reports that were read but not looked at
        self._buffer = bytearray(link.PIPE_SIZE)
        self._gathering = {}    # output stream: until when it is left alone
        self._poll = pipes.Poll()
        self._masks = {}

    def _own_descriptors(self):
        """Takes the frames off 0 and 1, so that nothing else writes there by accident."""
        reading, writing = pipes.high(0), pipes.high(1)
        self.null = os.open(os.devnull, os.O_RDWR | PRIVATE)
        os.dup2(self.null, 0)
        os.dup2(2, 1)
        pipes.unblock(reading)
        pipes.unblock(writing)
        self.inbox = frames.Inbox(reading)
        self.outbox = frames.Outbox(writing)

    def _signals(self):
        self._asked = False  # to end
        self._ear = None
        signal(SIGINT, SIG_IGN)
        if WINDOWS:  # where no signal comes, and the loop looks for ends by itself
            from _signal import SIGBREAK
            signal(SIGBREAK, SIG_IGN)
            self._wake = -1
            return
        from _signal import SIGCHLD, set_wakeup_fd
        self._wake, wake = pipes.pipe()
        for fd in (self._wake, wake):
            pipes.unblock(fd)
        signal(SIGCHLD, lambda number, frame: None)  # its only use is to wake the loop
        self._ear = outside.ear(outside.END)
        if self._ear is None:
            for number in outside.END:
                signal(number, self._ask)
        set_wakeup_fd(wake, warn_on_full_buffer=False)

    def _ask(self, number, frame):
        self._asked = True

    def _leave(self):
        """Ends because it was asked to; what is known goes out first."""
        until, ready = time.monotonic() + FAREWELL_SECONDS, pipes.Poll()
        ready.register(self.outbox.fd, POLLOUT)
        self.drain()
        self.outbox.release()
        self.outbox.flush()
        while self.outbox.waiting and time.monotonic() < until:
            ready.poll(max(0, int((until - time.monotonic()) * 1000)))
            self.outbox.flush()
        self.end(0)

    def end(self, status):
        """Ends everything below and this process: nobody else may be left to do it."""
        try:
            self.tree.kill_all(self.ended, LAST_SECONDS)
        finally:
            os._exit(status)

    # The loop.

    def loop(self):
        until = time.monotonic() + HELLO_SECONDS
        if self._ear is not None:
            self._want(self._ear.fd, POLLIN)
        while True:
            if self._asked:
                self._leave()
            waits = self._work()
            if self.hello is None:
                waits.append(until - time.monotonic())
                if waits[-1] <= 0:
                    complain("no hello within %d seconds" % HELLO_SECONDS)
                    self.end(64)
            for bound in (self.lease, self.silence):
                if bound:
                    waits.append(self._left(bound))
            self._want_all(waits)
            timeout = max(0, int(min(waits) * 1000 + 0.999)) if waits else None
            for fd, _ in self._poll.poll(timeout):
                self._happened(fd)

    def _left(self, bound):
        """Seconds until brig has been silent for too long; ends when it has."""
        if bound.left() <= 0 and self.inbox.open:
            self._read_frames()  # this process may have been stopped while a frame was waiting
        left = bound.left()
        if left <= 0:
            self.end(0)
        return left

    def _work(self):
        """Does all that needs no waiting; returns after how many seconds to come back."""
        self._notice_ended(reap=self._woken or WINDOWS)
        self._woken = False
        self._read_reports()
        self._bury()
        self.runs.advance()
        self.runs.tick()
        waits = [0.0] if self._more else []
        for job in list(self._jobs):
            job[1] = job[0].step()
            if job[1] is None:
                self._jobs.remove(job)
            elif job[1]:
                waits.append(0.0)
        self.outbox.flush()
        held = self.outbox.held()
        if held:
            waits.append(held)
        run = self.runs.current
        if run is not None:
            waits += [due - time.monotonic() for due in (run.next_ring, run.until) if due]
        return waits

    def _want_all(self, waits):
        want, worker = self._want, self.worker
        want(self.inbox.fd, POLLIN if self.inbox.open else 0)
        want(self._wake, POLLIN if self._wake >= 0 else 0)
        want(self.outbox.fd, POLLOUT if self.outbox.waiting and not self.outbox.held() else 0)
        if worker is None:
            return
        read = 0 if self.congested() else POLLIN
        want(worker.commands, POLLOUT if worker.backlog else 0)
        want(worker.reports, 0 if worker.silent or self._stalled() else read)
        now = time.monotonic()
        for number, fd in worker.outputs.items():
            left = self._gathering.get(number, 0.0) - now
            if left > 0 and read:
                waits.append(left)
            want(fd, read if left <= 0 else 0)

    def _want(self, fd, mask):
        if self._masks.get(fd, 0) != mask:
            if mask:
                self._poll.register(fd, mask)
                self._masks[fd] = mask
            else:
                self._poll.unregister(fd)
                del self._masks[fd]

    def _happened(self, fd):
        worker = self.worker
        if fd == self.inbox.fd:
            self._read_frames()
        elif fd == self._wake:
            os.read(fd, 4096)
            self._woken = True
        elif self._ear is not None and fd == self._ear.fd:
            self._asked = self._asked or self._ear.heard()
        elif self.lease.door is not None and fd == self.lease.door.fd:
            if self.lease.door.knocked():
                self.inbox.seek()
        elif worker is not None and fd == worker.reports:
            worker.readable = True
        elif worker is not None and fd == worker.commands:
            worker.flush()
            self.calls.flushed()
        elif worker is not None:
            for number, pipe in list(worker.outputs.items()):
                if fd == pipe:
                    self._read_output(number)

    def congested(self):
        return self.outbox.waiting > CONGESTED

    def add_job(self, job):
        self._jobs.append([job, True])

    # Frames from brig.

    def control(self, message, at_once=True):
        """Sends a message; not at_once, if it may wait for those that follow it."""
        if at_once:
            self.outbox.release()
        payload = text.dumps(message)
        if len(payload) > frames.MAX_PAYLOAD:
            raise ValueError("BUG: a %s message of %d bytes" % (message["type"], len(payload)))
        self.outbox.send(frames.CONTROL, 0, payload)

    def _read_frames(self):
        received = self.inbox.read()
        if received:
            self.lease.renew()
            self.silence.renew()
        for kind, stream, payload in received:
            if kind == frames.MARK:
                self._resume(payload)
                continue
            if kind != frames.CONTROL:
                self.streams.handle(kind, stream, payload)
                continue
            try:
                message = text.loads(payload)
            except ValueError:
                message = None
            if not isinstance(message, dict):
                raise frames.ProtocolError("control message that is no JSON object")
            self._control_message(message)
        if not self.inbox.open and self.lease.door is None:
            self.end(0)

    def _resume(self, answer):
        """Begins the conversation anew: what the one before left open is void."""
        self.calls.forget()
        self.streams.forget()
        going_on = self.runs.forget()
        self.late.forget()
        self.outbox.restart(answer)
        self.control({"type": "resumed", "run": going_on, "ended": self.runs.over, "ready": self._ready()})

    def _ready(self):
        observation, self.observation = self.observation, None
        return ready.report(self.directory, self.hello, self.dumpable, self.lease.door is not None, observation)

    def _control_message(self, message):
        kind = message.get("type")
        if (kind == "hello") != (self.hello is None):
            raise frames.ProtocolError("%.40r out of turn" % (kind,))
        if kind == "hello" and message.get("version") != VERSION:
            self.control({"type": "ready", "version": VERSION})  # brig says what that means, and leaves
        elif kind == "hello":
            self.hello = ready.check(message)
            self._open_door(self.hello.pop("lease"), self.hello.pop("secret"))
            self.silence = resume.Silence(self.hello.pop("silence"))
            self.workspace = ready.prepare(self.directory, self.hello)
            self.start_worker()
            self.control(self._ready())
        elif kind == "run":
            self.runs.request(message)
        elif kind == "call":
            self.calls.call(message)
        else:
            raise frames.ProtocolError("unknown message %.40r" % (kind,))

    def _open_door(self, lease, secret):
        self.lease = resume.Lease(lease, secret, self.dumpable)
        door = self.lease.door
        if door is not None:
            self.inbox.door, self.outbox.patient = door, True
            self._want(door.fd, POLLIN)

    # The worker's life.

    def start_worker(self):
        if self._forked:
            # The first worker imports its modules itself, while this process
            # looks around for ready; those that replace it inherit them.
            from . import worker  # noqa: F401
        self._forked = True
        try:
            self.worker = link.Worker(self.hello, self.null, self.directory, self.tree)
        except OSError as err:
            complain("fork: %s" % err)
            self.worker = None

    def ensure_worker(self):
        """Whether there is a worker to talk to; one that is about to be buried is not."""
        if self.worker is None:
            self.start_worker()
            if self.worker is None:  # no room for a process: what user code left behind takes it
                self.kill_all()
                self.start_worker()
            if self.worker is None:
                complain("no worker can be started")
                self.end(71)
        return self.worker.status is None

    def kill_all(self):
        """Kills the worker and everything else below; returns how many others that were."""
        killed, worker = self.tree.kill_all(self.ended), self.worker
        if worker is not None and worker.status is None and self.ended.get(worker.pid) == native.SIGKILL:
            killed -= 1
        self._notice_ended(reap=False)
        return killed

    def _notice_ended(self, reap=True):
        if reap:
            self.tree.reap(self.ended)
        worker = self.worker
        if worker is not None and worker.status is None and worker.pid in self.ended:
            worker.status = self.ended[worker.pid]
            worker.readable = True  # its last words, and the end of them
        self.ended.clear()

    def _bury(self):
        """Draws the conclusions once the worker has ended and its last reports are read."""
        worker = self.worker
        if worker is None:
            return
        if worker.status is None:
            if worker.silent and (self.runs.current is None or self.calls.asking):
                self.tree.kill(worker.pid)  # deaf and dumb; with a run it may be another program now
            return
        run = self.runs.current
        if (self._more or self.congested() or self._stalled()) and not (run and run.hard):
            return  # its last words first, unless that is more than brig cares to wait for
        for stream, _ in self._following:
            if stream is not None:
                stream.reset("the interpreter has ended")
        self._following = []
        swept = self.tree.kill_all(self.ended)
        self.ended.clear()
        if run is not None:
            run.swept += swept
        how = verdict.ending(worker.status)
        told = self.runs.died(worker.status)
        self.calls.died(how)
        self.drain()
        for fd in (worker.commands, worker.reports, *worker.outputs.values()):
            self._want(fd, 0)
        worker.close()
        self.worker = None
        if run is not None and run.hard and not told:
            self.lost = self.lost or ""  # whoever ended the run before it began knows
        elif not told:
            self.lost = "the interpreter %s between two runs; its variables are lost" % how
        if not self.runs.over:
            self.outbox.flush()  # what brig waits for goes first
            self.start_worker()

    # Output and reports.

    def _read_output(self, number, limit=None):
        """Reads once from an output pipe; returns how much it was, or 0."""
        worker = self.worker
        fd = worker.outputs[number]
        view = memoryview(self._buffer)
        try:
            length = pipes.read_into(fd, [view[:limit]])
        except BlockingIOError:
            return 0
        if not length:  # every writer has gone
            self._want(fd, 0)
            os.close(fd)
            del worker.outputs[number]
            return 0
        run = self.runs.current
        if run is not None and run.output is not None:
            run.output.add(number, view[:length], self.outbox)
        else:
            self.late.add(number, view[:length], self.outbox)
        if length < GATHER_BELOW:
            self._gathering[number] = time.monotonic() + GATHER_SECONDS
        return length

    def drain(self):
        """Reads what the output pipes hold now, but not what is added meanwhile."""
        if self.worker is None:
            return
        self.worker.drained = True
        for number, fd in list(self.worker.outputs.items()):
            left = link.readable_bytes(fd)
            while left > 0:
                length = self._read_output(number, min(left, len(self._buffer)))
                if not length:
                    break
                left -= length

    def drain_before_report(self):
        """Reads the output that stood before the report that is looked at.

        Once is enough for all reports that were read together.
        """
        if not self.worker.drained:
            self.drain()

    def _stalled(self):
        """Whether reports have to wait until brig grants credit."""
        return bool(self._following) and self._following[0][0] is not None and (
            self._following[0][0].open and not self._following[0][0].credit and self._following[0][1] > 0)

    def _read_reports(self):
        """Handles the worker's reports, a bounded number at a time."""
        worker, self._more = self.worker, False
        if worker is None or not (worker.pending or self._following):
            return
        try:
            for _ in range(REPORTS_AT_ONCE):
                if self.congested() or worker is not self.worker:
                    return
                if self._following:
                    if not self._forward(worker) and not worker.receive():
                        return
                    if self._stalled():
                        return
                    continue
                message = worker.report()
                if message is not None:
                    self._report(message)
                elif not worker.receive():
                    return
            self._more = True
        except link.Misuse as err:
            complain("the worker's channel was misused: %s" % err)
            run = self.runs.current
            if run is not None and run.output is not None:
                self.runs.note(run, "the interpreter said what it may not say (%s) and was ended" % err)
            worker.mute()
            self.kill_all()

    def _forward(self, worker):
        """Passes on bytes that follow a message; False when more have to be read first."""
        entry = self._following[0]
        stream, size = entry
        data = worker.raw(min(size, frames.MAX_PAYLOAD))
        if size and not data:
            return False
        length = len(data) if stream is None else stream.send(data)
        worker.used(length)
        entry[1] -= length
        if not entry[1]:
            if stream is not None:
                stream.end()
            del self._following[0]
        return True

    def _report(self, message):
        kind = message.get("t")
        if kind == "display":
            following = self.runs.display(message)
        elif kind == "reply":
            following = self.calls.answered(message)
        elif kind == "done":
            self.runs.done(message)
            following = []
        else:
            raise link.Misuse("an unknown message")
        self._following = [[stream, size] for stream, size in following]
