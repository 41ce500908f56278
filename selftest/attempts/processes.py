# Other processes of the user: signals, memory, and what one may change of another;
# then what the code's own process may become.


def decoy(probe):
    """The process that this probe may disturb."""
    found = (T.get("decoys") or {}).get(probe) or T.get("decoy")
    if not found:
        raise Missed("absent", "there is no decoy")
    pid = found["pid"]
    # In a process namespace of its own the number may belong to one of the session's
    # processes, which must not be taken for the decoy.
    step("find")
    if not CONTROL and os.path.exists("/proc/%d" % pid) and not _decoys(pid):
        raise Missed("absent", "the number is another process here")
    return found


def _decoys(pid):
    """Whether pid is one of this plot's decoys: their command lines name the probes."""
    try:
        with open("/proc/%d/cmdline" % pid, "rb") as f:
            return b"BRIG_DECOY" in f.read()
    except FileNotFoundError:
        return False
    except OSError:
        return True  # it is not ours: our own we may read


@attempt("processes-kill")
def _():
    pid = decoy("processes-kill")["pid"]
    step("kill")
    os.kill(pid, signal.SIGUSR1)


@attempt("processes-end")
def _():
    """Ends a process that is there for nothing else."""
    pid = decoy("processes-end")["pid"]
    step("kill")
    os.kill(pid, getattr(signal, "SIGKILL", signal.SIGTERM))  # without it, every signal ends


@attempt("processes-thread-kill")
def _():
    pid = decoy("processes-thread-kill")["pid"]
    step("kill")
    syscall(234, 131, pid, pid, int(signal.SIGUSR1))  # tgkill


@attempt("processes-pidfd")
def _():
    pid = decoy("processes-pidfd")["pid"]
    step("open")
    fd = syscall(434, 434, pid, 0)  # pidfd_open
    step("kill")
    syscall(424, 424, fd, int(signal.SIGUSR1), 0, 0)  # pidfd_send_signal


F_SETSIG = 10


@attempt("processes-sigio")
def _():
    """Has the kernel send the signal for us, when a pipe of ours becomes readable."""
    def ring(pid):
        r, w = os.pipe()
        fcntl.fcntl(r, fcntl.F_SETOWN, pid)
        fcntl.fcntl(r, F_SETSIG, int(signal.SIGUSR1))
        fcntl.fcntl(r, fcntl.F_SETFL, os.O_ASYNC | os.O_NONBLOCK)
        os.write(w, b"x")
        KEPT.extend((r, w))

    step("self")
    heard = []
    signal.signal(signal.SIGUSR1, lambda *_: heard.append(1))
    ring(os.getpid())
    until = time.monotonic() + 0.3
    while not heard and time.monotonic() < until:
        time.sleep(0.001)
    if not heard:
        raise Missed("deaf", "not even our own process gets such a signal")
    pid = decoy("processes-sigio")["pid"]
    step("own")
    ring(pid)
    # The kernel says nothing of a signal that it drops. Only the outside sees it arrive.
    step("arrive")
    if not CONTROL:
        raise Missed("silent", "accepted, and no word of what became of it")


KEPT = []  # what must stay as it is until the attempt's process ends


@attempt("processes-kill-brig")
def _():
    step("find")
    pid = T["brig"]["pid"]
    # Where the number of a decoy means that decoy, this one means brig.
    one = T.get("decoy")
    if not CONTROL and one and os.path.exists("/proc/%d" % pid) and not _decoys(one["pid"]):
        raise Missed("absent", "the number is another process here")
    step("kill")
    os.kill(pid, 0)  # asks whether it could be signalled




@attempt("processes-ptrace")
def _():
    target = decoy("processes-ptrace")
    pid = target["pid"]
    libc.ptrace.restype = ctypes.c_long
    libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
    step("seize")
    native("ptrace", 0x4206, pid, None, None)  # unlike ATTACH it does not stop it
    step("stop")
    native("ptrace", 0x4207, pid, None, None)
    os.waitpid(pid, 0x40000000)
    step("peek")
    out = b""
    while len(out) < target["length"]:
        ctypes.set_errno(0)
        word = libc.ptrace(2, pid, target["address"] + len(out), None)
        if word == -1 and ctypes.get_errno():
            check(-1)
        out += struct.pack("l", word)
    native("ptrace", 17, pid, None, None)  # lets it go
    return out[:target["length"]].decode("ascii", "replace")


@attempt("processes-vm-read")
def _():
    target = decoy("processes-vm-read")
    got = ctypes.create_string_buffer(target["length"])
    local = struct.pack("QQ", ctypes.addressof(got), target["length"])
    remote = struct.pack("QQ", target["address"], target["length"])
    step("read")
    syscall(310, 270, target["pid"], local, 1, remote, 1, 0)
    return got.raw.decode("ascii", "replace")


@attempt("processes-mem")
def _():
    target = decoy("processes-mem")
    step("find")
    os.lstat("/proc/%d" % target["pid"])
    step("open")
    fd = os.open("/proc/%d/mem" % target["pid"], os.O_RDONLY)
    step("read")
    return os.pread(fd, target["length"], target["address"]).decode("ascii", "replace")


@attempt("processes-environ")
def _():
    pid = decoy("processes-environ")["pid"]
    step("find")
    os.lstat("/proc/%d" % pid)
    step("open")
    with open("/proc/%d/environ" % pid, "rb") as f:
        for pair in f.read().split(b"\0"):
            if pair.startswith(b"BRIG_DECOY="):
                return pair.decode("ascii", "replace")
    raise Missed("absent", "another process, or an empty environment")


