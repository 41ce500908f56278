"""What the user's names hold, without calling anything that user code has defined."""
import sys

MAX_BODY = 56 << 10
MAX_REPR = 80

_SIZED = (str, bytes, bytearray, list, tuple, dict, set, frozenset)
_type_name = type.__dict__["__qualname__"].__get__
_type_module = type.__dict__["__module__"].__get__


def describe(namespace, limit):
    names = sorted(name for name in namespace
                   if type(name) is str and not name.startswith("__") and name != "_")
    found, size = [], 0
    for name in names[:limit]:
        entry = _entry(name, namespace[name])
        size += 64 + sum(6 * len(v) if isinstance(v, str) and not v.isprintable() else 4 * len(str(v))
                         for v in entry.values())
        if size > MAX_BODY:
            break
        found.append(entry)
    return {"variables": found, "omitted": len(names) - len(found)}


def _entry(name, value):
    kind = type(value)
    entry = {"name": name[:256], "type": _kind(kind)[:256]}
    try:
        entry["bytes"] = sys.getsizeof(value) if kind in _SIZED else object.__sizeof__(value)
        if kind in _SIZED:
            entry["shape"] = str(len(value))
        else:
            _library(entry, kind, value)
        text = _scalar(kind, value)
        if text is not None:
            entry["repr"] = text
    except Exception:  # a name and a type are an answer too
        pass
    return entry


def _kind(kind):
    module, name = _type_module(kind), _type_name(kind)
    if type(module) is not str or module in ("builtins", "__main__"):
        return name
    return module + "." + name


def _scalar(kind, value):
    if value is None or kind in (bool, float, complex):
        return repr(value)
    if kind is int:
        return repr(value) if value.bit_length() <= 256 else None
    if kind in (str, bytes):
        text = repr(value[:MAX_REPR + 1])
        return text if len(text) <= MAX_REPR else text[:MAX_REPR - 1] + "…"
    return None


def _library(entry, kind, value):
    """Shape and size of exactly the array and frame types of the libraries that are loaded."""
    numpy, pandas = sys.modules.get("numpy"), sys.modules.get("pandas")
    if numpy is not None and kind is getattr(numpy, "ndarray", None):
        entry["shape"], entry["bytes"] = str(value.shape), int(value.nbytes)
    elif pandas is not None and kind in (getattr(pandas, "DataFrame", None), getattr(pandas, "Series", None)):
        entry["shape"] = str(value.shape)
        usage = value.memory_usage(index=True)
        entry["bytes"] = int(usage if kind is pandas.Series else usage.sum())
