import sys as _sys
print(_step["text"], file=_sys.stderr if _step["to"] == "stderr" else _sys.stdout)
