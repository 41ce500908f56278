"""Limits: each attempt goes a little beyond a small limit and no further, so that
the same attempt harms nothing where nothing limits it."""

BEAT = T.get("beat") or "brig-selftest-beat"
SMALL = T.get("limits") or {}
BEAT_LIFE = 25  # seconds after which a heartbeat ends itself, longer than anybody may take to end its session


# A heartbeat of a system that has no fork: a program of its own, which asks to be left out of whatever holds its starter.
_BEATS = """
import os, sys, time
ends = time.monotonic() + %d
with open(sys.argv[1], "ab", buffering=0) as f:
    f.write(b".")
    print(os.getpid(), flush=True)
    while time.monotonic() < ends:
        f.write(b".")
        time.sleep(0.02)
""" % BEAT_LIFE


def _spawn(path):
    import subprocess
    # CREATE_NEW_PROCESS_GROUP and CREATE_NO_WINDOW, and if it may CREATE_BREAKAWAY_FROM_JOB
    for flags in (0x200 | 0x08000000 | 0x01000000, 0x200 | 0x08000000):
        try:
            p = subprocess.Popen([sys.executable, "-I", "-S", "-c", _BEATS, path], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, creationflags=flags)
            break
        except PermissionError:
            pass
    else:
        raise PermissionError(errno.EACCES, "no process can be started")
    return int(p.stdout.readline())


