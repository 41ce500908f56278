import os as _os, sys as _sys
for _i in range(_step["n"]):
    _os.write(1, b"")
    _sys.stdout.write("")
    _sys.stdout.flush()
