import os as _os, signal as _signal, time as _time
_child = _os.fork()
if _child == 0:
    try:
        _os.setsid()
        if _os.fork():
            _os._exit(0)
        for _number in (_signal.SIGINT, _signal.SIGTERM, _signal.SIGHUP):
            _signal.signal(_number, _signal.SIG_IGN)
        _os.closerange(0, 256)
        _time.sleep(_step["n"] / 1000)
    finally:
        _os._exit(0)
_os.waitpid(_child, 0)
