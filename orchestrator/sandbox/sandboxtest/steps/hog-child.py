import os as _os, sys as _sys
_child = _os.fork()
if _child == 0:
    _code = 3
    try:
        _blocks, _held = [], 0
        while _held < _step["n"]:
            _blocks.append(bytearray(b"\x01") * (4 << 20))
            _held += 4 << 20
        _code = 0
    except MemoryError:
        pass
    finally:
        _os._exit(_code)
_, _how = _os.waitpid(_child, 0)
if _os.WIFSIGNALED(_how):
    print("the child was killed by signal", _os.WTERMSIG(_how))
else:
    print("the child ended with status", _os.WEXITSTATUS(_how))
