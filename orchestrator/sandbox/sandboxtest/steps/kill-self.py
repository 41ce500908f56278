import os as _os
_os.kill(_os.getpid(), _step["n"])
