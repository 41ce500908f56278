import json as _json, os as _os
_rows = {}
for _fd in _os.listdir("/proc/self/fd"):
    try:
        _rows[_fd] = _os.readlink("/proc/self/fd/" + _fd)
    except OSError:
        pass  # the descriptor of the listing itself
print(_json.dumps(_rows))