def _beat(name=""):
    """Starts a heartbeat that has left its group, its session and its parent, and returns when it beats."""
    if not hasattr(os, "fork"):
        return _spawn(BEAT + name)
    r, w = os.pipe()
    first = os.fork()
    if first == 0:
        try:
            os.setsid()
            if os.fork() == 0:
                deaf()
                if sys.platform == "linux":
                    libc.prctl(1, 0, 0, 0, 0)  # PR_SET_PDEATHSIG: nobody's end is told to it
                fd = os.open(BEAT + name, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
                ends = time.monotonic() + BEAT_LIFE
                os.write(fd, b".")
                os.write(w, ("%d\n" % os.getpid()).encode())
                os.close(w)
                while time.monotonic() < ends:
                    os.write(fd, b".")
                    time.sleep(0.02)
        finally:
            os._exit(0)
    os.close(w)
    os.waitpid(first, 0)
    pid = os.read(r, 32)
    os.close(r)
    return int(pid)


def deaf():
    """Takes no notice of what asks to end. Only the first thread of a program may say so."""
    for name in ("SIGINT", "SIGTERM", "SIGHUP"):
        if hasattr(signal, name) and threading.current_thread() is threading.main_thread():
            signal.signal(getattr(signal, name), signal.SIG_IGN)


def _grows(path):
    before = os.stat(path).st_size
    time.sleep(0.15)
    return os.stat(path).st_size > before


def _survive(name):
    """The control: a tree whose head is killed as a group, as one would without more."""
    if not hasattr(os, "fork"):
        pid = _spawn(BEAT + name)  # nothing ends it with its starter there
        try:
            step("kill")
            if not _grows(BEAT + name):
                raise Missed("absent", "it ended by itself")
        finally:
            os.kill(pid, signal.SIGTERM)
        return "it beats on"
    r, w = os.pipe()
    head = os.fork()
    if head == 0:
        try:
            os.setpgid(0, 0)
            os.write(w, ("%d\n" % _beat(name)).encode())
            time.sleep(BEAT_LIFE)
        finally:
            os._exit(0)
    os.close(w)
    pid = int(os.read(r, 32))
    try:
        step("kill")
        os.killpg(head, signal.SIGKILL)
        os.waitpid(head, 0)
        if not _grows(BEAT + name):
            raise Missed("absent", "it ended with its group")
    finally:
        os.kill(pid, signal.SIGKILL)
    return "it beats on"


@attempt("tree-survive-timeout")
def survive_timeout():
    return _survive("-timeout") if CONTROL else _beat()


@attempt("tree-survive-close")
def survive_close():
    return _survive("-close") if CONTROL else _beat()


@attempt("clock-ignore")
def clock_ignore():
    """Runs on past the time of the run and takes no notice of signals. In a session it is the run itself that does."""
    deaf()
    ends = time.monotonic() + 0.7
    while time.monotonic() < ends:
        pass
    return "still running after 0.7 s"


@attempt("limit-processes")
def processes():
    most, children = SMALL["processes"] + 24, []
    if not hasattr(os, "fork"):
        return _programs(SMALL["processes"] + 2)  # the session has some already
    try:
        step("fork")
        while len(children) < most:
            pid = os.fork()
            if pid == 0:
                signal.alarm(5)
                while True:
                    signal.pause()
            children.append(pid)
        step("hold")
        time.sleep(0.1 if CONTROL else 1.4)
        gone = [c for c in children if os.waitpid(c, os.WNOHANG)[0]]
        if gone:
            raise Missed("SIGKILL", "%d of %d were ended" % (len(gone), len(children)))
        return "%d processes at once" % len(children)
    finally:
        for pid in children:
            try:
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
            except OSError:
                pass


def _programs(most):
    """The same with small programs that wait for input, where there is no fork."""
    import subprocess
    command, started = [os.path.join(os.environ.get("SYSTEMROOT", "C:\\Windows"), "System32", "cmd.exe"), "/d", "/c", "set /p x="], []
    step("fork")
    try:
        while len(started) < most:
            started.append(subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
        step("hold")
        time.sleep(0.1)
        gone = [p for p in started if p.poll() is not None]
        if gone:
            raise Missed("SIGKILL", "%d of %d were ended" % (len(gone), most))
        return "%d processes at once" % len(started)
    except OSError as e:
        if getattr(e, "winerror", 0) in (1816, 1455):  # ERROR_NOT_ENOUGH_QUOTA, ERROR_COMMITMENT_LIMIT
            raise Missed("EAGAIN", "%s after %d" % (e, len(started)))
        raise
    finally:
        for p in started:
            p.kill()


@attempt("limit-open-files")
def open_files():
    fds = []
    step("open")
    try:
        while len(fds) < SMALL["open_files"] + 16:
            fds.append(os.open("/dev/null", os.O_RDONLY))
    finally:
        for fd in fds:
            os.close(fd)
    return "more than %d" % SMALL["open_files"]


@attempt("limit-raise")
def raise_own():
    most = SMALL["open_files"] + 64
    step("raise")
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    except ValueError as e:
        raise OSError(errno.EPERM, str(e))
    return "%d" % most


@attempt("limit-file-size")
def file_size():
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    name, block = "brig-selftest-size", b"x" * 65536
    most = SMALL["file_size"] + 2 * len(block)
    try:
        step("write")
        with open(name, "wb", buffering=0) as f:
            done = 0
            while done < most:
                more = f.write(block)
                done += more
        return "%d bytes" % done
    finally:
        os.unlink(name)


@attempt("limit-disk")
def disk():
    """Twice the workspace, in files that are each within their limit, and time for whoever looks."""
    names, done, most, each = [], 0, 2 * SMALL["workspace"], SMALL["file_size"] // 2
    block = b"x" * (256 << 10)
    try:
        step("write")
        while done < most:
            names.append("brig-selftest-fill-%d" % len(names))
            with open(names[-1], "wb", buffering=0) as f:
                size = 0
                while size < each and done < most:
                    more = f.write(block)
                    size += more
                    done += more
        step("keep")
        if not CONTROL:
            time.sleep(5.8)  # a watch may look that seldom where others free as much as this writes; it ends this sooner
        return "%d bytes" % done
    finally:
        for name in names:
            try:
                os.unlink(name)
            except OSError:
                pass


def _fill(size):
    """Memory that is really there."""
    import mmap
    step("allocate")
    # A mapping of the system's own paging file is counted for nobody on the system that has no fork.
    m = mmap.mmap(-1, size) if hasattr(os, "fork") else bytearray(size)
    step("touch")
    block = b"\1" * (128 << 10)
    for at in range(0, size - len(block) + 1, len(block)):
        m[at:at + len(block)] = block
    return m


@attempt("limit-memory")
def memory():
    m = _fill(SMALL["memory"] + SMALL["memory"] // 4)
    step("keep")
    if not CONTROL:
        time.sleep(1.4)  # for a watch that looks now and then
    return "%d bytes in one process" % len(m)


@attempt("limit-memory-tree")
def memory_tree():
    """Each of three is well within the limit, and together they are not."""
    size, children = SMALL["memory"] // 2, []
    if not hasattr(os, "fork"):
        return _several(size)
    r, w = os.pipe()
    try:
        step("fork")
        for _ in range(3):
            pid = os.fork()
            if pid == 0:
                try:
                    signal.alarm(5)
                    m = _fill(size)
                    os.write(w, b"f")
                    time.sleep(4)
                except MemoryError:
                    os._exit(3)
                except OSError:
                    os._exit(3)
                finally:
                    os._exit(0)
            children.append(pid)
        os.close(w)
        step("touch")
        full, ends = 0, time.monotonic() + 2.4
        while time.monotonic() < ends and full < 3 or full == 3 and time.monotonic() < ends - (0.2 if not CONTROL else 9):
            if full < 3 and select.select([r], [], [], 0.02)[0]:
                got = os.read(r, 8)
                full += len(got)
            elif full == 3:
                time.sleep(0.02)
            for pid in children:
                done, status = os.waitpid(pid, os.WNOHANG)
                if done:
                    children.remove(pid)
                    if os.WIFSIGNALED(status):
                        raise Missed(signal.Signals(os.WTERMSIG(status)).name, "one of three was killed")
                    raise OSError(errno.ENOMEM, "one of three got no memory")
        if full < 3:
            raise Missed("timeout", "it took too long to fill the memory")
        return "%d bytes in three processes" % (3 * size)
    finally:
        for pid in children:
            try:
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
            except OSError:
                pass


def _several(size):
    import subprocess
    text, started = "import sys\nm = bytearray(%d)\nfor at in range(0, len(m), 4096): m[at] = 1\nprint(1, flush=True)\nsys.stdin.read()\n" % size, []
    step("touch")
    try:
        for _ in range(3):
            started.append(subprocess.Popen([sys.executable, "-I", "-S", "-c", text], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL))
        for p in started:
            if not p.stdout.readline():
                raise OSError(errno.ENOMEM, "one of three got no memory")
        return "%d bytes in three processes" % (3 * size)
    finally:
        for p in started:
            p.kill()


def _throttled():
    """How often the control group's limit held somebody back; -1: nobody counts it here."""
    for name in ("cpu.stat", "cpu/cpu.stat", "cpu,cpuacct/cpu.stat"):
        try:
            with open("/sys/fs/cgroup/" + name) as f:
                for line in f:
                    if line.startswith("nr_throttled "):
                        return int(line.split()[1])
        except (OSError, ValueError):
            pass
    return -1


@attempt("limit-cpu")
def cpu():
    """Some that never rest, for 0.3 s: enough to get a share on a machine that is busy. What they used is the kernel's count."""
    try:
        os.sched_setaffinity(0, range(os.cpu_count() or 1))  # a choice that code may undo
    except (OSError, AttributeError):
        pass
    before, began, children = _throttled(), time.monotonic(), []
    try:
        step("spin")
        for _ in range(8):
            pid = os.fork()
            if pid == 0:
                signal.alarm(3)
                while True:
                    pass
            children.append(pid)
        time.sleep(0.3)
    finally:
        used = 0.0
        for pid in children:
            os.kill(pid, signal.SIGKILL)
            usage = os.wait4(pid, 0)[2]
            used += usage.ru_utime + usage.ru_stime
    cores, most = used / (time.monotonic() - began), SMALL["milli_cpu"] / 1000.0
    said = "%.2f cores used, limit %.2f" % (cores, most)
    step("count")
    if cores > (2 if CONTROL else 1.35) * most:
        return said
    # That a busy machine gave it little is no limit: only one that held it back is.
    if before >= 0 and _throttled() > before:
        raise Missed("throttled", said)
    raise Missed("absent" if before >= 0 or CONTROL else "share", said)


@attempt("limit-output")
def output():
    """Sixteen times what is kept; whoever reads counts."""
    total = 16 * SMALL["output_kept"]
    line, done = b"brig-flood " + b"x" * 4084 + b"\n", 0
    step("write")
    while done < total:
        done += os.write(1, line)
    return done
