"""Installed packages that become importable in the worker only.

Started without the module site, the supervisor runs no code of theirs: the .pth
files of packages may run some when an interpreter starts. The worker enters it
while the supervisor looks around, which is also the quicker way.
"""
import os
import sys

from . import own

OPTION = "brig_path"  # of -X: where an interpreter, started in full, finds modules


def wanted():
    """Whether this interpreter was started without site in order to enter it late."""
    path = getattr(sys, "_xoptions", {}).get(OPTION)
    if not sys.flags.no_site or not isinstance(path, str):
        return False
    own.trusted.rebase(path.split(os.pathsep))
    return True


def enter():
    """Makes up, in a worker, for what a start with site does."""
    enter_site()
    hide()


def enter_site():
    """Makes installed packages importable, as an interpreter's start does."""
    import site
    site.main()
    own.trusted.rebase(sys.path)


def hide():
    """Keeps interpreters that user code starts from getting the flag that keeps site away from this one."""
    if "subprocess" in sys.modules:
        _start_in_full(sys.modules["subprocess"])
    else:
        from . import sources
        sys.meta_path.insert(0, sources.Finder({"subprocess": _start_in_full}))


def _start_in_full(subprocess):
    flags = subprocess._args_from_interpreter_flags
    subprocess._args_from_interpreter_flags = lambda: [flag for flag in flags() if flag != "-S"]
