"""Uncaught exceptions as data: name, message, frames and the text that Python prints."""
import os
import sys

from .own import trusted

MAX_MESSAGE = 8 << 10
MAX_TRACEBACK = 24 << 10
MAX_FRAMES = 64
DEEP = 3000  # frames; of a deeper traceback only the innermost thousand are looked at

_OWN = os.path.dirname(os.path.abspath(__file__)) + os.sep
_START = os.path.join(os.path.dirname(os.path.dirname(_OWN)), "start.py")


def outcome(err, filename, sources, interrupted):
    """How a run ended that ended with err. interrupted: somebody has asked for it."""
    if isinstance(err, SystemExit):
        return {"outcome": "exit", "status": _exit_status(err)}
    kind = "interrupted" if interrupted and isinstance(err, KeyboardInterrupt) else "exception"
    found = {"outcome": kind}
    if kind == "exception" and isinstance(err, MemoryError):
        found["memory_error"] = True
    limit = sys.getrecursionlimit()
    if limit < 1000:
        sys.setrecursionlimit(1000)  # user code has lowered it, but this has to work
    try:
        found["exception"] = trusted.alone(_describe, err, filename, sources)
    except (Exception, KeyboardInterrupt):
        # Out of memory, a recursive chain, a hostile __str__, or an interrupt of one that never ends.
        found["exception"] = {"name": _name(type(err)), "message": "", "frames": [], "truncated": True,
                              "traceback": "%s: (the traceback could not be made)\n" % _name(type(err))}
    finally:
        if limit < 1000:
            try:
                sys.setrecursionlimit(limit)
            except RecursionError:
                pass
    return found


def _exit_status(err):
    code = err.code
    if code is None:
        return 0
    if isinstance(code, int):
        return int(code) & 0xff
    try:
        sys.stderr.write("%s\n" % (code,))
    except Exception:
        pass
    return 1


def message_of(err):
    try:
        return str(err)
    except Exception:
        return "<unprintable %s object>" % type(err).__name__


def brief(err):
    return "%s: %.300s" % (_name(type(err)), message_of(err))


def _name(kind):
    module = kind.__module__
    if not isinstance(module, str) or module in ("builtins", "__main__"):
        return str(kind.__qualname__)
    return "%s.%s" % (module, kind.__qualname__)


def _describe(err, filename, sources):
    traceback = trusted("traceback")
    hint = _complete(err, sources) if isinstance(err, SyntaxError) else ""
    tb, depth = err.__traceback__, 0
    while tb is not None:
        tb, depth = tb.tb_next, depth + 1
    given = traceback.TracebackException(type(err), err, err.__traceback__, limit=-1000 if depth > DEEP else None)
    stack = given.stack
    for index, frame in enumerate(stack):
        if frame.filename == filename:
            del stack[:index]  # what leads to the cell: ours, and asyncio's
            break
    _drop_own(given, set())
    if not stack and isinstance(err, SyntaxError):
        lines = given.format_exception_only()
    else:
        lines = given.format()
    text, truncated = _middle("".join(lines) + hint, MAX_TRACEBACK)
    message = message_of(err.msg if type(err) is SyntaxError else err) + (hint and "; " + hint.strip())
    frames = [{"file": f.filename, "line": max(0, f.lineno or 0), "name": f.name, "text": (f.line or "").strip()} for f in stack]
    if not frames and isinstance(err, SyntaxError) and isinstance(err.lineno, int):
        frames = [{"file": str(err.filename), "line": max(0, err.lineno), "name": "<module>",
                   "text": str(err.text or "").strip()}]
    if len(frames) > MAX_FRAMES:
        frames, truncated = frames[:MAX_FRAMES // 4] + frames[-(MAX_FRAMES - MAX_FRAMES // 4):], True
    if len(message) > MAX_MESSAGE:
        message, truncated = message[:MAX_MESSAGE], True
    return {"name": _name(type(err)), "message": message, "frames": frames, "traceback": text, "truncated": truncated}


def _drop_own(given, seen):
    """Removes the runner's own frames from it and from everything it hangs together with."""
    if given is None or id(given) in seen:
        return
    seen.add(id(given))
    given.stack[:] = [f for f in given.stack if not f.filename.startswith(_OWN) and f.filename != _START]
    for other in (given.__cause__, given.__context__, *(getattr(given, "exceptions", None) or ())):
        _drop_own(other, seen)


def _complete(err, sources):
    """Adds the line that older Pythons leave out; returns a hint on notebook commands."""
    if not isinstance(err.lineno, int) or not isinstance(err.filename, str):
        return ""
    line = sources.line(err.filename, err.lineno)
    if line is None:
        return ""
    if err.text is None:
        err.text = line + "\n"
    if line.lstrip()[:1] in ("%", "!"):
        return "hint: magics and shell lines of notebooks are not available here; subprocess.run runs a command\n"
    return ""


def _middle(text, limit):
    """Text without its middle, if it is too long."""
    if len(text) <= limit:
        return text, False
    head = limit // 3
    return "%s\n  … %d characters left out …\n%s" % (text[:head], len(text) - limit, text[head - limit:]), True
