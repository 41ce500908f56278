"""A warmed interpreter that forks sessions: it runs nothing itself.

It is process 1 of a sandbox of its own, without network and with brig's own
directories as the only writable ones. It may make namespaces, which a session may
not. Orders come from brig's supervisor on descriptor 0, each with five descriptors:
a runner's three, the pipe for the report, and the one that says to go on.

    zygote ── a child that leaves the namespaces, and ends ── the session, process 1 of its own

The last is made before the order comes, and waits for it.

Standard library only: without the module site, no code of installed packages has
run in it, unless brig asked for packages by name.
"""
import gc
import os
import select
import sys
import time

from _signal import SIG_DFL, SIGCHLD, SIGINT, SIG_IGN, set_wakeup_fd, signal
from _socket import AF_UNIX, CMSG_SPACE, SCM_RIGHTS, SOCK_SEQPACKET, SOL_SOCKET, socket

from . import late, narrow, native, own, supervisor, text

ORDERS = 0    # descriptor: from brig's supervisor and back
PROC = 3      # descriptor: a /proc that can be written to, of this process namespace
MAX_ORDER = 512 << 10
DESCRIPTORS = 5
AGAIN_SECONDS = 0.1
SPARE_SECONDS = 0.05  # after an order, before another process is made for the next: the session starts first

# What a first worker would import before its first run, and a run for its end.
_SOON = ("keyword", "operator", "reprlib", "collections", "functools", "types", "enum", "copyreg", "re", "token",
         "tokenize", "linecache", "traceback", "contextlib", "ast", "threading", "pickle", "faulthandler", "resource", "stat", "site", "types",
         "importlib.abc", "importlib.machinery", "importlib.util")


def main(directory):
    """Serves until brig's supervisor goes. It returns, with a link.Boot, in workers of sessions only."""
    native.prctl(native.PR_SET_PDEATHSIG, native.SIGKILL)
    zygote = Zygote()
    order = zygote.serve(directory)
    if order is None:
        os._exit(0)
    become(order)
    boot = supervisor.main(directory, (order["workspace"], order["scratch"]))
    if not zygote.sited:
        # Only here, in a worker: installed packages may run code of theirs when an
        # interpreter starts, and neither the zygote nor what confines a session trusts them.
        late.enter_site()
        sys.modules.pop("resource", None)  # user code may have one of its own by this name
    late.hide()
    return boot


class Zygote:
    """Keeps one process spare: the first one of a session to come, in namespaces of
    its own, that waits for the order itself."""

    def __init__(self):
        self.sited = False   # installed packages can be imported
        self.socket = socket(AF_UNIX, SOCK_SEQPACKET, 0, ORDERS)
        self._wake, wake = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        signal(SIGCHLD, lambda number, frame: None)  # its only use is to wake the loop
        signal(SIGINT, SIG_IGN)
        set_wakeup_fd(wake, warn_on_full_buffer=False)
        self._spare = -1     # ends when the spare has got an order, or has ended
        self._due = 0.0      # when the next is made, unless an order comes first
        self._poll = select.poll()
        self._poll.register(ORDERS, select.POLLIN)
        self._poll.register(self._wake, select.POLLIN)

    def say(self, message):
        self.socket.send(text.dumps(message))

    def serve(self, directory):
        """Forks sessions. Returns an order in a session, and None when nobody orders any more."""
        order = text.loads(self.socket.recv(MAX_ORDER) or b"{}")
        if "warm" not in order:
            return None
        self.sited = bool(order["warm"]["packages"])
        self.say({"ready": warm(directory, order["warm"])})
        while True:
            wait = None
            if self._spare < 0:
                wait = self._due - time.monotonic()
                if wait <= 0 and self._make():
                    return self._await()
            ready = dict(self._poll.poll(None if self._spare >= 0 else max(0, int(wait * 1000) + 1)))
            if self._wake in ready:
                os.read(self._wake, 4096)
                self._bury()
            if ready.get(ORDERS, 0) & (select.POLLHUP | select.POLLERR):
                return None
            if self._spare in ready:
                self._poll.unregister(self._spare)
                os.close(self._spare)
                self._spare, self._due = -1, time.monotonic() + SPARE_SECONDS
                self._poll.modify(ORDERS, select.POLLIN)  # nobody else reads it now
            elif self._spare < 0 and ORDERS in ready:
                self._due = 0.0

    def _bury(self):
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if not pid:
                return
            self.say({"pid": pid, "status": status})

    def _make(self):
        """Makes the first process of a session. Returns True in that one."""
        ends = []
        try:
            ends += os.pipe2(os.O_CLOEXEC)
            ends += os.pipe2(os.O_CLOEXEC)
            pid = os.fork()
        except OSError:
            # No process or descriptor is to be had just now, which is no reason to end the
            # sessions that there are. An order that waits is refused in time.
            for fd in ends:
                os.close(fd)
            time.sleep(AGAIN_SECONDS)
            return False
        over, theirs, told, tell = ends
        if pid:
            os.close(theirs)
            os.close(told)
            os.close(tell)
            self._spare = over
            self._poll.register(over, 0)  # only its end
            self._poll.modify(ORDERS, 0)
            return False
        os.close(over)
        self._theirs = theirs
        try:
            narrow.unshare(PROC)
            pid = os.fork()
        except BaseException as err:
            # Whatever is ordered is refused with the reason, one order after the other.
            _, fds = self._order()
            fail(fds[3], "namespace", err)
        if pid:
            os.write(tell, pid.to_bytes(4, "big"))
            os._exit(0)
        os.close(tell)
        self.pid = int.from_bytes(os.read(told, 4), "big")  # which it has in the zygote's namespace
        os.close(told)
        return True

    def _order(self):
        """The next order and what came with it; ends this process if none will come."""
        data, rights, _, _ = self.socket.recvmsg(MAX_ORDER, CMSG_SPACE(4 * DESCRIPTORS))
        os.close(self._theirs)  # the zygote may make another
        if not data:
            os._exit(0)
        return text.loads(data), _descriptors(rights)

    def _await(self):
        order, fds = self._order()
        self.socket.detach()  # its number is about to be a runner's
        order["fds"] = fds
        os.write(fds[3], text.dumps({"pid": self.pid}) + b"\n")
        return order


