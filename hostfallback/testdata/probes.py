"""Attempts what a confined program must not be able to do.

try_it(name, targets) runs one attempt in a child of its own, which may be killed, and says what came of it: "said" is ok,
the name of an errno or that of a signal; "data" is what the attempt read. Whether ok is true is for the outside to see.
"""
import ctypes
import errno
import fcntl
import json
import mmap
import os
import platform
import resource
import signal
import socket
import struct
import sys
import time

T = {}
libc = ctypes.CDLL(None, use_errno=True)
X86 = platform.machine() == "x86_64"
NR = dict(
    socket=(41, 198), io_uring_setup=(425, 425), process_vm_readv=(310, 270), pidfd_open=(434, 434), pidfd_getfd=(438, 438),
    pidfd_send_signal=(424, 424), clone3=(435, 435), fsopen=(430, 430), bpf=(321, 280), perf_event_open=(298, 241),
    userfaultfd=(323, 282), keyctl=(250, 219), add_key=(248, 217), personality=(135, 92), shmget=(29, 194), shmat=(30, 196),
    mq_open=(240, 180), name_to_handle_at=(303, 264), memfd_create=(319, 279), execveat=(322, 281), fchmodat2=(452, 452),
    memfd_secret=(447, 447), open_tree=(428, 428), kcmp=(312, 272), ioprio_set=(251, 30), inotify_init1=(294, 26),
    sched_getattr=(315, 275), io_uring_enter=(426, 426), sched_setscheduler=(144, 119), sched_setparam=(142, 118), sched_setattr=(314, 274))


def check(result):
    if result == -1:
        raise OSError(ctypes.get_errno(), "")
    return result


def call(name, *args):
    libc.syscall.restype = ctypes.c_long
    wide = [ctypes.c_long(a) if isinstance(a, int) else a for a in args]
    return check(libc.syscall(ctypes.c_long(NR[name][0 if X86 else 1]), *wide))


def native(name, *args):
    return check(getattr(libc, name)(*args))


def sock(family, kind, proto=0):
    return socket.fromfd(call("socket", family, kind, proto), family, kind) if family in (1, 2, 10) else call("socket", family, kind, proto)


def tcp(family, address):
    s = socket.socket(family, socket.SOCK_STREAM)
    s.settimeout(2)
    s.connect((address, T["tcp6" if family == socket.AF_INET6 else "tcp"]))
    s.sendall(b"tcp")


def udp():
    socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"udp", ("127.0.0.1", T["udp"]))


def fastopen():
    s = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    s.sendto(b"fastopen", 0x20000000, ("127.0.0.1", T["tcp"]))


def high_bits():
    fd = call("socket", 0xDEAD00000002, 2, 0)
    address = struct.pack("<HH4s8x", 2, socket.htons(T["udp"]), bytes([127, 0, 0, 1]))
    check(libc.sendto(fd, b"bits", 4, 0, address, 16))


def unix(address, kind=socket.SOCK_STREAM):
    s = socket.socket(socket.AF_UNIX, kind)
    s.connect(address)


def outward():
    """An address beyond this machine. The name of the cloud's own data service, which stands at such an address too."""
    s = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    s.setblocking(False)
    try:
        s.connect(("192.0.2.1", 80))  # for documentation: nobody has it
    except BlockingIOError:
        pass  # the kernel has sent the first packet


def resolve():
    try:
        socket.getaddrinfo("brig.test.invalid", 80)
    except socket.gaierror as e:
        raise OSError(errno.EHOSTUNREACH, str(e))


def families():
    """Families that few programs want and that had more than their share of holes: KEY, BLUETOOTH, CAN, RDS, TIPC, XDP, SMC."""
    for family, kind in ((15, 3), (31, 3), (29, 3), (21, 5), (30, 1), (44, 3), (43, 1)):
        try:
            os.close(call("socket", family, kind, {15: 2, 31: 1, 29: 1}.get(family, 0)))
            return
        except OSError as e:
            failed = e
    raise failed


