"""The half that runs user code: one interpreter, one namespace, one run at a time.

It is forked from the supervisor with its standard output and error connected
to pipes that the supervisor pumps, and with three descriptors of its own that
are closed in whatever user code forks.
"""
import os
import sys
import time

from . import cell, channel, failure
from .mode import WINDOWS
from .own import trusted

# Imported while no command is there, so that a first exception or the like does
# not wait for them. What they import themselves stands before them: a command
# that comes meanwhile waits for one small module at most.
_SOON = ("keyword", "operator", "reprlib", "collections", "functools", "types", "enum", "copyreg", "re", "token",
         "tokenize", "linecache", "traceback", "contextlib", "ast", "threading", "pickle")


def main(boot):
    worker = Worker(boot)
    worker.loop()


class Worker:
    def __init__(self, boot):
        self.hello = boot.hello
        self.channel = channel.Channel(boot)
        self._environment()
        self._standard_streams()
        self.session = cell.Session(self.channel, self.hello)

    def _environment(self):
        hello, scratch = self.hello, self.hello["scratch"]
        os.chdir(hello["workspace"])
        sys.argv = [""]
        os.environ.update({
            "HOME": scratch + os.sep + "home", "TMPDIR": scratch + os.sep + "tmp", "XDG_CACHE_HOME": scratch + os.sep + "cache",
            "MPLCONFIGDIR": scratch + os.sep + "matplotlib", "MPLBACKEND": "Agg", "PYTHONDONTWRITEBYTECODE": "1",
            "PYTHONIOENCODING": "utf-8",
        })
        if WINDOWS:
            for name, value in (("USERPROFILE", "HOME"), ("TEMP", "TMPDIR"), ("TMP", "TMPDIR")):
                os.environ[name] = os.environ[value]
        self._claim(hello)

    def _claim(self, wanted):
        """Takes up what a session brings: its locale and its time zone."""
        self._locale(wanted["locale"])
        if wanted["timezone"]:
            os.environ["TZ"] = wanted["timezone"]
            if not WINDOWS:  # which has its time zone from its own settings
                time.tzset()

    @staticmethod
    def _locale(wanted):
        """The caller's locale if it is installed, and UTF-8 in any case."""
        import _locale
        os.environ.pop("LC_ALL", None)
        for name in (wanted, "C.UTF-8", "C"):
            if not name:
                continue
            try:
                _locale.setlocale(_locale.LC_CTYPE, name)
            except (_locale.Error, ValueError):
                continue
            if name != "C":
                os.environ["LANG"] = name
            return

    def _standard_streams(self):
        for name in ("stdin", "stdout", "stderr"):
            stream = cell.open_standard(name)
            setattr(sys, name, stream)
            setattr(sys, "__%s__" % name, stream)
        import faulthandler
        faulthandler.enable(sys.__stderr__, all_threads=False)

    def loop(self):
        while True:
            self._prepare()
            command = self.channel.receive()
            kind = command["t"]
            if kind == "run":
                self._run(command)
            elif kind == "bind":
                self._claim(command)
            elif kind == "tables":
                self.session.listed = command["listed"]
            else:
                self._answer(kind, command)

    def _prepare(self):
        for name in _SOON:
            if name not in sys.modules:
                if self.channel.waiting():
                    return
                trusted(name)

    def _run(self, command):
        source = self.channel.receive_raw(command["size"])
        end = self.session.run(command["n"], source, command["filename"], command["argv"])
        if self.channel.foreign:
            self._leave_child(end)
        end.update({"t": "done", "n": command["n"]})
        self.channel.send(end)
        if command["once"]:
            self._leave(end)

    def _leave(self, end):
        """Ends as a program ends: the interpreter joins threads, calls atexit and flushes."""
        from _signal import SIGINT, default_int_handler, signal
        signal(SIGINT, default_int_handler)
        sys.exit({"ok": 0, "exception": 1, "interrupted": 130}.get(end["outcome"], end.get("status", 0)))

    @staticmethod
    def _leave_child(end):
        """A child that user code forked has come back from the cell."""
        if "exception" in end:
            sys.stderr.write(end["exception"]["traceback"])
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except (OSError, ValueError):
                pass
        os._exit({"ok": 0, "exception": 1, "interrupted": 130}.get(end["outcome"], end.get("status", 0)))

    def _answer(self, kind, command):
        """Calls beside runs. Reset, checkpoint and restore may run user code, so all is caught."""
        blobs = []
        try:
            if kind == "reset":
                self.session.reset()
                reply = {}
            elif kind == "variables":
                variables = trusted(__package__ + ".variables")
                reply = {"body": variables.describe(self.session.namespace, command["limit"])}
            elif kind == "checkpoint":
                checkpoint = trusted(__package__ + ".checkpoint")
                body, blobs = checkpoint.save(self.session.namespace)
                reply = {"body": body, "size": sum(len(blob) for blob in blobs)}
            elif kind == "restore":
                checkpoint = trusted(__package__ + ".checkpoint")
                data = b"".join(self.channel.receive_chunks())
                reply = {"body": checkpoint.load(self.session.namespace, data)}
            else:
                reply = {"error": "unknown call"}
        except BaseException as err:  # noqa: whatever __reduce__, __del__ and the like raise
            blobs = []
            reply = {"error": "%s: %.200s" % (type(err).__name__, failure.message_of(err))}
        if self.channel.foreign:
            os._exit(0)
        reply["t"] = "reply"
        cell.flush()
        self.channel.send(reply, blobs)
