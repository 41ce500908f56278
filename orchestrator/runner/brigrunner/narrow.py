"""What a session forked from a zygote does to itself before it is a runner.

The order comes from brig's own supervisor and says every step as data: mounts,
limits, Landlock rules, the program of the filter. Nothing is decided here, and a
step that fails ends the session: brig starts one by itself then. What was applied
is read back from the kernel and reported in the shape in which the helper reports.
"""
import errno
import os
import stat

from . import native

CLONE_NEWNS, CLONE_NEWUTS, CLONE_NEWIPC = 0x20000, 0x4000000, 0x8000000
CLONE_NEWUSER, CLONE_NEWPID, CLONE_NEWNET = 0x10000000, 0x20000000, 0x40000000
NAMESPACES = CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWPID | CLONE_NEWNET

MS_BIND, MS_REC, MS_PRIVATE = 0x1000, 0x4000, 0x40000
O_PATH = 0o10000000

PR_CAPBSET_READ, PR_CAPBSET_DROP = 23, 24
PR_SET_SECUREBITS, PR_SET_NO_NEW_PRIVS, PR_GET_NO_NEW_PRIVS = 28, 38, 39
PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL = 47, 4
LOCKED_BITS = 0x1 | 0x2 | 0x4 | 0x8 | 0x40 | 0x80  # no root, no setuid fixup, no ambient; each locked
CAPABILITIES = (0x20080522).to_bytes(4, "little") + bytes(4)  # version 3, of the caller

LANDLOCK_CREATE, LANDLOCK_ADD, LANDLOCK_RESTRICT = 444, 445, 446  # the same on every processor
LANDLOCK_PATH = 1
KINDS = {"write": "write", "execute": "execute", "read": "read", "device": "devices", "shm": "shm"}
SECCOMP_FILTER = 1


def unshare(proc):
    """Leaves the zygote's namespaces: for the next child a process namespace, for
    this process all others. proc is the descriptor of a /proc that can be written to."""
    uid, gid = os.getuid(), os.getgid()
    native.call("unshare", NAMESPACES)
    for name, text in (("setgroups", "deny"), ("uid_map", "%d %d 1" % (uid, uid)), ("gid_map", "%d %d 1" % (gid, gid))):
        fd = os.open("self/" + name, os.O_WRONLY | os.O_CLOEXEC, dir_fd=proc)
        try:
            os.write(fd, text.encode())
        finally:
            os.close(fd)