def ring_socket():
    """A socket that no call of socket() made: operation 45 of io_uring."""
    params = ctypes.create_string_buffer(120)
    ring = call("io_uring_setup", 1, params)
    word = lambda at: struct.unpack_from("<I", params, at)[0]
    queue = mmap.mmap(ring, max(word(64) + 4 * word(0), word(100) + 16 * word(4)), offset=0)
    entries = mmap.mmap(ring, 64, offset=0x10000000)
    entries[:64] = struct.pack("<BBHiQQIIQ24x", 45, 0, 0, 2, 2, 0, 0, 0, 7)
    queue[word(64):word(64) + 4] = struct.pack("<I", 0)  # the array: entry 0
    queue[word(44):word(44) + 4] = struct.pack("<I", 1)  # the tail
    call("io_uring_enter", ring, 1, 1, 1, None, 0)
    fd = struct.unpack_from("<i", queue, word(100) + 8)[0]
    if fd < 0:
        raise OSError(-fd, "")
    socket.socket(fileno=fd).sendto(b"ring", ("127.0.0.1", T["udp"]))


def pair_dgram():
    a, _ = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    a.sendto(b"pair", T["dgram"])


def compat(number):
    """An i386 system call from a 64-bit process: socket(AF_INET, SOCK_STREAM, 0) by int 0x80."""
    code = b"\x53\xb8" + struct.pack("<I", number) + b"\xbb\x02\0\0\0\xb9\x01\0\0\0\x31\xd2\xcd\x80\x5b\xc3"
    page = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    page.write(code)
    address = ctypes.addressof(ctypes.c_char.from_buffer(page))
    result = ctypes.CFUNCTYPE(ctypes.c_int)(address)()
    if result < 0:
        raise OSError(-result, "")


def x32():
    libc.syscall.restype = ctypes.c_long
    check(libc.syscall(ctypes.c_long(0x40000000 | 41), 2, 1, 0))


def sigio():
    r, w = os.pipe()
    fcntl.fcntl(r, fcntl.F_SETOWN, T["victim"])
    fcntl.fcntl(r, 10, signal.SIGUSR1)  # F_SETSIG
    fcntl.fcntl(r, fcntl.F_SETFL, os.O_ASYNC | os.O_NONBLOCK)
    os.write(w, b"x")


def vm_read():
    buf = ctypes.create_string_buffer(64)
    local = struct.pack("QQ", ctypes.addressof(buf), 64)
    remote = struct.pack("QQ", T["address"], 64)
    call("process_vm_readv", T["victim"], local, 1, remote, 1, 0)
    return buf.raw


def mem():
    with open("/proc/%d/mem" % T["victim"], "rb", 0) as f:
        f.seek(T["address"])
        return f.read(64)


def getfd():
    """Another process's descriptor 3, which is at the start of a file with the secret."""
    return os.pread(call("pidfd_getfd", call("pidfd_open", T["victim"], 0), 3, 0), 64, 0)


def pidfd_signal():
    call("pidfd_send_signal", call("pidfd_open", T["victim"], 0), signal.SIGUSR1, 0, 0)


def by_link():
    os.symlink(T["canary"], "link-to-canary")
    try:
        return open("link-to-canary").read()
    finally:
        os.unlink("link-to-canary")


def hard_link():
    os.link(T["canary"], "hard-link")
    try:
        return open("hard-link").read()
    finally:
        os.unlink("hard-link")


def move_in():
    os.rename(T["movable"], "moved")


def move_out():
    open("own-file", "w").close()
    try:
        os.rename("own-file", T["canary"] + ".moved")
    finally:
        if os.path.exists("own-file"):
            os.unlink("own-file")


def write_shared():
    """In the directory where everybody may write."""
    with open(T["shared"], "w") as f:
        f.write("x")


def fifo():
    os.write(os.open(T["fifo"], os.O_WRONLY | os.O_NONBLOCK), b"x")


def change_dir():
    os.chdir(os.path.dirname(T["canary"]))


def look_at():
    return "size %d" % os.stat(T["canary"]).st_size


def queue():
    name = b"brig-probe-%d" % os.getpid()
    call("mq_open", name, os.O_CREAT | os.O_RDWR, 0o600, 0)
    check(libc.mq_unlink(b"/" + name))


