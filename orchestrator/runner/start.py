"""Starts the runner: python3 -I -u start.py, frames on descriptors 0 and 1.

The supervisor loop returns only in a forked worker; what user code raises there
must not show the supervisor's frames, so the worker starts from here.
"""
import sys

sys.dont_write_bytecode = True


def main():
    directory = __file__.rpartition("/")[0] or "."
    sys.path.insert(0, directory)
    from brigrunner import supervisor
    sys.path.remove(directory)
    boot = supervisor.main(directory)
    from brigrunner import worker
    worker.main(boot)


main()
