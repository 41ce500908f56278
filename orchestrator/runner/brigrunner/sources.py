"""The text of the cells, for tracebacks and inspect, and hooks on two imports.

linecache costs milliseconds to import and most cells never need it, so it is
filled when somebody imports it. matplotlib is looked after in the same way.
"""
import os
import sys

from _frozen_importlib_external import PathFinder

from .own import trusted

MAX_KEPT = 32 << 20  # bytes of all cells together; the oldest are forgotten


class Sources:
    def __init__(self):
        self._cells = {}  # filename: text, oldest first
        self._size = 0

    def add(self, filename, source):
        self._forget(filename)
        self._cells[filename] = _decode(source)
        self._size += len(source)
        while self._size > MAX_KEPT and len(self._cells) > 1:
            self._forget(next(iter(self._cells)))
        if "linecache" in sys.modules:
            self._register(sys.modules["linecache"], filename)

    def _forget(self, filename):
        text = self._cells.pop(filename, None)
        if text is not None:
            self._size -= len(text)
            if "linecache" in sys.modules:
                sys.modules["linecache"].cache.pop(filename, None)

    def _register(self, linecache, filename):
        text = self._cells[filename]
        # Without a modification time the entry is never checked against a file.
        lines = [line + "\n" for line in text.split("\n")]
        linecache.cache[filename] = (len(text), None, lines, filename)

    def imported_linecache(self, linecache):
        for filename in self._cells:
            self._register(linecache, filename)

    def line(self, filename, number):
        lines = self._cells.get(filename, "").split("\n")
        return lines[number - 1] if 0 < number <= len(lines) else None

    def ends_with_semicolon(self, filename, expression):
        """Whether a ; follows the last expression; only ) and comments may stand there too."""
        lines = self._cells[filename].split("\n")[expression.end_lineno - 1:]
        if lines:
            lines[0] = lines[0].encode("utf-8", "replace")[expression.end_col_offset:].decode("utf-8", "replace")
        return any(";" in line.partition("#")[0] for line in lines)


def _decode(source):
    """The text as the compiler reads it; what it would refuse is replaced."""
    encoding = "utf-8"
    for line in source.split(b"\n", 2)[:2]:
        if line.lstrip(b"\xef\xbb\xbf \t\f").startswith(b"#") and b"coding" in line:
            name = line.partition(b"coding")[2].lstrip(b":= \t")
            length = 0
            while length < len(name) and (chr(name[length]).isalnum() or name[length] in b"-_."):
                length += 1
            encoding = name[:length].decode("ascii", "replace")
            break
    if source.startswith(b"\xef\xbb\xbf"):
        source = source[3:]
    try:
        text = source.decode(encoding, "replace")
    except (LookupError, ValueError, TypeError, AttributeError):
        text = source.decode("utf-8", "replace")
    return text.replace("\r\n", "\n").replace("\r", "\n")


class Finder:
    """Calls back right after certain modules were imported, and then forgets them."""

    def __init__(self, wanted):
        self._wanted = wanted  # name: function(module)

    def find_spec(self, name, path=None, target=None):
        if name not in self._wanted:
            return None
        spec = PathFinder.find_spec(name, path, target)
        if spec is None or spec.loader is None:
            return None
        callback, execute = self._wanted.pop(name), spec.loader.exec_module

        def exec_module(module):
            del spec.loader.exec_module
            execute(module)
            callback(module)
        spec.loader.exec_module = exec_module
        return spec


def prefer_fork(context):
    """Makes processes of multiprocessing start by fork, as they did before Python 3.14.

    The other ways import the main module anew, which a session does not have.
    """
    fork = context._concrete_contexts.get("fork")
    if fork is not None:
        context._default_context._default_context = fork


def without_main(spawn):
    """Keeps processes that start anew from running the file that a run was named after.

    The text of a run need not be in the workspace; a file that is missing there would end them.
    """
    prepare = spawn.get_preparation_data

    def get_preparation_data(name):
        data = prepare(name)
        if not os.path.exists(data.get("init_main_from_path", "/")):
            del data["init_main_from_path"]
        return data
    spawn.get_preparation_data = get_preparation_data


def future_flags(source):
    """The compiler flags that from __future__ imports in source may have set."""
    if b"__future__" not in source:
        return 0
    future, flags = trusted("__future__"), 0
    for name in future.all_feature_names:
        flags |= getattr(future, name).compiler_flag
    return flags
