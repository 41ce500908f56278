import os as _os, time as _time
for _i in range(_step["n"]):
    _child = _os.fork()
    if _child == 0:
        try:
            if _os.fork() == 0:
                # Its parent is gone: whoever reaps it must not take its status for the interpreter's.
                _time.sleep(_i % 5 / 100)
                _os._exit(3)
        finally:
            _os._exit(5)
    _os.waitpid(_child, 0)
