# Files outside of the session: reading, changing, and brig's own directories.
# Each attempt touches its own directory below T["outside"] and nothing else there.
# "find" is a step of its own: where the path does not lead to anything, a file
# system of the session's own stands in the way, and no rule about files.


def outside(probe, name="canary"):
    """A path in the probe's own directory outside, if that directory is there at all."""
    step("find")
    place = os.path.join(T["outside"], probe)
    os.lstat(place)
    return os.path.join(place, name)


def inside(probe):
    """A new name in the working directory, which the session may write to."""
    return os.path.join(os.getcwd(), "%s-%d" % (probe, os.getpid()))


def contents(path):
    with open(path, "rb") as f:
        return f.read(4096).decode("ascii", "replace")


def without(path):
    try:
        os.unlink(path)
    except OSError:
        pass


@attempt("files-read")
def _():
    path = outside("files-read")
    step("open")
    return contents(path)


@attempt("files-list")
def _():
    place = os.path.dirname(outside("files-list"))
    step("list")
    return " ".join(os.listdir(place))


@attempt("files-read-home")
def _():
    step("find")
    home = T.get("home")
    if not home:
        raise Missed("absent", "there is no home directory")
    at = os.stat(home)
    # An image may have a directory of the same name, which is none of the user's.
    dev, ino = (T.get("home_id") or ":").split(":")
    # Where no session has a root of its own, the name is enough.
    same = dev == str(at.st_dev) and ino == str(at.st_ino) or os.name == "nt"
    step("list" if same else "list-other-root")
    names = os.listdir(home)
    step("compare")
    if same or most(T.get("home_own"), names):
        return "%d names" % len(names)
    # Within one kernel the numbers decide. Behind another they may be made up there, and
    # what stands in every home directory tells neither.
    if ino == str(at.st_ino) or (most(T.get("home_names"), names) and not same_kernel()):
        raise Missed("changed", "it may be your home directory and may be another, with %d names" % len(names))
    raise Missed("absent", "another directory of that name")


def most(known, names):
    """Whether most of what is known by its digest is among names."""
    import hashlib
    digests = {hashlib.sha256((T["token"] + "/").encode() + os.fsencode(n)).hexdigest()[:16] for n in names}
    return bool(known) and 2 * len(digests.intersection(known)) > len(known)


def same_kernel():
    try:
        return bool(T.get("boot")) and contents("/proc/sys/kernel/random/boot_id").strip() == T["boot"]
    except OSError:
        return False


def public():
    """A directory in a shared one that everybody may read, if there is a way to it."""
    if not T.get("public"):
        raise Missed("absent", "there is no shared directory here that everybody may enter")
    step("find")
    os.lstat(T["public"])
    return T["public"]


@attempt("files-read-public")
def _():
    path = os.path.join(public(), "canary")
    step("open")
    return contents(path)


@attempt("files-list-public")
def _():
    place = public()
    step("list")
    return " ".join(os.listdir(place))


@attempt("files-symlink")
def _():
    path, link = outside("files-symlink"), inside("files-symlink")
    step("symlink")
    os.symlink(path, link)
    try:
        step("open")
        return contents(link)
    finally:
        without(link)


@attempt("files-link-in")
def _():
    path, link = outside("files-link-in"), inside("files-link-in")
    step("link")
    os.link(path, link)
    try:
        step("open")
        return contents(link)
    finally:
        without(link)


@attempt("files-proc-root")
def _():
    # brig may keep others out of its entry in /proc; the decoy does nothing of the kind.
    for pid, last in ((T["brig"]["pid"], False), (decoy("files-proc-root")["pid"], True)):
        try:
            step("find")
            os.lstat("/proc/%d/root" % pid)
            step("open")
            return contents("/proc/%d/root%s" % (pid, os.path.join(T["outside"], "files-proc-root", "canary")))
        except OSError:
            if last:
                raise


@attempt("files-proc-cwd")
def _():
    step("find")
    cwd = "/proc/%d/cwd" % decoy("files-proc-cwd")["pid"]
    os.lstat(cwd)
    step("open")
    # The decoy works in the directory beside the one with the canaries.
    return contents(os.path.join(cwd, "..", "outside", "files-proc-cwd", "canary"))


