"""List and remove: walks through a tree that user code may change meanwhile.

A walk is a job. step does a bounded piece of it and says whether it could go on
at once, or None at the end: an interrupt never waits for a large directory.
"""
import bisect
import errno
import os
import stat

from . import place
from .files import MAX_DEPTH, Refused, parent, refusal, split

MAX_ENTRIES = 100000  # that list looks at; beyond, entries are only counted
MAX_BODY = 56 << 10   # of a list, to fit into one frame
AT_ONCE = 256         # entries in one step
MAX_ATTEMPTS = 16     # to empty one directory that is being filled


def _names(directory):
    """What is in an open directory, which is closed where that cannot be read."""
    try:
        return place.listdir(directory)
    except BaseException:
        place.close(directory)
        raise


class Listing:
    """A job that lists everything below a path, sorted, and passes the Pages to done, or an error.

    What user code closed to itself, and so to this process as well, is opened again
    for its owner: brig asks in order to carry the files, and one that it cannot see
    would be lost without a word.
    """

    def __init__(self, root, path, done):
        self._done = done
        self._entries, self._omitted = [], 0
        self._stack = []  # of open directories: (descriptor, prefix, names not looked at yet, its own entry)
        if not path:
            self._push(place.again(root), "", None)
            return
        parts = split(path)
        directory = parent(root, parts)
        try:
            info = place.status(parts[-1], directory)
            if stat.S_ISDIR(info.st_mode):
                self._push(place.enter(parts[-1], directory), path + "/", None)
            else:
                self._entries.append(_entry(path, info))
        finally:
            place.close(directory)

    def _push(self, directory, prefix, entry):
        self._stack.append((directory, prefix, _names(directory), entry))

    def step(self):
        try:
            for _ in range(AT_ONCE):
                if not self._stack:
                    self._entries.sort(key=lambda entry: entry["path"])
                    self._done(Pages(self._entries, self._omitted), None)
                    return None
                directory, prefix, names, entry = self._stack[-1]
                if names:
                    self._look(directory, prefix, names.pop(), entry)
                else:
                    place.close(directory)
                    self._stack.pop()
            return True
        except Refused as err:
            for entry in self._stack:
                place.close(entry[0])
            self._done(None, err)
            return None

    def _look(self, directory, prefix, name, above):
        try:
            info = self._stat(directory, name)
        except PermissionError as err:
            if above is None:  # of the top there is no entry that could say so
                raise refusal(err)
            above["closed"] = True
            return
        except OSError:
            return  # it has just gone
        entry = _entry(prefix + name, info)
        if len(self._entries) < MAX_ENTRIES:
            self._entries.append(entry)
        else:
            self._omitted += 1
        if stat.S_ISDIR(info.st_mode):
            try:
                if len(self._stack) >= MAX_DEPTH:
                    raise OSError(errno.ELOOP, "too deep")
                self._push(place.enter(name, directory), prefix + name + "/", entry)
            except OSError:
                entry["closed"] = True  # listed, but what is in it is not

    @staticmethod
    def _stat(directory, name):
        try:
            info = place.status(name, directory)
        except PermissionError:  # the directory was open before it was closed
            place.modify(directory, 0o700)
            info = place.status(name, directory)
        wanted = 0o700 if stat.S_ISDIR(info.st_mode) else 0o400 if stat.S_ISREG(info.st_mode) else 0
        if info.st_mode & wanted == wanted or info.st_uid != os.geteuid():
            return info
        try:
            place.allow(name, directory, wanted)
            return place.status(name, directory)
        except FileNotFoundError:
            raise
        except OSError:
            return info  # whoever reads it says what is wrong


class Pages:
    """What a walk found, answered page by page: one walk serves a whole list."""

    def __init__(self, entries, omitted):
        self._entries, self._omitted = entries, omitted
        self.last = None  # the path that the latest page ended with; None: nothing is left

    def page(self, after, limit):
        first = bisect.bisect_right(_Paths(self._entries), after)
        size = kept = 0
        for entry in self._entries[first:first + limit]:
            size += 192 + 2 * len(entry["path"].encode())  # generous: quotes and escapes
            if size > MAX_BODY:
                break
            kept += 1
        left = len(self._entries) - first - kept
        self.last = self._entries[first + kept - 1]["path"] if kept and left else None
        return {"entries": self._entries[first:first + kept], "omitted": self._omitted + left}


class _Paths:
    """The paths of sorted entries, for bisect."""

    def __init__(self, entries):
        self._entries = entries

    def __len__(self):
        return len(self._entries)

    def __getitem__(self, n):
        return self._entries[n]["path"]


def _entry(path, info):
    mode = info.st_mode
    kind = ("file" if stat.S_ISREG(mode) else "dir" if stat.S_ISDIR(mode)
            else "link" if stat.S_ISLNK(mode) else "other")
    return {"path": path.encode("utf-8", "surrogateescape").decode("utf-8", "replace"),
            "kind": kind, "size": info.st_size, "mtime_ns": info.st_mtime_ns, "ctime_ns": info.st_ctime_ns,
            "mode": mode & 0o777}


class Removal:
    """A job that removes a file, a link, or a directory with everything in it."""

    def __init__(self, root, path, done):
        parts = split(path)
        self._done = done
        self._stack = []  # of open directories: [descriptor, name in the one before, names left, attempts]
        self._count = 0
        self._top = parent(root, parts)
        try:
            self._take(self._top, parts[-1])
        except BaseException:
            place.close(self._top)
            raise

    def step(self):
        try:
            for _ in range(AT_ONCE):
                if not self._stack:
                    place.close(self._top)
                    self._done(None)
                    return None
                directory, name, names, _ = self._stack[-1]
                if names:
                    self._take(directory, names.pop())
                else:
                    self._finish(name)
            return True
        except (OSError, Refused) as err:
            for entry in self._stack:
                place.close(entry[0])
            place.close(self._top)
            self._done(err if isinstance(err, Refused) else refusal(err))
            return None

    def _take(self, directory, name):
        """Removes an entry, or makes it the next directory to be emptied."""
        try:
            info = place.status(name, directory)
            if not stat.S_ISDIR(info.st_mode):
                place.remove(name, directory)
            elif len(self._stack) < MAX_DEPTH:
                self._push(directory, name)
            else:  # too deep to keep every directory open: its turn comes again at the top
                self._count += 1
                moved = ".brig-removed-%d-%d" % (os.getpid(), self._count)
                place.rename(name, directory, moved, self._stack[0][0])
                self._stack[0][2].append(moved)
        except FileNotFoundError:
            if not self._stack:
                raise

    def _push(self, directory, name):
        try:
            below = place.enter(name, directory)
        except PermissionError:  # user code has closed it to itself, which includes us
            place.allow(name, directory, 0o700)
            below = place.enter(name, directory)
        self._stack.append([below, name, _names(below), 0])

    def _finish(self, name):
        entry = self._stack[-1]
        above = self._stack[-2][0] if len(self._stack) > 1 else self._top
        try:
            place.remove_dir(name, above)
        except FileNotFoundError:
            pass
        except OSError:
            entry[2], entry[3] = place.listdir(entry[0]), entry[3] + 1  # filled again meanwhile
            if not entry[2] or entry[3] > MAX_ATTEMPTS:
                raise
            return
        place.close(entry[0])
        self._stack.pop()
