import os as _os
_read, _write = _os.pipe()
_os.read(_read, 1)