@attempt("files-proc-fd")
def _():
    """What brig and the decoy have open, opened again."""
    one = decoy("files-proc-fd")
    for pid, n, last in ((T["brig"]["pid"], T.get("fd", -1), False), (one["pid"], one.get("pipe", -1), True)):
        try:
            step("find")
            os.lstat("/proc/%d/fd" % pid)
            step("open")
            fd = os.open("/proc/%d/fd/%d" % (pid, n), os.O_RDONLY | os.O_NONBLOCK)
            return os.read(fd, 4096).decode("ascii", "replace")
        except OSError:
            if last:
                raise


@attempt("files-shm")
def _():
    if not T.get("shm"):
        raise Missed("absent", "this machine has no /dev/shm")
    step("find")
    os.lstat(T["shm"])
    step("open")
    return contents(T["shm"])


@attempt("files-write")
def _():
    path = outside("files-write")
    step("open")
    fd = os.open(path, os.O_WRONLY | os.O_APPEND)
    step("write")
    os.write(fd, b"+")


@attempt("files-create")
def _():
    path = outside("files-create", "planted")
    step("open")
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))


@attempt("files-mkdir")
def _():
    path = outside("files-mkdir", "planted")
    step("mkdir")
    os.mkdir(path)


@attempt("files-plant-symlink")
def _():
    path = outside("files-plant-symlink", "planted")
    step("symlink")
    os.symlink("canary", path)


@attempt("files-link-out")
def _():
    path = outside("files-link-out")
    step("link")
    os.link(path, os.path.join(os.path.dirname(path), "planted"))


@attempt("files-rename")
def _():
    path = outside("files-rename")
    step("rename")
    os.rename(path, path + "-moved")


@attempt("files-rename-out")
def _():
    path, own = outside("files-rename-out", "planted"), inside("files-rename-out")
    step("prepare")
    os.close(os.open(own, os.O_WRONLY | os.O_CREAT, 0o600))
    try:
        step("rename")
        os.rename(own, path)
    finally:
        without(own)


@attempt("files-rename-in")
def _():
    path, own = outside("files-rename-in"), inside("files-rename-in")
    step("rename")
    os.rename(path, own)
    without(own)


@attempt("files-truncate")
def _():
    path = outside("files-truncate")
    step("truncate")
    os.truncate(path, 1)


@attempt("files-unlink")
def _():
    path = outside("files-unlink")
    step("unlink")
    os.unlink(path)


@attempt("files-chmod")
def _():
    path = outside("files-chmod")
    step("chmod")
    os.chmod(path, 0o440)  # what one may not write is the one thing that every system knows


@attempt("files-chown")
def _():
    path = outside("files-chown")
    at = os.stat(path)
    step("chown")
    os.chown(path, at.st_uid, at.st_gid)


@attempt("files-o-path")
def _():
    path = outside("files-o-path")
    step("open")
    fd = os.open(path, os.O_PATH)
    step("chmod")
    os.chmod("/proc/self/fd/%d" % fd, 0o640)


@attempt("files-utime")
def _():
    path = outside("files-utime")
    step("utime")
    os.utime(path, (1, 1))


@attempt("files-xattr")
def _():
    path = outside("files-xattr")
    step("setxattr")
    os.setxattr(path, "user.brig", b"x")


@attempt("files-fifo")
def _():
    if not T.get("fifo"):
        raise Missed("absent", "this system has no named pipes")
    step("find")
    os.lstat(T["fifo"])
    step("open")
    fd = os.open(T["fifo"], os.O_WRONLY | os.O_NONBLOCK)
    step("write")
    os.write(fd, ("brig-selftest %s files-fifo\n" % T["token"]).encode())


@attempt("files-elsewhere")
def _():
    # A directory that everybody may write to. A file without a name leaves nothing.
    step("find")
    os.lstat("/var/tmp")
    step("open")
    try:
        if not hasattr(os, "O_TMPFILE"):
            raise OSError(errno.EOPNOTSUPP, "this system makes no files without names")
        os.close(os.open("/var/tmp", os.O_TMPFILE | os.O_RDWR, 0o600))
    except OSError as e:
        if e.errno not in (errno.EOPNOTSUPP, errno.EISDIR, errno.EINVAL):
            raise
        path = "/var/tmp/brig-selftest-%s" % T["token"]
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        os.unlink(path)


