"""Starts the runner: python3 -I -u start.py, frames on descriptors 0 and 1.
With the argument zygote it starts one that runners are forked from. With -S and
-X brig_path=... installed packages come in the worker only.

The supervisor loop returns only in a forked worker; what user code raises there
must not show the supervisor's frames, so the worker starts from here. Where
nothing can be forked the worker is this program again, with other arguments.
"""
import sys

sys.dont_write_bytecode = True


def main():
    path = __file__.replace("\\", "/") if sys.platform == "win32" else __file__  # elsewhere a name may hold one
    directory = path.rpartition("/")[0] or "."
    sys.path.insert(0, directory)
    from brigrunner import mode
    if mode.WORKER:
        from brigrunner import spawn
        boot = spawn.boot(mode.WORKER)
        sys.path.remove(directory)
    else:
        late = None
        if sys.argv[1:] == ["zygote"]:
            from brigrunner import zygote as half
        else:
            from brigrunner import supervisor as half
            if sys.flags.no_site:
                from brigrunner import late
        sys.path.remove(directory)
        late = late if late and late.wanted() else None
        boot = half.main(directory)
        if late:
            late.enter()
    from brigrunner import worker
    worker.main(boot)


main()
