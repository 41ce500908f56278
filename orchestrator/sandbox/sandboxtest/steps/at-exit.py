import atexit as _atexit
_atexit.register(print, _step["text"])
