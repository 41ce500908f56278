"""Cells: source text in, an outcome out, and a namespace that lives on between.

A cell behaves as in a notebook: the value of the last expression is the result,
top-level await works, and so does asyncio.run, because no loop is left running.
"""
import os
import sys

import _ast
import builtins

from . import display, failure, sources
from .own import trusted

ONLY_AST = 0x400          # ast.PyCF_ONLY_AST
TOP_LEVEL_AWAIT = 0x2000  # ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
COROUTINE = 0x80          # inspect.CO_COROUTINE

def open_standard(name):
    """A fresh sys.stdin, sys.stdout or sys.stderr on its descriptor, which it never closes."""
    import io
    if name == "stdin":
        return io.open(0, "r", encoding="utf-8", closefd=False)
    raw = io.open(1 if name == "stdout" else 2, "wb", closefd=False)
    return io.TextIOWrapper(raw, encoding="utf-8", newline="\n", line_buffering=True,
                            errors="surrogateescape" if name == "stdout" else "backslashreplace")


def flush():
    """Flushes the streams that are ours; they block no longer than the supervisor does."""
    for stream in (sys.__stdout__, sys.__stderr__):
        try:
            stream.flush()
        except (OSError, ValueError, AttributeError):  # user code has closed or removed it
            pass


