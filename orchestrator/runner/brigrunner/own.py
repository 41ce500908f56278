"""Imports for the runner's own use, for which no file of the workspace can stand in.

User code finds modules of the workspace first, as a program finds those beside
it. What the runner needs beside user code is imported without that: a file named
traceback.py must neither run before the code that was asked for nor speak for it.
"""
import os
import sys


class Imports:
    def __init__(self):
        self._path = list(sys.path)  # before anything of the workspace is on it
        self._workspace = None
        self._held = {}

    @property
    def path(self):
        """Where modules are looked for, the workspace left out."""
        return self._path

    def rebase(self, path):
        """Takes note of where installed packages are, or will be, imported from."""
        self._path = list(path)

    def admit(self, workspace):
        """Puts the workspace first for user code. From the first run on, not before."""
        if self._workspace is None:
            self._workspace = workspace
            sys.path.insert(0, workspace)

    def __call__(self, name):
        """The module of that name, whatever user code has put in its place."""
        module = self._held.get(name)
        if module is None:
            module = self._held[name] = self._load(name)
        return module

    def _load(self, name):
        present = sys.modules.get(name)
        if present is not None and not self._theirs(present):
            return present
        theirs = sys.modules.pop(name, None)
        try:
            self.alone(__import__, name)
            return sys.modules[name]
        finally:
            if theirs is not None:
                sys.modules[name] = theirs

    def alone(self, function, *arguments):
        """Calls function while nothing of the workspace can be imported: the standard
        library imports as it goes, too."""
        path = sys.path[:]
        sys.path[:] = self._path
        try:
            return function(*arguments)
        finally:
            sys.path[:] = path

    def _theirs(self, module):
        file = getattr(module, "__file__", None)
        return self._workspace is not None and isinstance(file, str) and file.startswith(self._workspace + os.sep)


trusted = Imports()
