"""The frame around the attempts of brig's self-test. The same text runs inside a
session and as the control with nothing around it.

T (targets) and LIST (ids, in order) stand before this text; the functions register
themselves in ATTEMPTS with @attempt("id"). One attempt runs in a child of its own
that is killed after its bound. Every attempt prints one line:

    brig-selftest {"id":…,"ok":true|false,"step":…,"sign":…,"detail":…,"ms":…}

An attempt that returns succeeded; what it returns is its detail. It fails by OSError
(step as set by the last step(), sign is the errno's name) or by raising
Missed(sign, detail), such as Missed("absent", "no such directory").
"""
import ctypes, errno, json, os, platform, select, signal, socket, struct, sys, threading, time

try:
    import fcntl, resource
except ImportError:  # what needs them is not attempted there
    fcntl = resource = None

ATTEMPTS = {}
STEP = [""]
libc = ctypes.CDLL(None, use_errno=True) if os.name == "posix" else None
X86 = platform.machine() in ("x86_64", "AMD64")
CONTROL = bool(T.get("control"))


class Missed(Exception):
    def __init__(self, sign, detail=""):
        Exception.__init__(self, sign, detail)
        self.sign, self.detail = sign, detail


def attempt(name):
    def put(function):
        ATTEMPTS[name] = function
        return function
    return put


def step(name):
    """Names what is tried next, for the evidence."""
    STEP[0] = name


def check(result):
    """The result of a C call; -1 raises OSError with errno."""
    if result == -1:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


def syscall(x86, arm, *args):
    """A raw system call by its number on amd64 and on arm64; None: not there."""
    number = x86 if X86 else arm
    if number is None:
        raise Missed("absent", "this architecture has no such call")
    libc.syscall.restype = ctypes.c_long
    wide = [ctypes.c_long(a) if isinstance(a, int) else a for a in args]
    return check(libc.syscall(ctypes.c_long(number), *wide))


def native(name, *args):
    return check(getattr(libc, name)(*args))


def _say(name, ok, sign, detail, began):
    line = json.dumps({"id": name, "ok": ok, "step": STEP[0], "sign": sign, "detail": str(detail)[:400], "ms": (time.monotonic() - began) * 1000})
    return ("\nbrig-selftest " + line + "\n").encode("ascii", "backslashreplace")


def _child(name, began):
    """Makes the attempt and words what came of it."""
    try:
        STEP[0] = ""
        # Its own decoy, so that what one attempt did is not taken for another's.
        T["decoy"] = (T.get("decoys") or {}).get(name, T.get("decoy"))
        value = ATTEMPTS[name]()
        return _say(name, True, "", "" if value is None else value, began)
    except Missed as e:
        return _say(name, False, e.sign, e.detail, began)
    except OSError as e:
        sign = errno.errorcode.get(e.errno, "errno:%s" % e.errno)
        return _say(name, False, sign.replace("WSA", "", 1) if sign.startswith("WSA") else sign, e, began)
    except MemoryError:
        return _say(name, False, "ENOMEM", "MemoryError", began)
    except BaseException as e:
        return _say(name, False, "exception:" + type(e).__name__, e, began)


def _beside(name, bound, began):
    """The same where there is no fork: in a thread, which is left to itself when its time is over."""
    said = []
    thread = threading.Thread(target=lambda: said.append(_child(name, began)), daemon=True)
    thread.start()
    thread.join(bound)
    if said:
        return said[0]
    # Whatever it still does, it says no more: its step is another attempt's by then.
    return _say(name, False, "timeout", "", began)


def _one(name, bound):
    began = time.monotonic()
    if name not in ATTEMPTS:
        return _say(name, False, "exception:missing", "no such attempt here", began)
    if not hasattr(os, "fork"):
        return _beside(name, bound, began)
    r, w = os.pipe()
    try:
        pid = os.fork()
    except OSError as e:
        os.close(r), os.close(w)
        return _say(name, False, "exception:fork", e, began)
    if pid == 0:
        try:
            os.close(r)
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            os.write(w, _child(name, began))
        finally:
            os._exit(0)
    os.close(w)
    said, deadline, late = b"", began + bound, False
    while True:
        ready = select.select([r], [], [], max(0, deadline - time.monotonic()))[0]
        if not ready:
            late = True
            break
        more = os.read(r, 4096)
        if not more:
            break
        said += more
        if said.endswith(b"\n") and b"brig-selftest" in said:
            break
    os.close(r)
    if late or said:
        try:
            os.kill(pid, signal.SIGKILL)
        except OSError:
            pass
    status = os.waitpid(pid, 0)[1]
    if said:
        return said
    if late:
        return _say(name, False, "timeout", "", began)
    if os.WIFSIGNALED(status):
        return _say(name, False, signal.Signals(os.WTERMSIG(status)).name, "killed", began)
    return _say(name, False, "exception:ended", "status %d" % status, began)


def main():
    for name, bound in LIST:
        os.write(1, _one(name, bound))
