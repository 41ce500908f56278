"""The processes below the runner on macOS, where an orphan becomes the child of
process 1 and nothing tells whose it was.

The profile that this process is in tells it: information about a process is given
only where that one is in the same, which it is if it was started from here, however
long ago and by whom. Without a profile there is the table of children, and whoever
was seen in it once stays known.
"""
import os
import time

from . import native
from .native import SIGKILL
from .procs import Tree as _Tree

ALL_PIDS, BSD_INFO, TASK_INFO = 1, 3, 4  # of libproc
BSD_SIZE, TASK_SIZE = 136, 96
MOST = 16384  # processes


def _ask(name, size, *args):
    """What a function of libproc writes into its last argument but one, or nothing."""
    buffer = bytes(bytearray(size))
    try:
        native.call(name, *(args + (buffer, size)))
    except OSError:
        return b""
    return buffer


def _word(buffer, at, size=4):
    return int.from_bytes(buffer[at:at + size], "little")


def all_pids():
    """The numbers of all processes: nothing else about them is told to everybody."""
    buffer = _ask("proc_listpids", 4 * MOST, ALL_PIDS, 0)
    return [pid for pid in memoryview(buffer).cast("i") if pid > 0] if buffer else []


def information(pid):
    """(parent, start) of a living process that this one may know about, or None."""
    buffer = _ask("proc_pidinfo", BSD_SIZE, pid, BSD_INFO, 0)
    if not buffer or _word(buffer, 12) != pid:
        return None
    return _word(buffer, 16), _word(buffer, 120, 8) * 1000000 + _word(buffer, 128, 8)


class Tree(_Tree):
    def __init__(self):
        super().__init__()
        self._known = {}  # process id: start
        # brig's own process is in no profile: if it is visible, all of the user's are.
        self._apart = information(os.getppid()) is None and information(self.pid) is not None

    def _table(self):
        found = {}
        for pid in all_pids():
            about = information(pid)
            if about is not None:
                found[pid] = about
        return found

    def _members(self):
        """{process id: start} of all that live below, and this process left out."""
        table = self._table()
        if self._apart:
            table.pop(self.pid, None)
            return {pid: start for pid, (_, start) in table.items()}
        members = {pid: start for pid, start in self._known.items() if table.get(pid, (0, 0))[1] == start}
        grown = True
        while grown:
            grown = False
            for pid, (parent, start) in table.items():
                if pid not in members and (parent == self.pid or parent in members):
                    members[pid] = start
                    grown = True
        self._known = members
        return dict(members)

    def below(self):
        return list(self._members())

    def snapshot(self, spare=0):
        return {(pid, start) for pid, start in self._members().items() if pid != spare}

    def kill_all(self, ended, seconds=2.0):
        """Kills everything below until nothing is left; returns how many that were."""
        until, killed = time.monotonic() + seconds, set()
        while True:
            below = self._members()
            for pid, start in below.items():
                self.kill(pid)
                killed.add((pid, start))
            children = self.reap(ended)
            if not (below or children) or time.monotonic() > until:
                return len(killed)
            time.sleep(0.001)

    def usage(self):
        processes = rss = ticks = 0
        for pid in [self.pid] + self.below():
            buffer = _ask("proc_pidinfo", TASK_SIZE, pid, TASK_INFO, 0)
            if buffer and _word(buffer, 84):  # threads
                processes += 1
                rss += _word(buffer, 8, 8)
                ticks += _word(buffer, 16, 8) + _word(buffer, 24, 8)
        base = _ask_timebase()
        return {"processes": processes, "rss_bytes": rss, "cpu_ns": ticks * base[0] // base[1]}


def _ask_timebase():
    """How many nanoseconds the clock's ticks are, as a fraction."""
    buffer = bytes(bytearray(8))
    try:
        native.call("mach_timebase_info", buffer)
    except OSError:
        return 1, 1
    return _word(buffer, 0) or 1, _word(buffer, 4) or 1
