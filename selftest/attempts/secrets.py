# What a start could leave to the code by mistake: variables, descriptors, devices.


@attempt("environment-variable")
def _():
    step("look")
    for name, value in os.environ.items():
        if T["secret"] in value:
            return "%s=%s" % (name, value)
    raise Missed("absent", "%d variables, none of them brig's" % len(os.environ))


def ancestors():
    """The processes above this one, as far as they can be told."""
    pid, found = os.getppid(), []
    while pid > 0 and pid not in found and len(found) < 16:
        found.append(pid)
        try:
            pid = int(status(pid)["PPid"])
        except (OSError, KeyError, ValueError):
            break
    return found


@attempt("environment-ancestors")
def _():
    """The environment of the processes that started this one."""
    step("open")
    last = None
    for pid in ancestors():
        try:
            with open("/proc/%d/environ" % pid, "rb") as f:
                text = f.read(1 << 20)
        except OSError as e:
            last = e
            continue
        for pair in text.split(b"\0"):
            if T["secret"].encode() in pair:
                return pair.decode("ascii", "replace")
    if last is not None:
        raise last
    step("look")
    raise Missed("absent", "none of them has it")


def descriptors():
    """Open descriptors above the three standard ones, but for those of the frame around the attempts."""
    for fd in range(3, 1024):
        try:
            yield fd, os.fstat(fd)
        except OSError:
            pass


@attempt("inherited-fd")
def _():
    import stat
    step("look")
    seen = []
    for fd, s in descriptors():
        seen.append(str(fd))
        if stat.S_ISREG(s.st_mode):
            try:
                if T["secret"].encode() in os.pread(fd, 4096, 0):
                    return T["secret"]
            except OSError:
                pass
    raise Missed("absent", "open are " + " ".join(seen))


@attempt("devices-terminal")
def _():
    if not T.get("terminal"):
        raise Missed("absent", "this system has no pseudo terminals")
    step("find")
    os.lstat(T["terminal"])
    step("open")
    fd = os.open(T["terminal"], os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY)
    step("read")
    return os.read(fd, 4096).decode("ascii", "replace").strip()


@attempt("devices-open")
def _():
    step("find")
    last = None
    try:
        guest = "gvisor" in open("/proc/version").read().lower()
    except OSError:
        guest = False
    for path in T.get("devices") or []:
        if guest and path in ("/dev/fuse", "/dev/net/tun"):
            continue  # of the guest's own kernel, whatever they are called
        try:
            os.lstat(path)
            step("open")
            os.close(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY))
            return path
        except OSError as e:
            if last is None or e.errno != errno.ENOENT:
                last = e
    if last is None:
        raise Missed("absent", "there is none of them")
    raise last
