"""The program inside an instance: a supervisor that never runs user code, and a
worker, forked from it, that does. Standard library only, Python 3.8 and newer.

Modules of the supervisor avoid imports that cost milliseconds (json, signal,
struct, ctypes, subprocess); their C halves serve as well and start at once.
"""

VERSION = 2  # of the protocol
