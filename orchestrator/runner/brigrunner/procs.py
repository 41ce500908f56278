"""The processes below this one: who they are, and how all of them end.

As a subreaper (or as process 1) the supervisor becomes the parent of every
orphan below it, so "no child is left" means "nothing is left", however often
something forked, called setsid or changed its group.
"""
import os
import time

from .mode import DARWIN, PRIVATE, WINDOWS
from .native import SIGKILL

SIGINT = 2


def proc_is_ours():
    """Whether /proc shows the process ids of our own namespace."""
    try:
        return os.readlink("/proc/self") == str(os.getpid())
    except OSError:
        return False


class Tree:
    """All processes below the calling one."""

    def __init__(self):
        self.pid = os.getpid()
        self._proc = proc_is_ours()
        self._children = self._proc and os.path.exists("/proc/%d/task/%d/children" % (self.pid, self.pid))
        self._lone = None  # a Lone for the worker that was asked for last

    def reap(self, ended):
        """Collects every child that has ended: ended[pid] = wait status.

        Returns whether any child is left.
        """
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return False
            if pid == 0:
                return True
            ended[pid] = status

    def kill_all(self, ended, seconds=2.0):
        """Kills everything below until nothing is left; returns how many that were.

        Killing and reaping repeat, because what is being killed may fork. A child
        is killed as soon as it is found: by the end of a list it may be another.
        """
        self.reap(ended)
        before = set(ended)
        until = time.monotonic() + seconds
        pause = 0.0002
        while True:
            if self.pid == 1:
                _kill(-1)  # the kernel's own loop; nothing that forks escapes it
            if self._children:
                for pid in self._children_of(self.pid):  # of all orphans as well
                    _kill(pid)
            for pid in self.below():
                _kill(pid)
            if not self.reap(ended) or time.monotonic() > until:
                # Zombies of killed parents were reaped with the rest, but not killed.
                return sum(status == SIGKILL for pid, status in ended.items() if pid not in before)
            time.sleep(pause)
            pause = min(pause * 1.5, 0.002)

    def kill_since(self, earlier, spare, ended, seconds=1.0):
        """Kills what was not there in the snapshot earlier, except spare."""
        until = time.monotonic() + seconds
        killed = set()
        while True:
            found = False
            for key in self.snapshot(spare):
                if key not in earlier:
                    _kill(key[0])
                    killed.add(key)
                    found = True
            self.reap(ended)
            if not found or time.monotonic() > until:
                return len(killed)
            time.sleep(0.0005)

    def snapshot(self, spare=0):
        """The living processes below, as a set of (pid, start time)."""
        found = set()
        if spare and self._children and self._only(spare):
            return found
        for pid in self.below():
            if pid != spare:
                stat = self.stat(pid)
                if stat and stat[0] not in "ZX":
                    found.add((pid, stat[19]))
        return found

    def _only(self, pid):
        """Whether pid is certainly the only process below; False where it takes a walk to know."""
        if self._lone is None or self._lone.pid != pid:
            if self._lone is not None:
                self._lone.close()
            self._lone = Lone(self.pid, pid)
        return self._lone.alone()

    def below(self):
        """The process ids of all descendants, parents first."""
        if not self._proc:
            return []
        if not self._children:
            return self._below_by_parent()
        found = self._children_of(self.pid)
        for pid in found:  # grows while it is walked
            found += self._children_of(pid)
            if len(found) > 100000:
                break
        return found

    def _children_of(self, pid):
        found = []
        if pid == self.pid:
            tasks = (str(pid),)
        else:
            try:
                tasks = os.listdir("/proc/%d/task" % pid)
            except OSError:
                return found
        for task in tasks:
            data = read("/proc/%d/task/%s/children" % (pid, task))
            found += [int(word) for word in data.split()]
        return found

    def _below_by_parent(self):
        children = {}
        for name in os.listdir("/proc"):
            if name.isdigit():
                stat = self.stat(int(name))
                if stat:
                    children.setdefault(int(stat[1]), []).append(int(name))
        found = list(children.get(self.pid, ()))
        for pid in found:
            found += children.get(pid, ())
        return found

    @staticmethod
    def stat(pid):
        """The fields of /proc/PID/stat from the state on, or None."""
        data = read("/proc/%d/stat" % pid)
        return data.rpartition(")")[2].split() or None

    def interrupt(self, worker, pids):
        for pid in pids:
            _kill(pid, SIGINT)

    def kill(self, pid):
        _kill(pid)

    def usage(self):
        """Processes, resident bytes and processor time of this process and all below."""
        processes = rss = ticks = 0
        for pid in [self.pid] + self.below():
            stat = self.stat(pid)
            if stat and stat[0] not in "ZX":
                processes += 1
                rss += int(stat[21])
                ticks += sum(int(n) for n in stat[11:15])  # own, and of children waited for
        return {"processes": processes, "rss_bytes": rss * os.sysconf("SC_PAGE_SIZE"),
                "cpu_ns": ticks * 1000000000 // os.sysconf("SC_CLK_TCK")}


if WINDOWS:
    from .tree_windows import Tree  # noqa: F811
elif DARWIN:
    from .tree_darwin import Tree  # noqa: F811


class Lone:
    """Watches for the usual case, one child of one thread without children, with
    files that stay open: a walk before every run would cost more than the run."""

    def __init__(self, parent, pid):
        self.pid = pid
        self._only = b"%d " % pid
        self._fds = []
        try:
            for path in ("%d/task/%d/children" % (parent, parent), "%d/task" % pid, "%d/task/%d/children" % (pid, pid)):
                self._fds.append(os.open("/proc/" + path, os.O_RDONLY | PRIVATE))
        except OSError:
            self.close()

    def alone(self):
        if not self._fds:
            return False
        ours, tasks, theirs = self._fds
        try:
            # A directory has two links and one more for each below it: here the threads.
            return (os.pread(ours, 64, 0) == self._only and os.fstat(tasks).st_nlink == 3
                    and not os.pread(theirs, 64, 0))
        except OSError:  # it has ended
            return False

    def close(self):
        for fd in self._fds:
            os.close(fd)
        self._fds = []


def _kill(pid, signal=SIGKILL):
    try:
        os.kill(pid, signal)
    except OSError:
        pass


def read(path, limit=64 << 10):
    """The beginning of a small kernel file as text, or nothing."""
    try:
        fd = os.open(path, os.O_RDONLY | PRIVATE)
    except OSError:
        return ""
    try:
        parts = []
        while limit > 0:
            data = os.read(fd, min(limit, 16 << 10))
            if not data:
                break
            parts.append(data)
            limit -= len(data)
        return b"".join(parts).decode("utf-8", "replace")
    except OSError:
        return ""
    finally:
        os.close(fd)


class OutOfMemoryKills:
    """The counter of this memory cgroup, where there is one that is ours."""

    def __init__(self):
        self._fd = -1
        for path in self._candidates():
            try:
                self._fd = os.open(path, os.O_RDONLY | PRIVATE)
                return
            except OSError:
                pass

    @staticmethod
    def _candidates():
        for directory, version in cgroup_directories("memory"):
            if version == 2:
                yield directory + "/memory.events"
            else:
                # An unlimited group of version 1 is the whole machine's.
                limit = read(directory + "/memory.limit_in_bytes").strip()
                if limit.isdigit() and int(limit) < 1 << 60:
                    yield directory + "/memory.oom_control"

    def count(self):
        if self._fd < 0:
            return 0
        try:
            for line in os.pread(self._fd, 4096, 0).splitlines():
                if line.startswith(b"oom_kill "):
                    return int(line.split()[1])
        except (OSError, ValueError):
            pass
        return 0


def cgroup_directories(controller):
    """[(directory, version)] that may describe this process, the likeliest first."""
    found = []
    for line in read("/proc/self/cgroup").splitlines():
        number, controllers, path = (line.split(":", 2) + ["", ""])[:3]
        if number == "0" and not controllers:
            roots, version = ("/sys/fs/cgroup", "/sys/fs/cgroup/unified"), 2
        elif controller in controllers.split(","):
            roots, version = ("/sys/fs/cgroup/" + controller, "/sys/fs/cgroup/" + controllers), 1
        else:
            continue
        for root in roots:
            for directory in (root + path.rstrip("/"), root):  # the second where only our own part is mounted
                if (directory, version) not in found and os.path.isdir(directory):
                    found.append((directory, version))
    found.sort(key=lambda entry: entry[1])
    return found
