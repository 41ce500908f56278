"""Attempts what a confined program must not be able to do. One line of JSON: name -> ok or errno.

Every attempt runs in a child of its own that may be killed. TARGETS comes from the test.
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

T = json.loads(TARGETS)
libc = ctypes.CDLL(None, use_errno=True)
X86 = platform.machine() == "x86_64"
NR = dict(
    socket=(41, 198), io_uring_setup=(425, 425), process_vm_readv=(310, 270), pidfd_open=(434, 434), pidfd_getfd=(438, 438),
    pidfd_send_signal=(424, 424), clone3=(435, 435), fsopen=(430, 430), bpf=(321, 280), perf_event_open=(298, 241),
    userfaultfd=(323, 282), keyctl=(250, 219), add_key=(248, 217), personality=(135, 92), shmget=(29, 194), shmat=(30, 196),
    mq_open=(240, 180), name_to_handle_at=(303, 264), memfd_create=(319, 279), execveat=(322, 281), fchmodat2=(452, 452),
    memfd_secret=(447, 447), open_tree=(428, 428), kcmp=(312, 272), ioprio_set=(251, 30), inotify_init1=(294, 26),
    sched_setscheduler=(144, 119), sched_setparam=(142, 118), sched_setattr=(314, 274))


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
    fd = call("socket", 0xDEAD00000002, 1, 0)
    address = struct.pack("<HH4s8x", 2, socket.htons(T["tcp"]), bytes([127, 0, 0, 1]))
    native("connect", fd, address, 16)


def unix(address, kind=socket.SOCK_STREAM):
    s = socket.socket(socket.AF_UNIX, kind)
    s.connect(address)


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
    buf = ctypes.create_string_buffer(8)
    local = struct.pack("QQ", ctypes.addressof(buf), 8)
    remote = struct.pack("QQ", T["address"], 8)
    call("process_vm_readv", T["victim"], local, 1, remote, 1, 0)


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
    call("shmget", T["sysv"], 0, 0)


def clone_user():
    pid = check(libc.syscall(ctypes.c_long(56 if X86 else 220), ctypes.c_long(0x10000000 | 17), None, None, None, None))
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)


def clone3():
    args = ctypes.create_string_buffer(struct.pack("8Q", 0, 0, 0, 0, signal.SIGCHLD, 0, 0, 0))
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


V = T["victim"]
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
    io_uring=lambda: call("io_uring_setup", 1, ctypes.create_string_buffer(120)),
    unix_path=lambda: unix(T["unix"]),
    unix_abstract=lambda: unix("\0" + T["abstract"]),
    pair_dgram=pair_dgram,
    read_secret=lambda: open(T["canary"]).read(),
    list_outside=lambda: os.listdir(os.path.dirname(T["canary"])),
    write_outside=lambda: open(T["canary"] + ".new", "w"),
    truncate=lambda: os.truncate(T["canary"], 0),
    chmod=lambda: os.chmod(T["canary"], 0o640),
    chown=lambda: os.chown(T["canary"], os.getuid(), os.getgid()),
    utime=lambda: os.utime(T["canary"], (1, 1)),
    setxattr=lambda: os.setxattr(T["canary"], "user.brig", b"x"),
    fchmodat2=lambda: call("fchmodat2", -100, T["canary"].encode(), 0o640, 0),
    o_path=o_path,
    fifo=lambda: os.open(T["fifo"], os.O_WRONLY | os.O_NONBLOCK),
    environ=lambda: open("/proc/%d/environ" % V, "rb").read(),
    mem=lambda: open("/proc/%d/mem" % V, "rb"),
    root=lambda: os.listdir("/proc/%d/root/" % V),
    fds=lambda: os.readlink("/proc/%d/fd/1" % V),
    oom_score=lambda: open("/proc/%d/oom_score_adj" % V, "w").write("900"),
    kill=lambda: os.kill(V, 0),
    kill_all=lambda: os.kill(-1, 0),
    pidfd_signal=lambda: call("pidfd_send_signal", call("pidfd_open", V, 0), 0, 0, 0),
    sigio=sigio,
    # SEIZE: unlike ATTACH it does not stop the victim, which later probes need alive.
    ptrace=lambda: native("ptrace", 0x4206, V, 0, 0),
    vm_read=vm_read,
    pidfd_getfd=lambda: call("pidfd_getfd", call("pidfd_open", V, 0), 0, 0),
    kcmp=lambda: call("kcmp", V, V, 2, 0, 0),
    prlimit=lambda: resource.prlimit(V, resource.RLIMIT_NOFILE, (20, 20)),
    setpriority=lambda: os.setpriority(os.PRIO_PROCESS, V, 15),
    setpriority_user=lambda: os.setpriority(os.PRIO_USER, 0, os.getpriority(os.PRIO_USER, 0)),
    ioprio=lambda: call("ioprio_set", 1, V, 3 << 13),
    scheduler=lambda: call("sched_setscheduler", V, 3, struct.pack("i", 0)),  # SCHED_BATCH
    sched_param=lambda: call("sched_setparam", V, struct.pack("i", 0)),
    sched_attr=lambda: call("sched_setattr", V, struct.pack("IIQiIQQQ", 48, 5, 0, 0, 0, 0, 0, 0), 0),  # SCHED_IDLE
    affinity=lambda: os.sched_setaffinity(V, os.sched_getaffinity(V)),
    inotify=inotify,
    own_files=thread_with_own_files,
    unshare_files=lambda: native("close_range", 900, 901, 2),
    ioprio_user=lambda: call("ioprio_set", 3, 0, 2 << 13 | 4),
    unshare=lambda: native("unshare", 0x10000000),
    clone_user=clone_user,
    clone3=clone3,
    setns=lambda: native("setns", os.open("/proc/self/ns/uts", os.O_RDONLY), 0),
    mount=lambda: native("mount", b"none", b"/tmp", b"tmpfs", 0, None),
    fsopen=lambda: call("fsopen", b"tmpfs", 0),
    open_tree=lambda: call("open_tree", -100, b"/", 0),
    chroot=lambda: os.chroot("."),
    bpf=lambda: call("bpf", 0, ctypes.create_string_buffer(128), 128),
    perf=lambda: call("perf_event_open", ctypes.create_string_buffer(struct.pack("<II", 1, 112) + bytes(128)), 0, -1, -1, 0),
    userfaultfd=lambda: call("userfaultfd", 1),
    keyctl=lambda: call("keyctl", 0, -3, 0, 0, 0),
    add_key=lambda: call("add_key", b"user", b"brig", b"x", 1, -2),
    personality=lambda: call("personality", 0x0040000),
    handle=lambda: call("name_to_handle_at", -100, b"/", ctypes.create_string_buffer(struct.pack("II", 128, 0) + bytes(128)), ctypes.create_string_buffer(4), 0),
    memfd_secret=lambda: call("memfd_secret", 0),
    sysv=shm_attach,
    mq_open=lambda: call("mq_open", b"brig-probe", os.O_CREAT | os.O_RDWR, 0o600, 0),
    shm_other=lambda: open(T["shm"], "rb").read(),
    tiocsti=tiocsti,
    raise_limit=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (1 << 20, 1 << 20)),
    memfd_exec=memfd_exec,
    write_exec=write_exec,
)
if X86:
    ATTEMPTS.update(compat=lambda: compat(359), x32=x32)


def outcome(attempt):
    r, w = os.pipe()
    pid = os.fork()
    if pid == 0:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(6)
        try:
            attempt()
            said = "ok"
        except OSError as e:
            said = errno.errorcode.get(e.errno, str(e.errno))
        except ValueError as e:
            said = "EPERM" if "limit" in str(e) else repr(e)
        except BaseException as e:
            said = repr(e)
        os.write(w, said.encode())
        os._exit(0)
    os.close(w)
    status = os.waitpid(pid, 0)[1]
    said = os.read(r, 4096).decode()
    os.close(r)
    return said or signal.Signals(status & 127).name


print(json.dumps({name: outcome(attempt) for name, attempt in ATTEMPTS.items()}))
