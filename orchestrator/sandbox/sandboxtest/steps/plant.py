import os as _os
if _step["to"] == "symlink":
    _os.symlink(_step["text"], _step["name"])
elif _step["to"] == "fifo":
    _os.mkfifo(_step["name"])
else:
    _os.link(_step["text"], _step["name"])