def shm_create():
    """What a semaphore of multiprocessing does."""
    name = "/dev/shm/brig-probe-%d" % os.getpid()
    os.close(os.open(name, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    os.unlink(name)


def inherited():
    """A descriptor that whoever started this left open."""
    return os.pread(T["left_open"], 64, 0)


def terminal(request):
    """Types into a terminal of its own, which is easier than into somebody else's."""
    master, slave = os.openpty()
    os.setsid()
    fcntl.ioctl(slave, 0x540E, 0)  # TIOCSCTTY
    libc.ioctl.argtypes = [ctypes.c_int, ctypes.c_ulong, ctypes.c_char_p]
    check(libc.ioctl(slave, request, b"x"))


def setuid():
    """Starts a program of root's that changes the user. The loader ignores LD_DEBUG exactly where that works."""
    r, w = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.dup2(w, 2)
        os.dup2(w, 1)
        os.execve("/usr/bin/su", ["su", "--version"], {"LD_DEBUG": "libs"})
    os.close(w)
    said = b""
    while chunk := os.read(r, 65536):
        said += chunk
    if os.waitpid(pid, 0)[1] != 0:
        raise OSError(errno.EIO, "")
    if b"find library" in said:
        raise OSError(errno.EPERM, "")


def bomb():
    pids = []
    try:
        for _ in range(150):
            pid = os.fork()
            if pid == 0:
                signal.alarm(6)
                while True:
                    signal.pause()
            pids.append(pid)
        time.sleep(T["patience"])  # whoever counts only now and then shall see them
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGKILL)


def descriptors():
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    for _ in range(2000):
        os.dup(1)


def big_file():
    try:
        with open("big", "wb") as f:
            f.seek(150 << 20)
            f.write(b"x")
    finally:
        os.unlink("big")


def fill_disk():
    try:
        for n in range(10):
            with open("fill-%d" % n, "wb") as f:
                f.write(bytes(8 << 20))
        time.sleep(T["patience"])
    finally:
        for n in range(10):
            os.unlink("fill-%d" % n)


def mount():
    os.makedirs("mounted", exist_ok=True)
    native("mount", b"none", b"mounted", b"tmpfs", 0, None)
    native("umount2", b"mounted", 2)


def plant_hook():
    os.makedirs(".git/hooks", exist_ok=True)
    open(".git/hooks/pre-commit", "w").close()


def replace_git():
    os.rename(".git", "git-was-here")
    os.makedirs(".git/hooks")


def artifact():
    os.symlink("/etc/passwd", "result.csv")
    os.mkfifo("result.txt")
    with open("result.bin", "wb") as f:
        f.truncate(1 << 20)


def daemon():
    """Leaves its session and its parent; holds a lock on a file of the workspace."""
    f = open("daemon-lock", "w")
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            fcntl.flock(f, fcntl.LOCK_EX)
            os.closerange(0, f.fileno())
            os.closerange(f.fileno() + 1, 1024)
            time.sleep(60)
        os._exit(0)
    os.wait()


def o_path():
    fd = os.open(T["canary"], os.O_PATH)
    os.chmod("/proc/self/fd/%d" % fd, 0o640)


def tiocsti():
    fcntl.ioctl(0, 0x5412, b"x")


def memfd_exec():
    fd = call("memfd_create", b"x", 0)
    os.write(fd, open("/bin/true", "rb").read())
    pid = os.fork()
    if pid == 0:
        argv = (ctypes.c_char_p * 2)(b"true", None)
        call("execveat", fd, b"", argv, None, 0x1000)
        os._exit(1)
    if os.waitpid(pid, 0)[1] != 0:
        raise OSError(errno.EIO, "")


def write_exec():
    with open("program", "wb") as f:
        f.write(open("/bin/true", "rb").read())
    os.chmod("program", 0o700)
    pid = os.fork()
    if pid == 0:
        try:
            os.execv("./program", ["program"])
        except OSError as e:
            os._exit(e.errno)
    status = os.waitpid(pid, 0)[1]
    if status:
        raise OSError(status >> 8, "")


def shm_attach():
    segment = call("shmget", T["sysv"], 0, 0)
    at = call("shmat", segment, None, 0o10000)  # SHM_RDONLY
    return ctypes.string_at(at, 64)


def clone_user():
    pid = check(libc.syscall(ctypes.c_long(56 if X86 else 220), ctypes.c_long(0x10000000 | 17), None, None, None, None))
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)


def clone3():
    args = ctypes.create_string_buffer(struct.pack("8Q", 0x10000000, 0, 0, 0, signal.SIGCHLD, 0, 0, 0))
    if call("clone3", args, 64) == 0:
        os._exit(0)


def inotify():
    fd = call("inotify_init1", os.O_NONBLOCK)
    native("inotify_add_watch", fd, os.path.dirname(T["canary"]).encode(), 0x100)  # IN_CREATE
    os.close(fd)


