"""Attempts at parts of the kernel that analysis code does not need."""

NEWUSER, NEWNS, NEWNET = 0x10000000, 0x00020000, 0x40000000


def own_namespaces():
    """Makes this process the root of namespaces of its own, which go with it. Refused: OSError at step unshare."""
    user, group = os.geteuid(), os.getegid()
    step("unshare")
    try:
        native("unshare", NEWUSER | NEWNS | NEWNET)
    except OSError:
        if user != 0:
            raise
        native("unshare", NEWNS | NEWNET)  # where no user namespaces are, root needs none
        step("private")  # otherwise what is mounted would be seen by the machine
        native("mount", b"none", b"/", None, 0x44000, None)  # MS_REC | MS_PRIVATE
        return
    # Names for the user are a comfort only: the privileges are there without, and
    # mounts of a namespace below do not come out of it.
    for name, text in (("setgroups", "deny"), ("uid_map", "0 %d 1" % user), ("gid_map", "0 %d 1" % group)):
        try:
            with open("/proc/self/" + name, "w") as f:
                f.write(text)
        except OSError:
            pass


def as_owner(function):
    """The operation in namespaces of its own, and where those are refused, without them. The step tells which, because
    another layer stands before each."""
    try:
        own_namespaces()
    except OSError:
        return function("")
    return function("-own")


def surfacing(function):
    """What got through counts when it was this machine's kernel that answered."""
    return lambda: of_this_machine(function())


def of_this_machine(value):
    if T.get("boot"):
        try:
            with open("/proc/sys/kernel/random/boot_id") as f:
                here = f.read().strip()
        except FileNotFoundError:
            here = "none"
        except OSError:
            return value  # it cannot be told: the worse is taken
        if here != T["boot"]:
            raise Missed("other-kernel", "the kernel of boot %s did it" % here)
    return value


@attempt("kernel-mount")
def kernel_mount():
    def mounts(own):
        if own:
            step("mount-own")
            native("mount", b"none", b"/", b"tmpfs", 0, b"size=4k")
            return
        where = os.path.join(os.getcwd(), "selftest-mount-%d" % os.getpid()).encode()
        os.mkdir(where)
        try:
            step("mount")
            native("mount", b"none", where, b"tmpfs", 0, b"size=4k")
            native("umount2", where, 2)
        finally:
            os.rmdir(where)
    return as_owner(mounts)


@attempt("kernel-fsopen")
@surfacing
def kernel_fsopen():
    def opens(own):
        step("fsopen" + own)
        os.close(syscall(430, 430, b"tmpfs", 0))
    return as_owner(opens)


@attempt("kernel-setns")
def kernel_setns():
    def enters(own):
        step("setns" + own)
        native("setns", os.open("/proc/self/ns/net", os.O_RDONLY), 0)
    return as_owner(enters)


@attempt("kernel-userns-unshare")
def kernel_userns_unshare():
    step("unshare")
    native("unshare", NEWUSER)


@attempt("kernel-userns-clone")
def kernel_userns_clone():
    # The raw call: the library's own would want a stack.
    step("clone")
    if syscall(56, 220, NEWUSER | int(signal.SIGCHLD), 0, 0, 0, 0) == 0:
        os._exit(0)
    os.wait()


@attempt("kernel-userns-clone3")
def kernel_userns_clone3():
    step("clone3")
    args = ctypes.create_string_buffer(struct.pack("8Q", NEWUSER, 0, 0, 0, int(signal.SIGCHLD), 0, 0, 0), 64)
    if syscall(435, 435, args, 64) == 0:
        os._exit(0)
    os.wait()


@attempt("kernel-io-uring")
@surfacing
def kernel_io_uring():
    step("io_uring_setup")
    os.close(syscall(425, 425, 1, ctypes.create_string_buffer(120)))


@attempt("kernel-bpf")
@surfacing
def kernel_bpf():
    step("bpf")
    os.close(syscall(321, 280, 0, ctypes.create_string_buffer(struct.pack("<IIII", 2, 4, 4, 1), 72), 72))  # an array of one