@attempt("processes-pidfd-getfd")
def _():
    pid = decoy("processes-pidfd-getfd")["pid"]
    step("open")
    fd = syscall(434, 434, pid, 0)
    step("fetch")
    out = syscall(438, 438, fd, 1, 0)  # its standard output
    step("write")
    os.write(out, b"signal %d GETFD\n" % pid)


@attempt("processes-prlimit")
def _():
    pid = decoy("processes-prlimit")["pid"]
    step("prlimit")
    soft, hard = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (64 if soft != 64 else 65, hard))


@attempt("processes-nice")
def _():
    pid = decoy("processes-nice")["pid"]
    step("setpriority")
    os.setpriority(os.PRIO_PROCESS, pid, os.getpriority(os.PRIO_PROCESS, pid) + 1)


@attempt("processes-scheduler")
def _():
    pid = decoy("processes-scheduler")["pid"]
    step("sched")
    syscall(144, 119, pid, 3, struct.pack("i", 0))  # SCHED_BATCH


@attempt("processes-ioprio")
def _():
    pid = decoy("processes-ioprio")["pid"]
    step("ioprio")
    syscall(251, 30, 1, pid, 2 << 13 | 7)  # ioprio_set: best effort, the last of it


@attempt("processes-oom-score")
def _():
    pid = decoy("processes-oom-score")["pid"]
    step("find")
    os.lstat("/proc/%d" % pid)
    step("open")
    fd = os.open("/proc/%d/oom_score_adj" % pid, os.O_WRONLY)
    step("write")
    os.write(fd, b"900")


@attempt("processes-sysv")
def _():
    if T.get("sysv", -1) < 0:
        raise Missed("absent", "this machine has no System V shared memory")
    step("attach")
    libc.shmat.restype = ctypes.c_void_p
    address = libc.shmat(T["sysv"], None, 0o10000)  # SHM_RDONLY
    if address in (None, ctypes.c_void_p(-1).value):
        check(-1)
    return ctypes.string_at(address, len(T["secret"])).decode("ascii", "replace")


# What the code's own process may become. Where the control is an ordinary user, a
# user namespace of its own shows what a capability would allow.


def able():
    if not CONTROL or os.geteuid() == 0:
        return
    step("control-namespace")
    uid, gid = os.getuid(), os.getgid()
    native("unshare", 0x10000000)
    for name, text in (("setgroups", "deny"), ("uid_map", "%d %d 1" % (uid, uid)), ("gid_map", "%d %d 1" % (gid, gid))):
        with open("/proc/self/" + name, "w") as f:
            f.write(text)


def status(pid="self"):
    with open("/proc/%s/status" % pid) as f:
        return dict(line.rstrip("\n").split(":\t", 1) for line in f if ":\t" in line)


@attempt("capabilities-held")
def _():
    able()
    step("read")
    now = status()
    held = ["%s=%s" % (n, now[n]) for n in ("CapPrm", "CapEff", "CapInh", "CapAmb") if n in now and int(now[n], 16)]
    if not held:
        raise Missed("absent", "every set is empty")
    return " ".join(held)


@attempt("capabilities-override")
def _():
    """Reads a file whose mode lets nobody read it."""
    able()
    path = inside("capabilities-override")
    step("prepare")
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0))
    try:
        step("open")
        os.close(os.open(path, os.O_RDONLY))
    finally:
        without(path)


@attempt("capabilities-chroot")
def _():
    able()
    step("chroot")
    os.chroot(".")


@attempt("capabilities-chown")
def _():
    path = inside("capabilities-chown")
    step("prepare")
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    try:
        step("chown")
        os.chown(path, 65534 if os.getuid() != 65534 else 65533, -1)
    finally:
        without(path)


@attempt("capabilities-mknod")
def _():
    path = inside("capabilities-mknod")
    step("mknod")
    os.mknod(path, 0o600 | 0o020000, os.makedev(1, 3))  # another /dev/null
    without(path)


@attempt("no-new-privileges-flag")
def _():
    step("read")
    if native("prctl", 39, 0, 0, 0, 0):  # PR_GET_NO_NEW_PRIVS
        raise Missed("set", "no_new_privs is set")


@attempt("no-new-privileges-set-id")
def _():
    """Starts a program that is set-user-id root and waits for a password."""
    import subprocess
    step("find")
    for path in [d + n for n in ("su", "passwd", "chsh", "chfn") for d in ("/usr/bin/", "/bin/")]:
        try:
            s = os.stat(path)
        except OSError:
            continue
        # Root is nobody with a name where a user namespace knows no such user.
        if s.st_mode & 0o4001 == 0o4001 and s.st_uid in (0, 65534):
            break
    else:
        raise Missed("absent", "there is no set-user-id program")

    def drop():
        if CONTROL and os.getuid() == 0:
            os.setgroups([]), os.setresgid(65534, 65534, 65534), os.setresuid(65534, 65534, 65534)

    before = status()
    r, w = os.pipe()
    step("start")
    p = subprocess.Popen([path], stdin=r, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, preexec_fn=drop)
    try:
        step("read")
        after = status(p.pid)  # also of one that has ended: nobody has waited for it
    finally:
        p.kill()
    step("gain")
    own_uid = before["Uid"].split()[1]
    if CONTROL and own_uid == "0":
        before["CapEff"], own_uid = "0", "65534"
    if after["Uid"].split()[1] == own_uid and int(after["CapEff"], 16) & ~int(before["CapEff"], 16) == 0:
        raise Missed("unchanged", "%s runs with our own rights" % path)
    return "%s: Uid %s CapEff %s" % (path, after["Uid"].replace("\t", " "), after["CapEff"])
