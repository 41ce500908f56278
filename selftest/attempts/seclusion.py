# What can be learned and done without a right to it: that a file, a process or a
# socket exists outside. Nothing is read of them but that.


def outside_path(probe):
    # Not by outside(), whose first step is what is tried here.
    return os.path.join(T["outside"], probe)


@attempt("files-stat")
def _():
    step("stat")
    found = os.stat(os.path.join(outside_path("files-stat"), "canary"))
    return "%d bytes" % found.st_size


@attempt("files-chdir")
def _():
    step("chdir")
    os.chdir(outside_path("files-chdir"))
    return os.getcwd()


@attempt("files-watch")
def _():
    step("watch")
    fd = syscall(294, 26, 0)  # inotify_init1
    step("add")
    syscall(254, 27, fd, os.fsencode(outside_path("files-watch")), 0x100)  # IN_CREATE; it goes with the descriptor


@attempt("files-mounts")
def _():
    """The table of mounts, held against that of the machine."""
    if not T.get("mounts"):
        raise Missed("absent", "this machine has no mounts of its own kind")
    step("open")
    with open("/proc/self/mountinfo") as f:
        lines = [line.split() for line in f]
    step("look")
    here = {"%s %s" % (line[2], line[4]) for line in lines if len(line) > 4}
    found = sorted(here.intersection(T["mounts"]))
    if not found:
        raise Missed("absent", "%d mounts, none of them the machine's" % len(lines))
    return ", ".join(found)


@attempt("processes-cmdline")
def _():
    pid = ((T.get("decoys") or {}).get("processes-cmdline") or T.get("decoy") or {}).get("pid")
    if not pid:
        raise Missed("absent", "there is no decoy")
    step("open")
    with open("/proc/%d/cmdline" % pid, "rb") as f:
        words = f.read().decode("ascii", "replace").split("\0")
    for word in words:
        if word.startswith("brig-public-"):
            return word
    raise Missed("absent", "the number is another process here")


@attempt("processes-affinity")
def _():
    pid = decoy("processes-affinity")["pid"]
    step("affinity")
    may = os.sched_getaffinity(pid)
    if len(may) < 2:
        raise Missed("single", "there is one processor only")
    os.sched_setaffinity(pid, {min(may)})
    return "one of %d" % len(may)


@attempt("net-table")
def _():
    step("find")
    if not T.get("tcp4"):
        raise Missed("absent", "brig has no listener here")
    want = [("/proc/net/tcp", ":%04X " % T["tcp4"][1])]
    if T.get("abstract"):
        want.append(("/proc/net/unix", T["abstract"]))
    last, looked = None, 0
    for path, text in want:
        step("open")
        try:
            with open(path) as f:
                lines = f.readlines()
        except OSError as e:
            last = e
            continue
        looked += 1
        for line in lines:
            if text in line:
                return "%s names %s" % (path, text.strip())
    if last is not None:
        raise last
    step("look")
    raise Missed("absent", "brig's listeners are in none of %d tables" % looked)
