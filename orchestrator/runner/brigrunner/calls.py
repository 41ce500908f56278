"""Answers to brig's calls: files and facts by the supervisor itself, the rest by the worker."""
from . import files, frames, ready, text, walks
from .files import Refused

MAX_CALLS = 32

_WORKER_OPS = ("variables", "reset", "checkpoint", "restore")


class Calls:
    def __init__(self, sup):
        self._sup = sup
        self.asking = None  # the id of the call that the worker is busy with
        self._input = None   # restore's input, on its way to the worker
        self._listed = None  # datasets that the worker has still to be told of
        self._pages = None  # of a list that is not read to its end: (path, walks.Pages)
        self._open = set()
        self._era = 0       # of the conversation: names begin anew with each

    def call(self, message):
        name, op, args = message.get("id"), message.get("op"), message.get("args") or {}
        if (not isinstance(name, str) or not isinstance(op, str) or not isinstance(args, dict)
                or (self._era, name) in self._open):
            raise frames.ProtocolError("call %.80r" % (name,))
        name = self._era, name
        stream = message.get("in") or 0
        if stream and op not in ("put", "restore", "tables"):
            self._sup.streams.accept(stream, _Ignored()).refuse("no input is taken")
            stream = 0
        try:
            if len(self._open) >= MAX_CALLS:
                raise Refused("busy", "too many calls at once")
            self._open.add(name)
            self._answer(name, op, args, stream)
        except Refused as err:
            self._refuse(name, stream, err)
        except OSError as err:
            self._refuse(name, stream, files.refusal(err))

    def _refuse(self, name, stream, err):
        if stream:
            self._sup.streams.accept(stream, _Ignored()).refuse(err.code)
        self.reply(name, error=err)

    def forget(self):
        """Another conversation begins: nobody waits for the answers of this one."""
        self._era += 1
        self._open = set()
        self._pages = None

    def reply(self, name, body=None, out=0, error=None):
        if name[0] != self._era:
            return
        self._open.discard(name)
        message = {"type": "reply", "id": name[1], "out": out}
        if error is not None:
            message["error"] = {"code": error.code, "message": str(error)[:1024]}
        elif body is not None:
            message["body"] = body
        self._sup.control(message)

    def _answer(self, name, op, args, stream):
        sup = self._sup
        path, limit = args.get("path", ""), args.get("limit", 0)
        if not isinstance(path, str) or type(limit) is not int or limit < 0:
            raise frames.ProtocolError("arguments of %s" % op)
        if op == "ping":
            self.reply(name, {})
        elif op == "interrupt":
            sup.runs.interrupt(args.get("run"), args.get("level", "soft"), args.get("sweep") is True)
            self.reply(name)
        elif op == "bind":
            self._bind(ready.claim(args))
            self.reply(name)
        elif op == "usage":
            body = sup.tree.usage()
            body["oom_kills"] = sup.oom.count()
            self.reply(name, body)
        elif op == "list":
            after = args.get("after", "")
            if not isinstance(after, str):
                raise frames.ProtocolError("arguments of list")
            self._list(name, path, limit or 200, after)
        elif op == "remove":
            sup.add_job(walks.Removal(sup.workspace, path, lambda error: self.reply(name, error=error)))
        elif op == "get":
            fd, size, mode = files.open_regular(sup.workspace, path)
            out = sup.streams.open()
            self.reply(name, {"size": size, "mode": mode}, out.number)
            sup.add_job(files.Get(fd, size, out, sup.congested))
        elif op == "put":
            if not stream:
                raise Refused("invalid", "put needs input")
            put = files.Put(sup.workspace, path, args.get("mode", 0), lambda error: self.reply(name, error=error))
            put.stream = sup.streams.accept(stream, put)
        elif op == "tables":
            if not stream:
                raise Refused("invalid", "tables needs input")
            listed = _Whole(lambda data, error: self._register(name, data, error))
            listed.stream = sup.streams.accept(stream, listed)
        elif op in _WORKER_OPS:
            self._ask(name, op, limit, stream)
        else:
            raise Refused("unsupported", "unknown op")

    def _list(self, name, path, limit, after):
        pages, self._pages = self._pages, None
        if after and pages is not None and pages[0] == path and pages[1].last == after:
            self._page(name, path, pages[1], after, limit)
            return

        def done(found, error):
            if error is not None:
                self.reply(name, error=error)
            else:
                self._page(name, path, found, after, limit)

        self._sup.add_job(walks.Listing(self._sup.workspace, path, done))

    def _page(self, name, path, found, after, limit):
        self.reply(name, found.page(after, limit))
        self._pages = None if found.last is None else (path, found)

    def _bind(self, wanted):
        sup = self._sup
        if sup.runs.any():
            raise Refused("invalid", "a run came before")
        sup.hello.update(wanted)
        if sup.worker is not None:
            sup.worker.send(dict(wanted, t="bind"))

    def _register(self, name, data, error):
        """The interpreter takes the datasets up before whatever it is asked next, and so
        does each that comes in its place."""
        sup = self._sup
        if error is None:
            try:
                listed = ready.datasets(text.loads(data))
            except ValueError:
                listed = None
            if listed is None:
                error = Refused("invalid", "not a list of datasets")
            else:
                sup.hello["tables"] = self._listed = listed
                self._pass_on()
        self.reply(name, error=error)

    def _pass_on(self):
        """Tells the worker of the datasets, but not within the input of another command."""
        worker = self._sup.worker
        if self._listed is not None and self._input is None and worker is not None:
            worker.send({"t": "tables", "listed": self._listed})
            self._listed = None

    # Calls that need the interpreter.

    def _ask(self, name, op, limit, stream):
        sup = self._sup
        if sup.runs.current is not None or self.asking is not None:
            raise Refused("busy", "the interpreter is running something")
        if sup.runs.over or not sup.ensure_worker():
            raise Refused("failed", "there is no interpreter any more")
        if (op == "restore") != bool(stream):
            raise Refused("invalid", "restore, and nothing else, takes input")
        self.asking = name
        sup.worker.send({"t": op, "limit": limit or 200})
        if stream:
            self._input = _Input(sup.worker)
            self._input.stream = sup.streams.accept(stream, self._input)

    def answered(self, message):
        """The worker's answer; returns the parts whose bytes follow."""
        name, self.asking, self._input = self.asking, None, None
        self._pass_on()
        error, size = message.get("error"), message.get("size", 0)
        if name is None:
            return []
        if name[0] != self._era and error is None and type(size) is int and size > 0:
            return [(None, size)]
        if error is not None or type(size) is not int or size < 0:
            self.reply(name, error=Refused("failed", str(error)))
            return []
        out = self._sup.streams.open() if size else None
        self.reply(name, message.get("body"), out.number if out else 0)
        return [(out, size)] if out else []

    def flushed(self):
        """The worker has taken more of its commands."""
        if self._input is not None:
            self._input.flushed()

    def died(self, how):
        """The worker has ended. Whoever comes in its place is told of the datasets first."""
        self._listed = None
        if self._input is not None:
            self._input.stream.refuse("the interpreter has ended")
            self._input = None
        if self.asking is not None:
            name, self.asking = self.asking, None
            self.reply(name, error=Refused("failed", "the interpreter " + how))


class _Ignored:
    """A sink for input that nobody wants."""

    def data(self, data):
        pass

    def end(self):
        pass

    reset = end


class _Whole:
    """The sink that keeps a call's input until it is whole. done(data, error) is called once."""

    MOST = 1 << 20

    def __init__(self, done):
        self._done = done
        self._data = bytearray()
        self.stream = None

    def data(self, data):
        self._data += data
        if len(self._data) > self.MOST:
            self.stream.refuse("too large")
            self._done(None, Refused("too-large", "the input has more than %d bytes" % self.MOST))
        else:
            self.stream.release(len(data))

    def end(self):
        self._done(self._data, None)

    def reset(self):
        self._done(None, Refused("failed", "the input was given up"))


class _Input:
    """The sink that passes a call's input on to the worker, as fast as that reads."""

    def __init__(self, worker):
        self._worker = worker
        self._owed = 0
        self.stream = None

    def data(self, data):
        self._owed += len(data)
        self._worker.chunk(data)
        self.flushed()

    def flushed(self):
        if self._owed and not self._worker.backlog:
            self.stream.release(self._owed)
            self._owed = 0

    def end(self):
        self._worker.chunk(b"")

    def reset(self):
        self._worker.abort()