class Session:
    def __init__(self, channel, hello):
        self._channel = channel
        self._hello = hello
        self._loop = None      # for top-level await, made when first used
        self._flags = 0        # of from __future__ import
        self.sources = sources.Sources()
        self.display = display.Displays(channel, hello["bounds"]["display"])
        self.tables = None     # made when first needed
        self.listed = hello["tables"] or None  # datasets to be taken up by the next run
        self._hook_imports()
        builtins.display = self.display.show
        self.namespace = None
        self.reset()

    def _hook_imports(self):
        if "linecache" in sys.modules:
            wanted = {}
        else:
            wanted = {"linecache": self.sources.imported_linecache}
        wanted["matplotlib.pyplot"] = self.display.imported_pyplot
        wanted["multiprocessing.context"] = sources.prefer_fork
        wanted["multiprocessing.spawn"] = sources.without_main
        sys.meta_path.insert(0, sources.Finder(wanted))

    def reset(self):
        """A fresh namespace. Modules stay imported, threads go on with what they hold."""
        module = type(sys)("__main__")
        module.__builtins__ = builtins
        sys.modules["__main__"] = module
        self.namespace = module.__dict__
        self._file = None      # what __file__ is because of us
        self._flags = 0
        if self.tables is not None:
            self.tables.forget()

    def _provide(self, source, codes):
        """Makes the datasets known to the code that is about to run. This may run user
        code, which is why it is a part of the run."""
        if self.tables is None and not self.listed and b"tables" not in source:
            return
        if self.tables is None:
            self.tables = trusted(__package__ + ".tables").Tables(self._hello["workspace"])
            builtins.tables = self.tables
        if self.listed is not None:
            self.tables.update(self.listed, self.namespace)
            self.listed = None
        self.tables.provide(self.namespace, source, codes)

    def _name(self, filename):
        """Sets __file__ for a run that comes from a file, to where that would lie in
        the workspace; whether it does is up to whoever runs it. A cell has none."""
        if self._file is not None and self.namespace.get("__file__") is self._file:
            del self.namespace["__file__"]
        self._file = None
        base = filename.rpartition("/")[2]
        if base:
            self._file = self.namespace["__file__"] = self._hello["workspace"] + os.sep + base

    def run(self, number, source, filename, argv):
        """Runs a cell and returns the members of the report about its end."""
        channel = self._channel
        self._name(filename)
        filename = filename or "<cell %d>" % number
        trusted.admit(self._hello["workspace"])
        sys.argv = [filename] + argv
        sys.path_importer_cache.pop(self._hello["workspace"], None)  # brig may have put a module there
        self._repair()
        self.sources.add(filename, source)
        channel.listen()
        channel.run = number
        self.display.begin()
        end = None
        try:
            try:
                channel.arm()
                end = self._guarded(source, filename)
            finally:
                channel.disarm()
        except BaseException as err:  # an interrupt in the moment before disarm
            channel.disarm()
            end = end or self._outcome(err, filename)
        channel.run = 0
        flush()
        return end

    def _guarded(self, source, filename):
        """Runs the cell, catching all it raises, and describes that while it can still be interrupted."""
        try:
            self._execute(source, filename)
            self._finish()
            return {"outcome": "ok"}
        except BaseException as err:
            end = self._outcome(err, filename)
        if end["outcome"] != "interrupted":
            self._finish()
        return end

    def _finish(self):
        """Shows the figures, and flushes whatever user code has put in place of the streams."""
        self.display.figures()
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except Exception:
                pass

    def _outcome(self, err, filename):
        return failure.outcome(err, filename, self.sources, self._channel.interrupted)

    def _execute(self, source, filename):
        body, last, silent = self._compile(source, filename)
        self._provide(source, body + [last])
        value = None
        for code in body:
            self._evaluate(code)
        if last is not None:
            value = self._evaluate(last)
        if value is not None and not silent:
            if self.tables is not None:
                self.tables.shown(value)
            self.namespace["_"] = value
            self.display.result(value)

    def _compile(self, source, filename):
        """Code objects for all but the last expression, for that, and whether it ends with ;."""
        if b"\0" in source:
            line = source[:source.index(b"\0")].count(b"\n") + 1
            raise SyntaxError("source code cannot contain null bytes", (filename, line, None, None))
        tree = compile(source, filename, "exec", ONLY_AST | self._flags, True)
        last, silent = None, False
        if tree.body and type(tree.body[-1]) is _ast.Expr:
            last = _ast.Expression(tree.body.pop().value)
            silent = self.sources.ends_with_semicolon(filename, last.body)
        body = [self._code(tree, filename, "exec")] if tree.body else []
        if body:
            self._flags |= body[0].co_flags & sources.future_flags(source)
        if last is not None:
            last = self._code(last, filename, "eval")
        return body, last, silent

    def _code(self, tree, filename, mode):
        try:
            return compile(tree, filename, mode, self._flags, True)
        except SyntaxError as err:
            try:
                code = compile(tree, filename, mode, self._flags | TOP_LEVEL_AWAIT, True)
            except SyntaxError:
                code = None
            if code is None or not code.co_flags & COROUTINE:
                raise err from None
            return code

    def _evaluate(self, code):
        value = eval(code, self.namespace)
        if code.co_flags & COROUTINE:
            return self._await(value)
        return value

    def _await(self, coroutine):
        asyncio = trusted("asyncio")
        if self._loop is None or self._loop.is_closed():
            self._loop = asyncio.new_event_loop()
        loop, channel, task = self._loop, self._channel, None
        asyncio.set_event_loop(loop)
        try:
            channel.disarm()  # a task that nobody here holds would go on in a later cell
            task = loop.create_task(coroutine)
            channel.arm()
            return loop.run_until_complete(task)
        except BaseException:
            if task is None:
                channel.arm()
            elif task.done():
                if not task.cancelled():
                    task.exception()  # or asyncio complains that nobody has asked for it
            elif not channel.foreign:
                task.cancel()
                try:
                    loop.run_until_complete(task)
                except BaseException:  # it was to end, and it has
                    pass
            raise

    def _repair(self):
        """Standard streams that an earlier cell has closed."""
        for name in ("stdin", "stdout", "stderr"):
            stream = getattr(sys, name, None)
            if stream is None or getattr(stream, "closed", False) is True:
                original = getattr(sys, "__%s__" % name)
                if original.closed:
                    setattr(sys, "__%s__" % name, open_standard(name))
                setattr(sys, name, getattr(sys, "__%s__" % name))
