# The decoys of one plot: this process, and a child for each id in argv, which the
# secret of its command line comes before. They end
# with the other end of standard input, so that nothing outlives brig.
import ctypes, json, os, signal, subprocess, sys

secret = os.environ["BRIG_DECOY"].encode()
held = ctypes.create_string_buffer(secret, len(secret))
libc = ctypes.CDLL(None, use_errno=True) if os.name == "posix" else None
linux = sys.platform == "linux"


def ready():
    if linux:
        libc.prctl(1, 9, 0, 0, 0)  # PR_SET_PDEATHSIG: also while it is stopped
        # PR_SET_PTRACER: what is tested is brig's containment, not the machine's own.
        libc.prctl(0x59616D61, ctypes.c_ulong(-1), 0, 0, 0)


def say(number, _):
    os.write(1, b"signal %d %s\n" % (os.getpid(), signal.Signals(number).name[3:].encode()))


def segment():
    """Shared memory that is already marked for removal, and lives while it is attached."""
    try:
        libc.shmat.restype = ctypes.c_void_p
        number = libc.shmget(0, 4096, 0o1600)
        address = libc.shmat(number, None, 0)
        if number == -1 or address in (None, ctypes.c_void_p(-1).value):
            return -1
        ctypes.memmove(address, secret, len(secret))
        libc.shmctl(number, 0, None)
        return number
    except AttributeError:
        return -1


def terminal():
    """A terminal like those of the user's shells. Whoever reads there gets the secret."""
    try:
        master, slave = os.openpty()
        os.write(master, secret + b"\n")
        return os.ttyname(slave)
    except (AttributeError, OSError):
        return ""


def stay():
    while os.read(0, 1):
        pass
    os._exit(0)


for name in ("SIGUSR1", "SIGUSR2", "SIGIO", "SIGHUP", "SIGWINCH"):
    if hasattr(signal, name):
        signal.signal(getattr(signal, name), say)
shared = segment() if linux else -1
pipe, filled = os.pipe()  # a descriptor that whoever opens it again reads the secret from
os.write(filled, secret)
children, keep = {}, []
for name in sys.argv[2:]:
    if not hasattr(os, "fork"):  # another program, which ends with this one's pipe to it
        child = subprocess.Popen([sys.executable, "-I", "-S", "-c", "import sys\nsys.stdin.read()"], stdin=subprocess.PIPE)
        keep.append(child)
        children[name] = child.pid
        continue
    r, w = os.pipe()
    pid = os.fork()
    if pid == 0:
        ready()
        os.close(r), os.close(w)
        stay()
    os.close(w), os.read(r, 1), os.close(r)  # it is ready
    children[name] = pid
if linux:
    libc.prctl(0x59616D61, ctypes.c_ulong(-1), 0, 0, 0)
line = {"pid": os.getpid(), "children": children, "address": ctypes.addressof(held), "length": len(secret), "sysv": shared, "terminal": terminal(), "pipe": pipe}
os.write(1, json.dumps(line).encode() + b"\n")
stay()
