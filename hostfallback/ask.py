"""Tells what a confined run of this interpreter must be able to read. JSON on stdout."""
import json
import os
import platform
import sys
import sysconfig

runner = sys.argv[1]
sys.dont_write_bytecode = False
loaded = []
if sys.version_info >= (3, 8):
    # The runner is compiled here, because the confined interpreter cannot write beside it.
    try:
        import compileall

        compileall.compile_dir(runner, quiet=2)
    except Exception:  # slower, not wrong
        pass
    for name in ("ssl", "sqlite3", "ctypes", "lzma", "bz2", "zlib", "readline", "uuid", "decimal"):
        try:
            __import__(name)
        except Exception:  # this build does without it
            pass
    try:
        with open("/proc/self/maps") as maps:
            loaded = sorted({line.split(None, 5)[5].strip() for line in maps if line.count("/")})
    except Exception:
        pass
    if sys.platform == "darwin":
        # There is no such file there, but the loader tells what it has loaded.
        try:
            import ctypes

            loader = ctypes.CDLL(None)
            loader._dyld_get_image_name.restype = ctypes.c_char_p
            names = [loader._dyld_get_image_name(i) for i in range(loader._dyld_image_count())]
            loaded = sorted({os.fsdecode(name) for name in names if name})
        except Exception:
            pass
paths = sysconfig.get_paths()
try:
    import site

    packages = site.getsitepackages()
except Exception:  # versions before 3.4, and those that were built without it
    packages = []
json.dump(
    {
        "version": list(sys.version_info[:3]),
        "implementation": platform.python_implementation(),
        "executable": sys.executable,
        "prefixes": [sys.prefix, sys.base_prefix, sys.exec_prefix, sys.base_exec_prefix],
        # Where its build looks for modules, and where this one does: also what .pth files name.
        "own": [paths[k] for k in ("stdlib", "platstdlib", "purelib", "platlib") if paths.get(k)] + packages,
        "path": [p for p in sys.path if p and os.path.exists(p)],
        "loaded": [p for p in loaded if p.startswith("/") and os.path.isfile(p)],
    },
    sys.stdout,
)
