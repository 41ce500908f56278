"""The datasets of a session: files of the workspace that code finds as tables["name"].

A file is read when it is first asked for, and again once it has changed. Data frames
where pandas can be imported, lists of dicts where not. One that cannot be read says
so by its name when it is asked for; the others are not affected.
"""
import os

from _collections_abc import Mapping

from . import formats
from .own import trusted
from .unread import unread


class TableError(RuntimeError):
    """A dataset cannot be read; the text says which and why."""


TableError.__module__ = "brig"


class _Entry:
    """A dataset as it was registered, with what was read of it."""

    def __init__(self, given):
        self.given = given  # as brig sent it, without whether it is df
        self.seen = None    # of the file, when it was read
        self.value = None
        self.problem = ""


class Tables(Mapping):
    """tables["name"]: the datasets of this session, each read when it is asked for."""

    def __init__(self, workspace):
        self._workspace = workspace
        self._entries = {}
        self._active = None
        self._given = None  # the df that is ours

    # What code sees.

    def __getitem__(self, name):
        entry = self._find(name)
        seen = self._look(name, entry)
        if entry.seen != seen:
            entry.value, entry.seen = None, None  # room for what comes
            entry.value, entry.problem = self._read(name, entry), ""
            entry.seen = seen
        return entry.value

    def __contains__(self, name):
        return name in self._entries

    def __iter__(self):
        return iter(sorted(self._entries))

    def __len__(self):
        return len(self._entries)

    def path(self, name):
        """Where the file lies."""
        return self._workspace + os.sep + self._find(name).given["path"].replace("/", os.sep)

    def connect(self, name):
        """A read-only connection to a SQLite file, with all its tables."""
        entry = self._find(name)
        if entry.given["format"] != "sqlite":
            raise self._error(name, entry, "it is not a SQLite file")
        self._look(name, entry)
        try:
            return formats.connect(self.path(name))
        except Exception as err:
            raise self._error(name, entry, formats.reason(err)) from None

    @property
    def active(self):
        """The name of the one that is df, or None."""
        return self._active

    def __repr__(self):
        if not self._entries:
            return "no tables"
        lines = []
        for name in self:
            entry = self._entries[name]
            line = "tables[%r]: %s, %s" % (name, entry.given["path"], entry.given["format"])
            if name == self._active:
                line += ", also df"
            if entry.problem:
                line += ", cannot be read: " + entry.problem
            lines.append(line)
        return "\n".join(lines)

    def _find(self, name):
        try:
            return self._entries[name]
        except (KeyError, TypeError):
            have = ", ".join(map(repr, self)) or "none is registered"
            raise KeyError("there is no table %.80r; there is: %s" % (name, have)) from None

    def _look(self, name, entry):
        """What tells one content of the file from another."""
        try:
            info = os.stat(self.path(name))
        except FileNotFoundError:
            raise self._error(name, entry, "the file is not there any more") from None
        except (OSError, ValueError) as err:
            raise self._error(name, entry, formats.reason(err)) from None
        if info.st_mode & 0o170000 != 0o100000:
            raise self._error(name, entry, "it is not a regular file")
        return info.st_dev, info.st_ino, info.st_size, info.st_mtime_ns

    def _read(self, name, entry):
        given = entry.given
        try:
            return formats.read(self.path(name), given["format"], given["table"])
        except MemoryError:
            raise
        except formats.Unreadable as err:
            raise self._error(name, entry, str(err)) from None
        except Exception as err:
            raise self._error(name, entry, formats.reason(err)) from None

    def _error(self, name, entry, why):
        entry.problem = why
        return TableError("table %r (%s) cannot be read: %s" % (name, entry.given["path"], why))

    # What the runner does with it.

    def update(self, listed, namespace):
        """Takes the list from brig. What is the same as before stays as it is, read or not."""
        before, entries, active = self._entries, {}, None
        for given in listed:
            given = dict(given)
            if given.pop("active"):
                active = given["name"]
            old = before.get(given["name"])
            entries[given["name"]] = old if old is not None and old.given == given else _Entry(given)
        self._entries = entries
        if active is not None and (active != self._active or entries[active] is not before.get(active)):
            namespace.pop("df", None)  # it becomes df: that was asked for
        elif active is None and self._given is not None and namespace.get("df") is self._given:
            del namespace["df"]
        self._active = active

    def forget(self):
        """A fresh namespace has what the files hold, whatever code did to it."""
        self._given = None
        for entry in self._entries.values():
            entry.seen = entry.value = None

    def shown(self, value):
        """Raises where the result of a cell is a table that cannot be read: what fails
        while it is shown would only leave it out."""
        if self._given is not None and value is self._given and type(value).__name__ == "Unread":
            repr(value)

    def provide(self, namespace, source, codes):
        """Makes df the active table where the code that is about to run may ask for it.
        One that cannot be read is a df that says so where it is used, and is tried again
        by the next run."""
        if self._given is not None and type(self._given).__name__ == "Unread" and namespace.get("df") is self._given:
            del namespace["df"]
        if self._active is None or b"df" not in source or "df" in namespace or not trusted.alone(_use, codes):
            return
        try:
            self._given = namespace["df"] = self[self._active]
        except TableError as err:
            self._given = namespace["df"] = unread(err)


def _use(codes):
    """Whether code may use the global name df before it sets it."""
    dis, use = trusted("dis"), False
    for code in codes:
        if code is None:
            continue
        for step in dis.get_instructions(code):
            name = step.opname
            if step.argval == "df" and name.startswith(("LOAD_NAME", "LOAD_GLOBAL", "DELETE_")):
                return True
            if step.argval == "df" and name in ("STORE_NAME", "STORE_GLOBAL"):
                return use
            if name.endswith("_CONST") and _mentions(step.argval):
                use = True
    return use


def _mentions(value):
    """Whether a constant speaks of df: a function, or text such as a query."""
    if isinstance(value, str):
        return "df" in value and _word(value)
    if isinstance(value, tuple):
        return any(map(_mentions, value))
    names = getattr(value, "co_names", None)
    return names is not None and ("df" in names or any(map(_mentions, value.co_consts)))


def _word(text):
    at = text.find("df")
    while at >= 0:
        around = text[max(at - 1, 0):at] + text[at + 2:at + 3]
        if not any(c.isalnum() or c == "_" for c in around):
            return True
        at = text.find("df", at + 1)
    return False
