"""Starts the runner: python3 -I -u start.py, frames on descriptors 0 and 1.

The supervisor loop returns only in a forked worker; what user code raises there
must not show the supervisor's frames, so the worker starts from here. Where
nothing can be forked the worker is this program again, with other arguments.
"""
import sys

sys.dont_write_bytecode = True


def main():
    directory = __file__.replace("\\", "/").rpartition("/")[0] or "."
    sys.path.insert(0, directory)
    from brigrunner import mode
    if mode.WORKER:
        from brigrunner import spawn
        boot = spawn.boot(mode.WORKER)
        sys.path.remove(directory)
    else:
        from brigrunner import supervisor
        sys.path.remove(directory)
        boot = supervisor.main(directory)
    from brigrunner import worker
    worker.main(boot)


main()
