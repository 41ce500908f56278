"""Where an event loop stands when an interrupt comes.

An exception that is raised in asyncio's own code, between the steps of two tasks
or while one says when it wants its next, loses that step: the task is never heard
of again, and whoever waits for its end, to cancel it for instance, waits for ever.
"""


def between(frame):
    """The loop in whose own code frame is, or None where the code of a task, a callback or
    anything else runs: an exception belongs there."""
    while frame is not None:
        name = frame.f_globals.get("__name__")
        if type(name) is not str or not (name.startswith("asyncio.") or name in ("selectors", "_weakrefset", "weakref")):
            return None
        if name == "asyncio.base_events" and frame.f_code.co_name == "run_forever":
            return frame.f_locals.get("self")
        frame = frame.f_back
    return None


def ending(loop):
    """Whether the loop ends by itself before it runs anything more: an exception now would leave
    what ends it behind, and that would end the next one."""
    for handle in list(getattr(loop, "_ready", ())):
        if getattr(getattr(handle, "_callback", None), "__name__", None) == "_run_until_complete_cb":
            return True
    return bool(getattr(loop, "_stopping", False))