KEPT = []  # the stack of a thread that runs until the attempt's process ends


def thread_with_own_files():
    """A thread that shares everything but the descriptors."""
    own = 0x100 | 0x200 | 0x800 | 0x10000  # VM, FS, SIGHAND, THREAD, without FILES
    libc.clone.restype = ctypes.c_int
    stack = mmap.mmap(-1, 1 << 16, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    KEPT.append(ctypes.c_char.from_buffer(stack))
    top = ctypes.addressof(KEPT[-1]) + (1 << 16)
    check(libc.clone(libc.pause, ctypes.c_void_p(top), own, None))


ATTEMPTS = dict(
    tcp=lambda: tcp(socket.AF_INET, "127.0.0.1"),
    tcp6=lambda: tcp(socket.AF_INET6, "::1"),
    udp=udp,
    mptcp=lambda: socket.socket(socket.AF_INET, socket.SOCK_STREAM, 262).connect(("127.0.0.1", T["tcp"])),
    fastopen=fastopen,
    high_bits=high_bits,
    netlink=lambda: call("socket", 16, 3, 0),
    vsock=lambda: call("socket", 40, 1, 0),
    alg=lambda: call("socket", 38, 5, 0),
    packet=lambda: call("socket", 17, 3, 0),
    io_uring=ring_socket,
    outward=outward,
    resolve=resolve,
    families=families,
    unix_home=lambda: unix(T["unix_home"]),
    unix_path=lambda: unix(T["unix"]),
    unix_abstract=lambda: unix("\0" + T["abstract"]),
    pair_dgram=pair_dgram,
    read_secret=lambda: open(T["canary"]).read(),
    list_outside=lambda: os.listdir(os.path.dirname(T["canary"])),
    by_link=by_link,
    hard_link=hard_link,
    move_in=move_in,
    move_out=move_out,
    unlink=lambda: os.unlink(T["movable"]),
    write_shared=write_shared,
    change_dir=change_dir,
    look_at=look_at,
    cwd=lambda: os.listdir("/proc/%d/cwd/" % T["victim"]),
    cmdline=lambda: open("/proc/%d/cmdline" % T["victim"], "rb").read(),
    shm_create=shm_create,
    inherited=inherited,
    own_environ=lambda: "\n".join(sorted(os.environ.values())),
    setuid=setuid,
    bomb=bomb,
    descriptors=descriptors,
    memory=lambda: mmap.mmap(-1, 3 << 30, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS),
    big_file=big_file,
    fill_disk=fill_disk,
    death_signal=lambda: native("prctl", 1, 0, 0, 0, 0),
    plant_hook=plant_hook,
    replace_git=replace_git,
    artifact=artifact,
    daemon=daemon,
    interop=lambda: call("socket", 40, 1, 0),  # WSL starts Windows programs by such a socket
    write_outside=lambda: open(T["canary"] + ".new", "w"),
    truncate=lambda: os.truncate(T["canary"], 0),
    chmod=lambda: os.chmod(T["canary"], 0o640),
    chown=lambda: os.chown(T["canary"], os.getuid(), os.getgid()),
    utime=lambda: os.utime(T["canary"], (1, 1)),
    setxattr=lambda: os.setxattr(T["canary"], "user.brig", b"x"),
    fchmodat2=lambda: call("fchmodat2", -100, T["canary"].encode(), 0o640, 0),
    o_path=o_path,
    fifo=fifo,
    environ=lambda: open("/proc/%d/environ" % T["victim"], "rb").read(),
    mem=mem,
    root=lambda: os.listdir("/proc/%d/root%s" % (T["victim"], os.path.dirname(T["canary"]))),
    fds=lambda: open("/proc/%d/fd/3" % T["victim"]).read(),
    oom_score=lambda: open("/proc/%d/oom_score_adj" % T["victim"], "w").write("900"),
    kill=lambda: os.kill(T["victim"], signal.SIGUSR1),
    kill_all=lambda: os.kill(-1, 0),
    pidfd_signal=pidfd_signal,
    sigio=sigio,
    # SEIZE: unlike ATTACH it does not stop the victim, which later probes need alive.
    ptrace=lambda: native("ptrace", 0x4206, T["victim"], 0, 0),
    vm_read=vm_read,
    pidfd_getfd=getfd,
    kcmp=lambda: call("kcmp", T["victim"], T["victim"], 2, 0, 0),
    prlimit=lambda: resource.prlimit(T["victim"], resource.RLIMIT_NOFILE, (20, 20)),
    setpriority=lambda: os.setpriority(os.PRIO_PROCESS, T["victim"], 15),
    setpriority_user=lambda: os.setpriority(os.PRIO_USER, 0, os.getpriority(os.PRIO_USER, 0)),
    ioprio=lambda: call("ioprio_set", 1, T["victim"], 3 << 13),
    scheduler=lambda: call("sched_setscheduler", T["victim"], 3, struct.pack("i", 0)),  # SCHED_BATCH
    sched_param=lambda: call("sched_setparam", T["victim"], struct.pack("i", 0)),
    sched_attr=lambda: call("sched_setattr", T["victim"], struct.pack("IIQiIQQQ", 48, 5, 0, 0, 0, 0, 0, 0), 0),  # SCHED_IDLE
    affinity=lambda: os.sched_setaffinity(T["victim"], {min(os.sched_getaffinity(T["victim"]))}),
    inotify=inotify,
    own_files=thread_with_own_files,
    unshare_files=lambda: native("close_range", 900, 901, 2),
    ioprio_user=lambda: call("ioprio_set", 3, 0, 2 << 13 | 4),
    unshare=lambda: native("unshare", 0x10000000),
    clone_user=clone_user,
    clone3=clone3,
    setns=lambda: native("setns", os.open("/proc/self/ns/uts", os.O_RDONLY), 0),
    mount=mount,
    fsopen=lambda: call("fsopen", b"tmpfs", 0),
    open_tree=lambda: call("open_tree", -100, b"/", 0),
    chroot=lambda: os.chroot("."),
    bpf=lambda: call("bpf", 0, ctypes.create_string_buffer(struct.pack("4I", 2, 4, 4, 1) + bytes(112)), 128),
    perf=lambda: call("perf_event_open", ctypes.create_string_buffer(struct.pack("<II", 1, 112) + bytes(128)), 0, -1, -1, 0),
    userfaultfd=lambda: call("userfaultfd", 1),
    keyctl=lambda: call("keyctl", 0, -3, 0, 0, 0),
    add_key=lambda: call("add_key", b"user", b"brig", b"x", 1, -2),
    personality=lambda: call("personality", 0x0040000),
    handle=lambda: call("name_to_handle_at", -100, b"/", ctypes.create_string_buffer(struct.pack("II", 128, 0) + bytes(128)), ctypes.create_string_buffer(4), 0),
    memfd_secret=lambda: call("memfd_secret", 0),
    sysv=shm_attach,
    mq_open=queue,
    shm_other=lambda: open(T["shm"], "rb").read(),
    tiocsti=tiocsti,
    terminal=lambda: terminal(0x5412),
    terminal_high_bits=lambda: terminal(0xDEAD00005412),
    raise_limit=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (1 << 20, 1 << 20)),
    memfd_exec=memfd_exec,
    write_exec=write_exec,
)
if X86:
    ATTEMPTS.update(compat=lambda: compat(359), x32=x32)


def try_it(name, targets):
    T.update(targets)
    r, w = os.pipe()
    pid = os.fork()
    if pid == 0:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(6)
        data = None
        try:
            data, said = ATTEMPTS[name](), "ok"
        except OSError as e:
            said = errno.errorcode.get(e.errno, str(e.errno))
        except MemoryError:
            said = "ENOMEM"
        except ValueError as e:
            said = "EPERM" if "limit" in str(e) else repr(e)
        except BaseException as e:
            said = repr(e)
        if isinstance(data, (bytes, bytearray)):
            data = bytes(data[:4096]).decode("latin-1")
        os.write(w, json.dumps({"said": said, "data": data if isinstance(data, (str, list)) else None}).encode())
        os._exit(0)
    os.close(w)
    status = os.waitpid(pid, 0)[1]
    answer = b""
    while chunk := os.read(r, 65536):
        answer += chunk
    os.close(r)
    return json.loads(answer or json.dumps({"said": signal.Signals(status & 127).name}))


def serve():
    """Without a runner: one request and one answer per line."""
    for line in sys.stdin:
        request = json.loads(line)
        print("\nanswer " + json.dumps(try_it(request["name"], request["targets"])), flush=True)
