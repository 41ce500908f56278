"""How this runner works: the ways of POSIX, or those that are left without them.

Elsewhere than on Windows the second is for tests: start.py --spawned. So all of it
but the calls into Windows themselves runs on every system.
"""
import os
import sys

WINDOWS = os.name == "nt"
DARWIN = sys.platform == "darwin"

# The worker is a program that was started, not a fork, an interrupt comes to it by a
# thread, and files are reached by their paths instead of by open directories.
SPAWNED = WINDOWS or sys.argv[1:2] in (["--spawned"], ["--worker"])

# The worker is this process, and these are the ends of its pipes.
WORKER = sys.argv[2:5] if sys.argv[1:2] == ["--worker"] else None

# For a descriptor that children do not inherit, and whose bytes are left as they are.
PRIVATE = getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOINHERIT", 0) | getattr(os, "O_BINARY", 0)
