"""A warmed interpreter that forks sessions: it runs nothing itself.

It is process 1 of a sandbox of its own, without network and with brig's own
directories as the only writable ones. It may make namespaces, which a session may
not. Orders come from brig's supervisor on descriptor 0, each with five descriptors:
a runner's three, the pipe for the report, and the one that says to go on.

    zygote ── a child that leaves the namespaces, and ends ── the session, process 1 of its own

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

from . import narrow, native, own, supervisor, text

ORDERS = 0    # descriptor: from brig's supervisor and back
PROC = 3      # descriptor: a /proc that can be written to, of this process namespace
MAX_ORDER = 512 << 10
DESCRIPTORS = 5

# What a first worker would import before its first run, and a run for its end.
_SOON = ("keyword", "operator", "reprlib", "collections", "functools", "types", "enum", "copyreg", "re", "token",
         "tokenize", "linecache", "traceback", "contextlib", "ast", "threading", "pickle", "faulthandler", "resource", "stat", "site")


def main(directory):
    """Serves until brig's supervisor goes. It returns, with a link.Boot, in workers of sessions only."""
    native.prctl(native.PR_SET_PDEATHSIG, native.SIGKILL)
    zygote = Zygote()
    order = zygote.serve(directory)
    if order is None:
        os._exit(0)
    become(order)
    boot = supervisor.main(directory)
    if not zygote.sited:
        # Only here, in a worker: installed packages may run code of theirs when an
        # interpreter starts, and neither the zygote nor what confines a session trusts them.
        enter_site()
    return boot


class Zygote:
    def __init__(self):
        self.sited = False  # installed packages can be imported
        self.socket = socket(AF_UNIX, SOCK_SEQPACKET, 0, ORDERS)
        self._wake, wake = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        signal(SIGCHLD, lambda number, frame: None)  # its only use is to wake the loop
        signal(SIGINT, SIG_IGN)
        set_wakeup_fd(wake, warn_on_full_buffer=False)
        self._poll = select.poll()
        self._poll.register(ORDERS, select.POLLIN)
        self._poll.register(self._wake, select.POLLIN)

    def say(self, message):
        self.socket.send(text.dumps(message))

    def serve(self, directory):
        """Forks sessions. Returns an order in a session, and None when nobody orders any more."""
        while True:
            for fd, _ in self._poll.poll():
                if fd == self._wake:
                    os.read(fd, 4096)
                    self._bury()
                    continue
                data, rights, _, _ = self.socket.recvmsg(MAX_ORDER, CMSG_SPACE(4 * DESCRIPTORS))
                if not data:
                    return None
                order, fds = text.loads(data), _descriptors(rights)
                if "warm" in order:
                    self.sited = bool(order["warm"]["packages"])
                    self.say({"ready": warm(directory, order["warm"])})
                elif self._fork(fds):
                    order["fds"] = fds
                    return order
                for fd in fds:
                    os.close(fd)

    def _bury(self):
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if not pid:
                return
            self.say({"pid": pid, "status": status})

    def _fork(self, fds):
        """Makes the first process of a session. Returns True in that one."""
        if os.fork():
            return False
        report = fds[3]
        gone, here = os.pipe2(os.O_CLOEXEC)
        try:
            narrow.unshare(PROC)
            pid = os.fork()
        except BaseException as err:
            fail(report, "namespace", err)
        if pid:
            os.write(report, text.dumps({"pid": pid}) + b"\n")
            os._exit(0)
        os.close(here)
        os.read(gone, 1)  # its number is told first
        os.close(gone)
        self.socket.detach()  # its number is about to be a runner's
        return True


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
        enter_site()
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


def enter_site():
    """Makes installed packages importable, as an interpreter's start does."""
    import site
    site.main()
    own.trusted.rebase(sys.path)


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
