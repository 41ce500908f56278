"""Processes that try to outlive their instance.

cling(how, fifo, marker) starts them and returns when all of them run. Each holds the write end of the FIFO, which somebody
outside reads to its end, and those that start another program carry the marker in their arguments. It is a function, so
that nothing of it stays in the session.
"""


def cling(how, fifo, marker):
    import ctypes
    import fcntl
    import os
    import select
    import signal
    import subprocess
    import sys
    import threading
    import time

    held = os.open(fifo, os.O_WRONLY)
    os.set_inheritable(held, True)
    lock = os.open("clingers-lock", os.O_CREAT | os.O_RDWR, 0o600)
    fcntl.flock(lock, fcntl.LOCK_EX)  # forks hold it as well
    os.set_inheritable(lock, True)
    told, tell = os.pipe()
    os.set_inheritable(tell, True)
    libc = ctypes.CDLL(None)

    def ready():
        os.write(tell, b"r")

    def forever():
        while True:
            time.sleep(600)

    def spawn(env=None, **options):
        code = "import os, sys, time; os.write(int(sys.argv[2]), b'r'); time.sleep(600)"
        return subprocess.Popen([sys.executable, "-I", "-S", "-c", code, marker, str(tell)], close_fds=False, pass_fds=(), env=env, **options)

    def fork(run):
        if os.fork() == 0:
            try:
                run()
            finally:
                os._exit(1)

    def daemon():
        os.setsid()
        if os.fork() > 0:
            os._exit(0)
        spawn()
        ready()
        forever()

    def chain():
        """Every process forks its successor and ends: whoever lists them finds the dead."""
        first = True
        while os.fork() == 0:
            if first:
                ready()
                first = False
            time.sleep(0.001)
        os._exit(0)

    def deaf():
        for s in set(signal.Signals) - {signal.SIGKILL, signal.SIGSTOP}:
            signal.signal(s, signal.SIG_IGN)
        ready()
        forever()

    def stopped():
        ready()
        os.kill(os.getpid(), signal.SIGSTOP)
        forever()

    def stuck():
        os.mkfifo("never-%d" % os.getpid())
        ready()
        os.open("never-%d" % os.getpid(), os.O_RDONLY)

    def parent_in_vfork():
        """Waits for a child of vfork, which no ordinary signal interrupts."""
        libc.vfork.restype = ctypes.c_int
        ready()
        subprocess.run(["/bin/sh", "-c", "exec sleep 600 # " + marker], close_fds=False)

    def crowd():
        for _ in range(120):
            threading.Thread(target=forever, daemon=True).start()
        ready()
        forever()

    def nameless():
        """Has cleared what it could be found by: environment, session, parent, the wish to die with it, and its name."""
        libc.prctl(1, 0, 0, 0, 0)
        os.setsid()
        if os.fork() > 0:
            os._exit(0)
        libc.prctl(15, b") Z 1 (x", 0, 0, 0)
        spawn(env={})
        ready()
        forever()

    scenarios = dict(
        children=([lambda: (spawn(), ready(), forever())] * 3, 6),
        setsid=([lambda: (os.setsid(), spawn(start_new_session=True), ready(), forever())] * 2, 4),
        daemon=([daemon] * 2, 4),
        chains=([chain] * 3, 3),
        deaf=([deaf] * 3, 3),
        stopped=([stopped] * 3, 3),
        stuck=([stuck, stuck, parent_in_vfork], 3),
        threads=([crowd] * 2, 2),
        nameless=([nameless] * 2, 4),
    )
    starts, words = scenarios[how]
    for start in starts:
        fork(start)
    os.close(tell)
    while words > 0:
        said = select.select([told], [], [], 20)[0] and os.read(told, words)
        if not said:
            raise RuntimeError("one of them ended early or does not answer")
        words -= len(said)
    os.close(held)
    os.close(lock)
    print("clinging", flush=True)
    time.sleep(600)
