"""A worker that is started as a program of its own, where it cannot be forked.

It gets its standard streams, and three pipes that it is told by number. The
first command is the hello that a fork would have inherited.
"""
import os
import sys

from . import pipes, text
from .mode import PRIVATE, WINDOWS

COMMANDS, REPORTS, DOORBELL = 3, 4, 5


def command(directory, *ends):
    """The command line of a worker: as isolated as this process."""
    python = sys.executable
    if WINDOWS:
        # In a virtual environment that is a launcher, which would only start another process.
        python = getattr(sys, "_base_executable", None) or python
    return [python, "-I", "-u", "-X", "utf8", directory + os.sep + "start.py", "--worker"] + [str(e) for e in ends]


def start(directory, null, commands, reports, doorbell, out, err, tree):
    """Starts a worker with these ends of its pipes; returns its process id."""
    if WINDOWS:
        return tree.start(command(directory, *map(tree.inheritable, (commands, reports, doorbell))),
                          (null, out, err), (commands, reports, doorbell))
    # First out of the way of the numbers that they are to have.
    copies = [pipes.high(fd) for fd in (null, out, err, commands, reports, doorbell)]
    try:
        wanted = (0, 1, 2, COMMANDS, REPORTS, DOORBELL)
        actions = [(os.POSIX_SPAWN_DUP2, fd, number) for fd, number in zip(copies, wanted)]
        return os.posix_spawn(sys.executable, command(directory, COMMANDS, REPORTS, DOORBELL), os.environ,
                              file_actions=actions, setpgroup=0)
    finally:
        for fd in copies:
            os.close(fd)


def ends(words):
    """The descriptors of a worker's pipes, by the words of its command line."""
    fds = [int(word) for word in words]
    if WINDOWS:
        import msvcrt
        modes = (os.O_RDONLY, os.O_WRONLY, os.O_RDONLY)
        fds = [msvcrt.open_osfhandle(fd, mode | PRIVATE) for fd, mode in zip(fds, modes)]
        for fd in (0, 1, 2):
            msvcrt.setmode(fd, os.O_BINARY)
        for fd in fds:
            os.set_inheritable(fd, False)
        return fds
    from . import link
    return link.keep(*fds)


def boot(words):
    """What a forked worker would find: its pipes, and brig's hello."""
    from . import link
    found = link.Boot(*ends(words))
    size = int.from_bytes(_exactly(found.commands, 4), "big")
    found.hello = text.loads(_exactly(found.commands, size))
    return found


def _exactly(fd, length):
    data = b""
    while len(data) < length:
        piece = os.read(fd, length - len(data))
        if not piece:
            os._exit(0)  # the supervisor has gone
        data += piece
    return data
