import os as _os
_os._exit(_step["n"])
