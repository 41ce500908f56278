"""Attempts at local sockets: stand-ins for what listens on a desktop, and the real ones, which are only connected to and closed."""


def unix(where, name):
    if not where:
        raise Missed("unasked", "brig has no such stand-in here")
    step("socket")
    return talk(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM), where, name)


@attempt("unix-engine")
def unix_engine():
    return unix(T["sockets"].get("engine"), "unix-engine")


@attempt("unix-bus")
def unix_bus():
    return unix(T["sockets"].get("bus"), "unix-bus")


@attempt("unix-wayland")
def unix_wayland():
    return unix(T["sockets"].get("wayland"), "unix-wayland")


@attempt("unix-x11")
def unix_x11():
    return unix(T["sockets"].get("x11"), "unix-x11")


@attempt("unix-agent")
def unix_agent():
    return unix(T["sockets"].get("agent"), "unix-agent")


@attempt("unix-brig")
def unix_brig():
    return unix(T["sockets"].get("brig"), "unix-brig")


@attempt("unix-abstract")
def unix_abstract():
    return unix(T["abstract"] and "\0" + T["abstract"], "unix-abstract")


@attempt("unix-datagram")
def unix_datagram():
    # A pair needs no new socket of a forbidden kind, and its ends can be sent elsewhere.
    if not T.get("dgram"):
        raise Missed("unasked", "brig has no such stand-in here")
    step("socketpair")
    a, b = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    step("send")
    a.sendto(message("unix-datagram"), T["dgram"])
    return "sent"


@attempt("unix-real")
def unix_real():
    # Nothing is said to them: each is somebody's. Without one, and in the control, a stand-in is asked.
    return any_of(T.get("real") or [T["sockets"]["engine"]])


@attempt("unix-brig-running")
def unix_brig_running():
    return any_of(T["running"]["sockets"] or [T["sockets"]["brig"]])


def any_of(where):
    worst = None
    for path in where:
        step("socket")
        s = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        s.settimeout(0.6 / len(where))
        step("connect")
        try:
            s.connect(path)
            return "connected to " + path
        except OSError as e:
            # One that fails otherwise than predicted leaves the whole attempt open.
            if worst is None or worst.errno in (errno.EACCES, errno.ENOENT):
                worst = OSError(e.errno, e.strerror or str(e), path)
        finally:
            s.close()
    raise worst
