# Makes a user's own image ready for the runner, which lies beside this file. It is
# run once, as root, by the image's own interpreter, without a shell or a network. Its
# argument names the file that it leaves beside the runner when all is done: the build
# goes on only where that is, because a program may end without an error and be no Python.
# Written for every Python 3, so that one that is too old can be told so.
import os
import sys

sys.dont_write_bytecode = True  # compile_runner makes the byte code, of another kind

# What the runner needs at once or later; a Python that was made small may lack any of it.
MODULES = (
    "ast", "asyncio", "builtins", "codecs", "compileall", "contextlib", "errno", "fcntl", "importlib", "inspect", "io",
    "json", "linecache", "pickle", "py_compile", "random", "select", "signal", "stat", "threading", "time", "tokenize",
    "traceback", "types", "platform", "warnings",
)

HERE = os.path.dirname(os.path.abspath(__file__))
SANDBOX = 65532


def refuse(word, detail):
    sys.stderr.write("brig-bake: %s: %s\n" % (word, detail))
    sys.stderr.flush()
    os._exit(1)


def check():
    if sys.version_info < (3, 8):
        refuse("python-old", "Python %s" % sys.version.split()[0])
    sys.path.insert(0, HERE)
    missing = []
    for name in MODULES + ("brigrunner.supervisor", "brigrunner.worker"):
        try:
            __import__(name)
        except ImportError as err:
            lacks = getattr(err, "name", None) or name
            missing.append(lacks if str(err).startswith("No module") else "%s: %s" % (name, err))
    if missing:
        refuse("python-incomplete", "there is no " + ", ".join(sorted(set(missing))))


def compile_runner():
    import compileall
    import py_compile
    # The image is named after its content, so nothing ever has to be compared with the source.
    compileall.compile_dir(HERE, quiet=1, force=True, invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH)
    for directory, _, files in os.walk(HERE):
        os.chmod(directory, 0o555)
        for name in files:
            os.chmod(os.path.join(directory, name), 0o444)


def mount_points():
    """They exist because the root is read-only later."""
    for path in ("/workspace", "/scratch", "/tmp"):
        if os.path.islink(path):
            refuse("paths", "%s is a symbolic link, where brig needs a directory" % path)
        if os.path.exists(path) and not os.path.isdir(path):
            refuse("paths", "%s is a file, where brig needs a directory" % path)
        if not os.path.isdir(path):
            os.mkdir(path)
    for path in ("/workspace", "/scratch"):
        os.chown(path, SANDBOX, SANDBOX)
        os.chmod(path, 0o700)


def account():
    for path, line in (
        ("/etc/group", "sandbox:x:%d:\n" % SANDBOX),
        ("/etc/passwd", "sandbox:x:%d:%d::/scratch:/sbin/nologin\n" % (SANDBOX, SANDBOX)),
    ):
        try:
            with open(path, encoding="utf-8", errors="surrogateescape") as f:
                text = f.read()
        except FileNotFoundError:
            text = ""
        if any(entry.split(":")[2:3] == [str(SANDBOX)] for entry in text.splitlines()):
            continue
        with open(path, "a", encoding="utf-8") as f:
            f.write(("\n" if text and not text.endswith("\n") else "") + line)


def prove():
    import platform
    with open(os.path.join(HERE, sys.argv[1]), "w", encoding="utf-8") as f:
        f.write("%s %s\n" % (platform.python_implementation(), sys.version.split()[0]))


def main():
    check()
    os.remove(os.path.abspath(__file__))
    try:
        mount_points()
        account()
        prove()
        compile_runner()
    except OSError as err:
        refuse("paths", str(err))


main()