class Session:
    """The steps, in the only order in which they work. stage names the one under way."""

    def __init__(self, order, report, go):
        self.order = order
        self.fd, self.go = report, go  # where the report goes, and where it is answered
        self.stage = "session"
        self.report = {
            "kernel": os.uname().release, "uid": os.getuid(), "namespace": {"applied": True}, "namespaces": order["namespaces"],
            "private_shm": order["private_shm"],
        }

    def apply(self):
        os.setsid()
        os.umask(0)  # for the ways to its directories
        self.stage = "namespace"
        self._mounts()
        os.umask(0o077)
        self.stage = "session"
        os.chdir(self.order["scratch"])
        os.environ.clear()
        os.environ.update(entry.split("=", 1) for entry in self.order["env"])
        self.report["variables"] = sorted(os.environ)
        self.stage = "limits"
        self._limits()
        self.stage = "privileges"
        self._privileges()
        self.stage = "landlock"
        self._landlock()
        self.stage = "descriptors"
        self._descriptors()
        self.stage = "seccomp"
        self._seccomp()
        self.stage = "limits"
        self._limit_data()

    def _mounts(self):
        native.call("mount", None, b"/\0", None, MS_REC | MS_PRIVATE, None)
        held = {}  # what is to be shown again after its surroundings were covered
        for step in self.order["mounts"]:
            if step["do"] == "show":
                held[step["at"]] = os.open(step["at"], O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
        for step in self.order["mounts"]:
            at = os.fsencode(step["at"]) + b"\0"
            if step["do"] == "mount":
                os.makedirs(step["at"], 0o711, exist_ok=True)
                kind = step["kind"].encode() + b"\0"
                native.call("mount", kind, at, kind, step["flags"], step["data"].encode() + b"\0")
            elif step["do"] == "show":
                if stat.S_ISDIR(os.fstat(held[step["at"]]).st_mode):
                    os.makedirs(step["at"], 0o711, exist_ok=True)
                else:
                    os.makedirs(os.path.dirname(step["at"]), 0o711, exist_ok=True)
                    os.close(os.open(step["at"], os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o400))
                native.call("mount", b"/proc/self/fd/%d\0" % held[step["at"]], at, None, MS_BIND | MS_REC, None)
            elif step["do"] == "hide":
                native.call("mount", b"/dev/null\0", at, None, MS_BIND, None)
            elif step["do"] == "change":
                native.call("mount", None, at, None, step["flags"], None)
            else:
                raise OSError(errno.EINVAL, "an unknown step")
        for fd in held.values():
            os.close(fd)
        if os.readlink("/proc/self") != "1":
            raise OSError(errno.ESRCH, "/proc is of another process namespace")

    def _limits(self):
        import resource
        limits = self.report["limits"] = {}
        for name, number, want in self.order["limits"]:
            want = min(want, _limit(resource.getrlimit(number)[1]))
            resource.setrlimit(number, (want, want))
            limits[name] = _limit(resource.getrlimit(number)[1])
        if self.order["data"]:
            # Set last, and a session where that fails is none.
            limits["data"] = min(self.order["data"], _limit(resource.getrlimit(resource.RLIMIT_DATA)[1]))
        mine, wanted = sorted(os.sched_getaffinity(0)), self.order["cpus"]
        if 0 < wanted < len(mine):
            os.sched_setaffinity(0, {mine[(self.order["turn"] + i) % len(mine)] for i in range(wanted)})
            self.report["narrowed"] = True
            mine = sorted(os.sched_getaffinity(0))
        self.report["cpus"], self.report["processors"] = len(mine), mine

    def _limit_data(self):
        import resource
        want = self.report["limits"].get("data")
        if want is not None:
            resource.setrlimit(resource.RLIMIT_DATA, (want, want))
            if _limit(resource.getrlimit(resource.RLIMIT_DATA)[1]) != want:
                raise OSError(errno.EINVAL, "the limit of data is another one than was set")

    def _privileges(self):
        number = 0
        while number < 64:
            try:
                held = native.prctl(PR_CAPBSET_READ, number)
            except OSError:
                break  # beyond the last that this kernel knows
            if held:
                native.prctl(PR_CAPBSET_DROP, number)
            number += 1
        native.prctl(PR_SET_SECUREBITS, LOCKED_BITS)
        native.prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL)
        native.call("capset", CAPABILITIES, bytes(24))
        native.prctl(PR_SET_NO_NEW_PRIVS, 1)
        self.report["no_new_privs"] = native.prctl(PR_GET_NO_NEW_PRIVS) == 1
        held = bytes(bytearray(24))  # a buffer of our own, that the kernel writes to
        native.call("capget", CAPABILITIES, held)
        self.report["cap_eff"] = "%08x%08x" % (int.from_bytes(held[12:16], "little"), int.from_bytes(held[0:4], "little"))

    def _landlock(self):
        order = self.order["landlock"]
        handled = order["handled"]
        attr = b"".join(handled[name].to_bytes(8, "little") for name in ("fs", "net", "scoped"))
        ruleset = native.call("syscall", LANDLOCK_CREATE, attr, len(attr), 0)
        kinds = {}
        for rule in order["rules"]:
            fd = os.open(rule["path"], O_PATH | os.O_CLOEXEC)
            attr = rule["rights"].to_bytes(8, "little") + fd.to_bytes(4, "little")
            native.call("syscall", LANDLOCK_ADD, ruleset, LANDLOCK_PATH, attr, 0)
            kind = KINDS[rule["for"]]
            kinds[kind] = kinds.get(kind, 0) + 1
            os.close(fd)
        native.call("syscall", LANDLOCK_RESTRICT, ruleset, 0)
        os.close(ruleset)
        self.report["landlock"] = {
            "applied": True, "abi": order["abi"], "used": order["used"], "errata": order["errata"], "net": bool(handled["net"]),
            "handled": handled, "rules": sum(kinds.values()), "by_kind": kinds, "missing": order["missing"],
        }

    def _descriptors(self):
        """Closes all but the runner's three and the two of this conversation, which end with it."""
        before = _open()
        # All that came with the order have numbers above those that it had before.
        self.fd, self.go = os.dup2(self.fd, 3, inheritable=False), os.dup2(self.go, 4, inheritable=False)
        os.closerange(5, max(before) + 2)
        left = _open()
        self.report["kept"] = sorted(left - {self.fd, self.go})
        self.report["closed"] = len(before) - len(self.report["kept"])

    def _seccomp(self):
        order = self.order["seccomp"]
        program = native.Fixed(bytes.fromhex(order["program"]))
        attr = (len(program) // 8).to_bytes(8, "little") + program.address.to_bytes(8, "little")
        for flags in (order["flags"], 0):
            try:
                native.call("syscall", order["number"], SECCOMP_FILTER, flags, attr)
                break
            except OSError as err:
                if err.errno != errno.EINVAL or not flags:  # a kernel that does not know the flag
                    raise
        self.report["seccomp"] = dict(order["report"], applied=True)


def _limit(number):
    """As an unsigned number, as the kernel has it."""
    return number if number >= 0 else (1 << 64) - 1


def _open():
    """The descriptors that are open, without those of the look itself."""
    found = set()
    for name in os.listdir("/proc/self/fd"):
        try:
            os.fstat(int(name))
        except OSError:
            continue
        found.add(int(name))
    return found
