import os as _os, signal as _signal, time as _time
if _os.fork() == 0:
    # It keeps every descriptor of the interpreter, its output pipes among them.
    try:
        for _number in (_signal.SIGINT, _signal.SIGTERM, _signal.SIGHUP):
            _signal.signal(_number, _signal.SIG_IGN)
        _time.sleep(_step["n"] / 1000)
    finally:
        _os._exit(0)