def _descriptors(rights):
    fds = []
    for level, kind, data in rights:
        if (level, kind) == (SOL_SOCKET, SCM_RIGHTS):
            fds += [int.from_bytes(data[at:at + 4], sys.byteorder) for at in range(0, len(data) - 3, 4)]
    for fd in fds:
        os.set_inheritable(fd, False)
    return fds


def fail(report, stage, err):
    """Ends a session that could not be made, with the reason."""
    number = err.errno if isinstance(err, OSError) and err.errno else 0
    words = "%s: %.300s" % (type(err).__name__, err)
    try:
        os.write(report, text.dumps({"failed": {"stage": stage, "errno": number, "text": words}}) + b"\n")
    finally:
        os._exit(1)


def warm(directory, order):
    """Imports what sessions will want. Returns what of it came, and how long it took."""
    begin, came, until = time.monotonic(), [], time.monotonic() + order["seconds"]
    from . import calls, checkpoint, observe, ready, variables, worker  # noqa: F401
    for name in _SOON:
        __import__(name)
    ready.source_hash(directory)
    if order["packages"]:
        late.enter_site()
    for name in order["packages"]:
        if time.monotonic() > until:
            break
        try:
            __import__(name)
            came.append(name)
        except Exception:  # it is not installed, or does not work here: a session finds out by itself
            pass
    gc.collect()
    gc.freeze()
    return {"packages": came, "threads": len(os.listdir("/proc/self/task")), "seconds": time.monotonic() - begin}


def become(order):
    """Turns the first process of a session into one that is confined as brig says."""
    fds = order.pop("fds")
    session = narrow.Session(order, *fds[3:])
    set_wakeup_fd(-1)
    signal(SIGCHLD, SIG_DFL)
    try:
        for number in range(3):
            os.dup2(fds[number], number)
        session.apply()
        reseed()
        line = text.dumps({"started": {"pid": os.getpid(), "report": session.report}})
        os.write(session.fd, line + b"\n")
        os.close(session.fd)
    except BaseException as err:
        fail(session.fd, session.stage, err)
    if os.read(session.go, 1) != b"1":
        os._exit(0)  # brig has looked from outside, and did not like it
    os.close(session.go)
    if order["path"]:
        own.trusted.rebase(order["path"])


def reseed():
    """Takes away what siblings would share of chance. The seed of hash() and the
    addresses of memory stay the same for all: only a new program has others."""
    loaded = sys.modules.get
    if loaded("random"):
        loaded("random").seed()
    if loaded("numpy.random"):
        loaded("numpy.random").seed()
    if loaded("uuid"):
        loaded("uuid")._last_timestamp = None
    if loaded("ssl"):
        loaded("ssl").RAND_add(os.urandom(32), 32.0)
    if loaded("tempfile"):
        loaded("tempfile")._name_sequence = loaded("tempfile").tempdir = None
    if loaded("multiprocessing.process"):
        loaded("multiprocessing.process").current_process().authkey = os.urandom(32)
