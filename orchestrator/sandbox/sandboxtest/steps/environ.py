import json as _json, os as _os

def _environments():
    # What every visible process was started with, where it may be read at all.
    for name in _os.listdir("/proc"):
        if name.isdigit():
            try:
                with open("/proc/%s/environ" % name, "rb") as file:
                    yield name, file.read()
            except OSError:
                pass

_needle = _step["text"].encode()
print(_json.dumps({
    "own": sorted(_os.environ),
    "values": [_name for _name, _value in _os.environ.items() if _step["text"] in _value],
    "processes": [_name for _name, _text in _environments() if _needle in _text],
}))
