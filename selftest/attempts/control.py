# The stream between brig and the runner, which tells brig what the code did. Inside,
# the runner is the parent of the process that runs the code; the control goes for a
# decoy, which shows that the way is open where nothing is done against it.


def runner(probe):
    if CONTROL:
        return decoy(probe)["pid"]
    step("find")
    # Our parent is the process with the code; the runner is above it.
    return int(status(os.getppid())["PPid"])


@attempt("control-stream")
def _():
    """Opens the ends of the stream that the runner holds."""
    pid = runner("control-stream")
    step("open")
    for n, mode in ((0, os.O_RDONLY), (1, os.O_WRONLY)):
        fd = os.open("/proc/%d/fd/%d" % (pid, n), mode | os.O_NONBLOCK | os.O_NOCTTY)
        os.close(fd)


@attempt("control-frame")
def _():
    """Prints what the runner would send. Whoever reads it for that hears of a line that nobody has printed."""
    step("print")
    os.write(1, bytes.fromhex(T["frame"]))
    if not CONTROL:
        step("look")
        raise Missed("absent", "printed, and no word of what became of it")


@attempt("control-memory")
def _():
    pid = runner("control-memory")
    step("open")
    os.close(os.open("/proc/%d/mem" % pid, os.O_RDWR))


@attempt("control-fetch")
def _():
    """Fetches the runner's end of the stream as a descriptor of our own."""
    pid = runner("control-fetch")
    step("open")
    fd = syscall(434, 434, pid, 0)
    step("fetch")
    syscall(438, 438, fd, 0, 0)


@attempt("control-descriptor")
def _():
    """Looks for pipes and sockets that a child of the code has besides its own."""
    import stat
    if CONTROL:
        KEPT.extend(os.pipe())
    step("look")
    found = [fd for fd, s in descriptors() if stat.S_ISFIFO(s.st_mode) or stat.S_ISSOCK(s.st_mode)]
    if len(found) <= 1:  # one leads to the frame around the attempts
        raise Missed("absent", "none beside our own")
    return " ".join(map(str, found))


@attempt("control-input")
def _():
    """Reads from standard input, where a runner might have left the stream."""
    if CONTROL:
        r, w = os.pipe()
        os.write(w, b"x")
        os.dup2(r, 0)
    step("read")
    if not select.select([0], [], [], 0.2)[0]:
        raise Missed("waits", "it is open and says nothing")
    if not os.read(0, 1):
        raise Missed("absent", "it is at its end")