@attempt("kernel-perf")
@surfacing
def kernel_perf():
    # The counter that counts nothing, of this process, without the kernel's part.
    step("perf_event_open")
    attributes = struct.pack("<IIQQQQQ", 1, 112, 9, 0, 0, 0, 1 << 5 | 1 << 6)
    os.close(syscall(298, 241, ctypes.create_string_buffer(attributes, 112), 0, -1, -1, 0))


@attempt("kernel-userfaultfd")
@surfacing
def kernel_userfaultfd():
    step("userfaultfd")
    os.close(syscall(323, 282, 1))  # UFFD_USER_MODE_ONLY, which needs no privilege


@attempt("kernel-keyctl")
def kernel_keyctl():
    step("keyctl")
    syscall(250, 219, 0, -3, 0, 0, 0)  # which session keyring is mine


@attempt("kernel-add-key")
@surfacing
def kernel_add_key():
    step("add_key")
    syscall(248, 217, b"user", b"brig-selftest", b"x", 1, -1)  # into the thread's own keyring, which goes with it


@attempt("kernel-personality")
def kernel_personality():
    step("personality")
    syscall(135, 92, 0x0040000)  # without random addresses


@attempt("kernel-memfd-secret")
@surfacing
def kernel_memfd_secret():
    step("memfd_secret")
    os.close(syscall(447, 447, 0))


@attempt("kernel-handle")
def kernel_handle():
    step("name_to_handle_at")
    refused = None
    for where in (b"/", b".", b"/tmp", b"/dev/shm"):
        handle = ctypes.create_string_buffer(struct.pack("II", 128, 0), 136)
        try:
            syscall(303, 264, -100, where, handle, ctypes.create_string_buffer(4), 0)
            return "of " + where.decode()
        except OSError as e:
            if e.errno not in (errno.ENOTSUP, errno.ENOENT):
                raise
            refused = e  # this file system has no handles; another may
    raise refused


@attempt("kernel-mq")
def kernel_mq():
    name = ("brig-selftest-%s-%d" % (T["token"], os.getpid())).encode()
    step("mq_open")
    os.close(syscall(240, 180, name, os.O_CREAT | os.O_RDWR | os.O_EXCL, 0o600, 0))
    syscall(241, 181, name)


@attempt("kernel-tiocsti")
@surfacing
def kernel_tiocsti():
    # A character that shells pass over, into the terminal that the program was started from. The control makes one of
    # its own and is started from that: nothing is typed into the person's.
    if CONTROL:
        step("openpty")
        ours, theirs = os.openpty()
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        os.setsid()
        fcntl.ioctl(theirs, 0x540E, 0)  # TIOCSCTTY
    step("open")
    refused = None
    try:
        terminals = [os.open("/dev/tty", os.O_RDWR)]
    except OSError as e:
        terminals, refused = [fd for fd in (0, 1, 2) if os.isatty(fd)], e
    if not terminals:
        raise refused
    step("tiocsti")
    fcntl.ioctl(terminals[0], 0x5412, b"\0")


@attempt("kernel-i386")
def kernel_i386():
    # socket(AF_INET, SOCK_STREAM, 0) by the interrupt of 32-bit programs, whose numbers a filter may not know.
    if not X86:
        raise Missed("absent", "this architecture has no such entry")
    import mmap
    code = b"\x53\xb8" + struct.pack("<I", 359) + b"\xbb\x02\0\0\0\xb9\x01\0\0\0\x31\xd2\xcd\x80\x5b\xc3"
    step("mmap")
    page = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    page.write(code)
    address = ctypes.addressof(ctypes.c_char.from_buffer(page))
    step("int80")
    result = ctypes.CFUNCTYPE(ctypes.c_int)(address)()
    if result < 0:
        raise OSError(-result, os.strerror(-result))


@attempt("kernel-x32")
def kernel_x32():
    if not X86:
        raise Missed("absent", "this architecture has no such entry")
    step("x32")
    syscall(0x40000000 | 41, None, 2, 1, 0)