def scratches():
    """Where programs meet that do not know each other."""
    found = [d for d in ("/tmp", "/dev/shm") if os.path.isdir(d)]
    if not found:
        raise OSError(errno.ENOENT, "neither is there")
    return found


def leave(directory, name, text):
    fd = os.open(os.path.join(directory, name), os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    os.write(fd, text)
    os.close(fd)


@attempt("files-shared-make")
def _():
    """Makes an object in each. It stays, for the outside to look for; that removes it as well."""
    step("find")
    refused, made = None, 0
    for place in scratches():
        step("open")
        try:
            leave(place, T["left"] + "-made", b"")
            made += 1
        except OSError as e:
            refused = e
    if not made:
        raise refused
    # From here each looks the same, whose ever it is. What is the machine's, the outside sees.
    if not CONTROL:
        step("look")
        raise Missed("absent", "made where only this session is")


@attempt("files-shared-read")
def _():
    """Leaves a file, and opens one that another session has left. Whoever comes second finds it."""
    step("find")
    refused, found = None, []
    for place in scratches():
        step("make")
        try:
            leave(place, T["left"], b"")
            if CONTROL:
                leave(place, T["others"][0], b"")
        except OSError as e:
            refused = e
        for name in T["others"]:
            try:
                contents(os.path.join(place, name))
                found.append(os.path.join(place, name))
            except FileNotFoundError:
                pass
            except OSError as e:
                step("open")
                refused = e
    if found:
        return " ".join(found)
    if refused is not None:
        raise refused
    step("look")
    raise Missed("absent", "no other session is to be seen")


@attempt("files-cgroup")
def _():
    """Writes into the control group's list of processes the one that is on it already."""
    step("find")
    mounts = {}
    with open("/proc/self/mountinfo") as f:
        for line in f:
            before, _, after = line.partition(" - ")
            fields, kind = before.split(), after.split()
            if kind and kind[0] in ("cgroup", "cgroup2"):
                mounts.setdefault(fields[4], (fields[3], kind[0], kind[-1]))
    with open("/proc/self/cgroup") as f:
        groups = [line.rstrip("\n").split(":", 2) for line in f]
    found = []
    for place, (root, kind, options) in mounts.items():
        for _, names, path in groups:
            if kind == "cgroup2" and names == "" or kind == "cgroup" and names and set(names.split(",")) & set(options.split(",")):
                inner = path[len(root):] if root != "/" and path.startswith(root) else path
                found.append(os.path.join(place, inner.lstrip("/"), "cgroup.procs"))
    if not found:
        raise Missed("absent", "no control group is to be seen")
    last = None
    for path in found:
        try:
            step("find")
            os.lstat(path)
            step("open")
            fd = os.open(path, os.O_WRONLY)
            step("write")
            os.write(fd, b"0")
            return path
        except OSError as e:
            last = e
    raise last


def own(name):
    """brig's own directory of that name, with what brig put there for this run."""
    place = (T.get("own") or {}).get(name)
    if not place:
        raise Missed("absent", "brig has no such directory")
    step("find")
    place = os.path.join(place, "selftest-" + T["token"])
    os.lstat(place)
    return place


def reads(name):
    def read():
        path = os.path.join(own(name), "canary")
        step("open")
        return contents(path)
    attempt("brig-read-" + name)(read)


def plants(name):
    def plant():
        path = os.path.join(own(name), "brig-write-" + name)
        step("open")
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    attempt("brig-write-" + name)(plant)


for _name in ("state", "config", "runtime", "data", "cache"):
    reads(_name)
for _name in ("state", "config", "runtime"):
    plants(_name)


@attempt("brig-read-tokens")
def _():
    last = None
    for path in T["running"]["files"] or [os.path.join(own("runtime"), "canary")]:
        try:
            step("find")
            os.lstat(os.path.dirname(path))
            step("open")
            os.close(os.open(path, os.O_RDONLY))
            return "opened " + path
        except OSError as e:
            # One that fails otherwise than predicted leaves the whole attempt open.
            if last is None or last.errno in (errno.EACCES, errno.ENOENT, errno.EPERM):
                last = e
    raise last


@attempt("brig-rename-config")
def _():
    place = own("config")
    step("rename")
    os.rename(os.path.join(place, "canary"), os.path.join(place, "brig-rename-config"))
