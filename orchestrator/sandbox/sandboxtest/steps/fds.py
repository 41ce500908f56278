import json as _json, os as _os, subprocess as _subprocess, sys as _sys

_LIST = """
import json, os
rows = {}
for fd in os.listdir("/proc/self/fd"):
    try:
        rows[fd] = os.readlink("/proc/self/fd/" + fd)
    except OSError:
        pass  # the descriptor of the listing itself
"""


def _own():
    names = {}
    exec(_LIST, names)
    return names["rows"]


def _forked():
    ends = _os.pipe()
    child = _os.fork()
    if child == 0:
        try:
            rows = _own()
            for end in ends:
                rows.pop(str(end), None)
            _os.write(ends[1], _json.dumps(rows).encode())
        finally:
            _os._exit(0)
    _os.close(ends[1])
    with _os.fdopen(ends[0], "rb") as file:
        rows = _json.loads(file.read())
    _os.waitpid(child, 0)
    return rows


def _executed():
    program = _LIST + "print(json.dumps(rows))"
    return _json.loads(_subprocess.check_output([_sys.executable, "-I", "-S", "-c", program]))


print(_json.dumps({"own": _own(), "forked": _forked(), "executed": _executed()}))
