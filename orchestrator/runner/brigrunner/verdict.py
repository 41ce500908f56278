"""Checks what a worker says before it is passed on, and reads wait statuses."""
from . import link
from .text import cut, dumps

MAX_CODE = 16 << 20
MAX_BUNDLE = 32 << 20
MAX_INLINE = 4 << 10
MAX_PARTS = 32
MAX_DISPLAYS = 10000
MAX_FRAMES = 64
MAX_MESSAGE = 60 << 10  # of a control message, encoded

_OUTCOMES = ("ok", "exception", "exit", "interrupted")


def parts(message):
    """The parts of a display: [(mime, size, text or None)]."""
    if message.get("role") not in ("result", "display", "figure"):
        raise link.Misuse("role")
    given, found, total = message.get("parts"), [], 0
    if not isinstance(given, list) or not 1 <= len(given) <= MAX_PARTS:
        raise link.Misuse("parts")
    for part in given:
        mime, text, size = (part.get(k) for k in ("mime", "text", "size")) if isinstance(part, dict) else (None,) * 3
        if not isinstance(mime, str) or not is_mime(mime):
            raise link.Misuse("mime")
        if text is not None:
            size = len(text.encode("utf-8", "replace")) if isinstance(text, str) else -1
            if not 0 <= size <= MAX_INLINE:
                raise link.Misuse("inline part")
        elif type(size) is not int or size < 0:
            raise link.Misuse("part size")
        total += size
        found.append((mime, size, text))
    if total > MAX_BUNDLE or len(dumps(given)) > MAX_MESSAGE:
        raise link.Misuse("size of a display")
    return found


def is_mime(mime):
    return 3 <= len(mime) <= 120 and "/" in mime and all(" " < c < "\x7f" and c not in '"\\' for c in mime)


def end(message):
    """What a worker says about the end of a run, as members of the exit message."""
    outcome, status = message.get("outcome"), message.get("status", 0)
    if outcome not in _OUTCOMES or type(status) is not int:
        raise link.Misuse("outcome")
    found = {"outcome": outcome, "status": status & 0xff if outcome == "exit" else 0}
    if outcome in ("exception", "interrupted") and message.get("exception") is not None:
        found["exception"] = exception(message["exception"])
    if outcome == "exception":
        if "exception" not in found:
            raise link.Misuse("an exception without one")
        found["status"] = 1
        if message.get("memory_error") is True:
            found["memory_error"] = True
    return found


def exception(given):
    if not isinstance(given, dict) or not isinstance(given.get("frames", []), list):
        raise link.Misuse("exception")
    truncated = given.get("truncated") is True

    def string(holder, key, limit):
        nonlocal truncated
        value = holder.get(key, "")
        if not isinstance(value, str):
            raise link.Misuse(key)
        value, shortened = cut(value, limit)
        truncated = truncated or shortened
        return value

    found = {"name": string(given, "name", 256), "message": string(given, "message", 8 << 10), "frames": [],
             "traceback": string(given, "traceback", 24 << 10)}
    frames = given.get("frames", [])
    if len(frames) > MAX_FRAMES:
        frames, truncated = frames[:MAX_FRAMES], True
    for frame in frames:
        if not isinstance(frame, dict) or type(frame.get("line")) is not int or frame["line"] < 0:
            raise link.Misuse("frame")
        found["frames"].append({"file": string(frame, "file", 256), "line": min(frame["line"], 1 << 31),
                                "name": string(frame, "name", 128), "text": string(frame, "text", 160)})
    # Escapes may make any of it six times as long.
    limit = 16 << 10
    while len(dumps(found)) > MAX_MESSAGE - 4096:
        truncated = True
        found["frames"] = found["frames"][:len(found["frames"]) // 2]
        found["message"] = cut(found["message"], limit // 2)[0]
        found["traceback"] = cut(found["traceback"], limit)[0]
        limit //= 2
    if truncated:
        found["truncated"] = True
    return found


def of_status(status, final):
    """The end of a run whose worker has ended. final is what it had said before, or None."""
    if status & 0x7f:
        return {"outcome": "signal", "signal": status & 0x7f}
    code = status >> 8 & 0xff
    if final is not None:
        # The program had finished; what happened after that shows in the status.
        expected = {"ok": 0, "exception": 1, "interrupted": 130}.get(final["outcome"])
        if code == expected:
            return final
    return {"outcome": "exit", "status": code}


def ending(status):
    """A wait status in words."""
    if status & 0x7f:
        return "was killed by signal %d" % (status & 0x7f)
    return "exited with status %d" % (status >> 8 & 0xff)
