"""Saves what can be pickled, name by name, and brings it back.

Names that share an object come back as copies of their own. What is defined in
the session itself (functions, classes, and their instances) has no module to
be found in again, so it is named as skipped, with the reason.
"""
import importlib
import io
import pickle
import types

MAGIC = b"brig checkpoint 1\n"
MAX_BODY = 48 << 10
_LOCAL = (types.FunctionType, type)


class _Pickler(pickle.Pickler):
    def reducer_override(self, value):
        kind = type(value)
        if (kind is types.FunctionType or issubclass(kind, type)) and getattr(value, "__module__", None) == "__main__":
            raise pickle.PicklingError("%s is defined in this session" % value.__qualname__)
        if kind is types.ModuleType:
            return importlib.import_module, (value.__name__,)
        return NotImplemented


def save(namespace):
    """The body of the answer and the pieces of the data."""
    saved, skipped, blobs = [], {}, [MAGIC]
    for name in sorted(n for n in namespace if type(n) is str and not n.startswith("__")):
        try:
            buffer = io.BytesIO()
            _Pickler(buffer, pickle.HIGHEST_PROTOCOL).dump(namespace[name])
        except Exception as err:
            skipped[name] = _reason(err)
            continue
        data, key = buffer.getvalue(), name.encode("utf-8", "surrogatepass")
        blobs += [len(key).to_bytes(4, "big"), key, len(data).to_bytes(8, "big"), data]
        saved.append(name)
    return _bounded(saved, skipped), blobs


def load(namespace, data):
    if not data.startswith(MAGIC):
        raise ValueError("not a checkpoint")
    saved, skipped, at = [], {}, len(MAGIC)
    while at < len(data):
        length = int.from_bytes(data[at:at + 4], "big")
        name = data[at + 4:at + 4 + length].decode("utf-8", "surrogatepass")
        at += 4 + length
        length = int.from_bytes(data[at:at + 8], "big")
        value = data[at + 8:at + 8 + length]
        at += 8 + length
        if len(value) != length:
            raise ValueError("the checkpoint is cut off")
        try:
            namespace[name] = pickle.loads(value)
        except Exception as err:
            skipped[name] = _reason(err)
        else:
            saved.append(name)
    return _bounded(saved, skipped)


def _reason(err):
    try:
        return "%s: %.160s" % (type(err).__name__, err)
    except Exception:
        return type(err).__name__


def _bounded(saved, skipped):
    """The body, cut to what one message carries."""
    size, body = 0, {"saved": [], "skipped": {}}
    for name in saved:
        size += 4 * len(name) + 8
        if size < MAX_BODY:
            body["saved"].append(name)
    for name, reason in skipped.items():
        size += 4 * (len(name) + len(reason)) + 8
        if size < MAX_BODY:
            body["skipped"][name] = reason
    return body
