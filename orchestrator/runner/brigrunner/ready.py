"""From hello to ready: checks what brig asks for, and says what this runner is."""
import os
import sys

from . import VERSION, frames, own, place, resume
from .mode import PRIVATE

_hashes = {}  # by directory; a zygote looks once for all its sessions
_STRINGS = ("workspace", "scratch")


def check(message):
    """The hello message with its types checked and its defaults filled in."""
    hello = {}
    for name in _STRINGS:
        hello[name] = message.get(name) or ""
        if not isinstance(hello[name], str) or "\0" in hello[name]:
            raise frames.ProtocolError("hello without a good %s" % name)
    bounds = message.get("bounds")
    if not isinstance(bounds, dict) or not all(
            type(bounds.get(name)) is int and bounds[name] >= 0 for name in ("kept", "logged", "display")):
        raise frames.ProtocolError("hello without good bounds")
    for name in ("workspace", "scratch"):
        if not os.path.isabs(hello[name]):
            raise frames.ProtocolError("%s is not an absolute path" % name)
    hello["bounds"] = bounds
    lease, secret = message.get("lease_ns") or 0, message.get("resume") or ""
    if (type(lease) is not int or lease < 0 or not isinstance(secret, str)
            or bool(lease) != (len(secret) == 64 and secret.isascii())):
        raise frames.ProtocolError("hello without a good lease")
    hello["lease"], hello["secret"] = lease, secret
    hello["silence"] = message.get("silence_ns") or 0
    if type(hello["silence"]) is not int or hello["silence"] < 0:
        raise frames.ProtocolError("hello without a good silence")
    hello.update(claim({}))
    hello["tables"] = []
    return hello


def claim(args):
    """What a session brings, with its types checked."""
    wanted = {}
    for name in ("timezone", "locale"):
        wanted[name] = args.get(name) or ""
        if not isinstance(wanted[name], str) or "\0" in wanted[name]:
            raise frames.ProtocolError("bind without a good %s" % name)
    return wanted


def datasets(value):
    """A list of datasets with its types checked; None if it is none."""
    if not isinstance(value, list) or len(value) > 1000:
        return None
    listed, names = [], set()
    for given in value:
        if not isinstance(given, dict):
            return None
        entry = {name: given.get(name) or "" for name in ("name", "path", "format", "table")}
        if not all(isinstance(text, str) and "\0" not in text for text in entry.values()):
            return None
        entry["version"], entry["active"] = given.get("version") or 0, given.get("active") is True
        if type(entry["version"]) is not int or not entry["name"] or entry["name"] in names:
            return None
        names.add(entry["name"])
        listed.append(entry)
    return listed


def prepare(directory, hello):
    """Opens the workspace and makes the directories of the scratch space."""
    workspace = place.open_dir(hello["workspace"])
    for name in ("home", "tmp", "cache", "matplotlib"):
        try:
            os.mkdir(hello["scratch"] + "/" + name, 0o700)
        except FileExistsError:
            pass
    _seed(directory + "/matplotlib", hello["scratch"] + "/matplotlib")
    return workspace


def _seed(source, target):
    """Copies matplotlib's font list where an image brings one: a first figure would
    spend a quarter of a second on making it."""
    try:
        names = [name for name in os.listdir(source) if name.endswith(".json")]
    except OSError:
        return  # only the image with the data stack has it
    for name in names:
        try:
            with open(source + "/" + name, "rb") as content, open(target + "/" + name, "xb") as copy:
                copy.write(content.read())
        except OSError:
            pass  # it is made anew, then


def report(directory, hello, dumpable, resumable, observation=None):
    """The answer to hello. An observation of these very directories may have begun before."""
    from . import observe
    begun = observation is not None and observation.of == (hello["workspace"], hello["scratch"])
    # In the background, while the rest is read.
    attempts = None if begun else observe.begin(hello["workspace"], hello["scratch"])
    runner, packages = source_hash(directory), observe.packages(own.trusted.path)
    if begun:
        observed = observation.report()
    else:
        observed = observe.observed(hello["workspace"], hello["scratch"], dumpable, attempts)
    observed["bounds"] = {name: hello["bounds"][name] for name in ("kept", "logged", "display")}
    return {
        "type": "ready", "version": VERSION, "runner": runner,
        "python": "%d.%d.%d" % sys.version_info[:3], "implementation": sys.implementation.name,
        "executable": sys.executable or "", "packages": packages,
        "resumable": resumable,
        "observed": observed,
    }


def source_hash(directory):
    """SHA-256 over every file's path, NUL, content, NUL, in the order of the paths."""
    if directory not in _hashes:
        _hashes[directory] = _hash(directory)
    return _hashes[directory]


def _hash(directory):
    names = ["brigrunner/" + name for name in os.listdir(directory + "/brigrunner") if name.endswith(".py")]
    digest = resume.sha256_type()()
    for name in sorted(names + ["start.py"]):
        fd = os.open(directory + "/" + name, os.O_RDONLY | PRIVATE)
        # No room for more than there is: that would be mapped and given back each time.
        digest.update(name.encode() + b"\0" + os.read(fd, os.fstat(fd).st_size) + b"\0")
        os.close(fd)
    return digest.hexdigest()
