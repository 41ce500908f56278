"""What programs ordinarily do. try_work(name, facts) does one thing and raises where it does not work.

facts says what this combination of layers has: unix (sockets by a path may be made), namespaces, shm (a directory for
shared memory, private or not).
"""
import os
import sys

WORK = {}


def work(f):
    WORK[f.__name__] = f
    return f


@work
def fork_pools(facts):
    import math
    import multiprocessing as mp
    from concurrent.futures import ProcessPoolExecutor
    with ProcessPoolExecutor(2) as p:
        assert list(p.map(math.factorial, range(5))) == [1, 1, 2, 6, 24]
    with mp.get_context("fork").Pool(2) as p:
        assert p.map(abs, [-1, -2]) == [1, 2]
    a, b = mp.Pipe()
    a.send("x")
    assert b.recv() == "x"
    q, lock, v = mp.Queue(), mp.Lock(), mp.Value("i", 0)
    with lock:
        q.put(v.value)
    assert q.get() == 0


@work
def spawn_pools(facts):
    """What starts anew must find its main program: a file, as in every script."""
    import subprocess
    for method in ["spawn"] + ["forkserver"] * facts["unix"]:
        with open("pool_%s.py" % method, "w") as f:
            f.write("import math, multiprocessing as mp\n"
                    "from concurrent.futures import ProcessPoolExecutor\n"
                    "if __name__ == '__main__':\n"
                    "    c = mp.get_context(%r)\n"
                    "    with ProcessPoolExecutor(2, mp_context=c) as p: print(list(p.map(math.factorial, range(4))))\n"
                    "    with c.Pool(2) as p: print(p.map(abs, [-1, -2]))\n" % method)
        p = subprocess.run([sys.executable, "pool_%s.py" % method], capture_output=True, text=True, timeout=50)
        assert p.stdout == "[1, 1, 2, 6]\n[1, 2]\n", (method, p.stdout, p.stderr)
    if not facts["unix"]:
        # What cannot be had says so at once, as what it is.
        import multiprocessing as mp
        try:
            mp.get_context("forkserver").Pool(1)
        except PermissionError:
            pass
        else:
            raise AssertionError("a fork server without its socket")


@work
def shared_memory(facts):
    from multiprocessing import shared_memory
    s = shared_memory.SharedMemory(create=True, size=1000)
    s.buf[0] = 7
    again = shared_memory.SharedMemory(s.name)
    assert again.buf[0] == 7
    again.close()
    s.close()
    s.unlink()


@work
def threads(facts):
    import threading
    from concurrent.futures import ThreadPoolExecutor
    with ThreadPoolExecutor(16) as p:
        assert sum(p.map(lambda x: x * x, range(100))) == 328350
    ts = [threading.Thread(target=lambda: None) for _ in range(50)]
    [t.start() for t in ts]
    [t.join() for t in ts]


@work
def asynchronous(facts):
    import asyncio

    async def main():
        p = await asyncio.create_subprocess_exec(sys.executable, "-c", "print('sub')", stdout=-1)
        out, _ = await p.communicate()
        assert out == b"sub\n"
        p = await asyncio.create_subprocess_shell("cat; exit 3", stdin=-1, stdout=-1)
        assert await p.communicate(b"in") == (b"in", None) and p.returncode == 3
        loop = asyncio.get_running_loop()
        assert await loop.run_in_executor(None, lambda: 5) == 5
        loop.call_soon_threadsafe(lambda: None)
        async with asyncio.timeout(5) if hasattr(asyncio, "timeout") else asyncio.Lock():
            await asyncio.gather(*(asyncio.sleep(0.001) for _ in range(50)))
    asyncio.run(main())


@work
def pipelines(facts):
    import subprocess
    a = subprocess.Popen(["printf", "b\\na\\n"], stdout=-1)
    b = subprocess.run(["sort"], stdin=a.stdout, capture_output=True, text=True, check=True)
    a.stdout.close()
    assert a.wait() == 0 and b.stdout == "a\nb\n"
    assert subprocess.run("echo shell | tr a-z A-Z", shell=True, capture_output=True, text=True).stdout == "SHELL\n"
    assert subprocess.run(["true"], start_new_session=True).returncode == 0
    assert subprocess.run(["bash", "-c", "cat <(echo x)"], capture_output=True, text=True).stdout == "x\n"
    try:
        subprocess.run(["sleep", "9"], timeout=0.1)
    except subprocess.TimeoutExpired:
        pass


@work
def files(facts):
    import filecmp, glob, pathlib, shutil, tarfile, tempfile, zipfile
    with tempfile.NamedTemporaryFile() as f, tempfile.TemporaryFile() as g, tempfile.SpooledTemporaryFile() as h:
        [x.write(b"x") for x in (f, g, h)]
    with tempfile.TemporaryDirectory() as d:
        pathlib.Path(d, "a").write_text("a")
        os.chmod(d + "/a", 0o755)
        os.utime(d + "/a", (1e9, 1e9))
        os.symlink("a", d + "/link")
        os.link(d + "/a", d + "/hard")
        shutil.copytree(d, "copy", symlinks=True)
        shutil.copy2(d + "/a", "b")
        shutil.move(d + "/hard", "moved")
        os.mkdir(d + "/sub")
        os.rename(d + "/a", d + "/sub/a")
    assert os.stat("b").st_mtime == 1e9 and os.stat("copy/a").st_mode & 0o777 == 0o755 and os.readlink("copy/link") == "a"
    assert filecmp.cmp("b", "moved") and sorted(glob.glob("copy/*")) == ["copy/a", "copy/hard", "copy/link"]
    with zipfile.ZipFile("z.zip", "w") as z:
        z.write("b")
    zipfile.ZipFile("z.zip").extractall("unzipped")
    with tarfile.open("t.tgz", "w:gz") as f:
        f.add("copy")
    tarfile.open("t.tgz").extractall("untarred")
    os.mkfifo("fifo")
    os.replace("b", "e")
    os.makedirs("x/y/z")
    shutil.rmtree("x")
    assert shutil.disk_usage(".").total > 0 and os.statvfs(".").f_bavail > 0
    name = "Ünï-漢字-🦀 \n'\""
    pathlib.Path(name).write_text("ü", encoding="utf-8")
    assert name in os.listdir(".") and pathlib.Path(name).read_text() == "ü"


@work
def databases(facts):
    import dbm, shelve, sqlite3
    db = sqlite3.connect("x.db")
    assert db.execute("pragma journal_mode=wal").fetchone() == ("wal",)
    db.execute("create table t(a)")
    db.executemany("insert into t values(?)", [(n,) for n in range(1000)])
    db.commit()
    assert sqlite3.connect("x.db").execute("select count(*) from t").fetchone() == (1000,)
    db.execute("create temp table big as select a.a from t a, t b")
    with shelve.open("shelf") as s:
        s["k"] = [1]
    with dbm.open("dbm", "c") as d:
        d["k"] = "v"


@work
def system(facts):
    import ctypes, getpass, locale, mmap, platform, pwd, grp, random, resource, select, signal, socket, ssl, subprocess, time, uuid, zoneinfo
    platform.platform(), uuid.uuid4(), uuid.uuid1(), ssl.create_default_context(), os.uname(), random.SystemRandom().random()
    assert os.cpu_count() >= 1 and len(os.sched_getaffinity(0)) >= 1 and len(os.getloadavg()) == 3
    os.sched_setaffinity(0, os.sched_getaffinity(0))
    assert pwd.getpwuid(0).pw_name == "root" and grp.getgrgid(0).gr_name == "root"
    for f in (os.getlogin, getpass.getuser):
        try:
            f()
        except (OSError, KeyError, ImportError):
            pass  # no terminal, and a user that no file names: the same outside
    assert zoneinfo.ZoneInfo("Europe/Berlin").utcoffset(__import__("datetime").datetime(2024, 7, 1)).seconds == 7200
    os.environ["TZ"] = "Asia/Tokyo"
    time.tzset()
    assert time.localtime(0).tm_hour == 9
    del os.environ["TZ"]
    time.tzset()
    assert locale.setlocale(locale.LC_ALL, "C.UTF-8") and locale.getpreferredencoding() == "UTF-8"
    fired = []
    signal.signal(signal.SIGUSR1, lambda *_: fired.append(1))
    os.kill(os.getpid(), signal.SIGUSR1)
    signal.setitimer(signal.ITIMER_REAL, 0)
    assert fired
    r, w = os.pipe()
    e = select.epoll()
    e.register(r, select.EPOLLIN)
    os.write(w, b"x")
    assert e.poll(1) and select.select([r], [], [], 1)[0] and select.poll()
    m = mmap.mmap(-1, 1 << 20)
    m[:1] = b"x"
    with open("mapped", "wb+") as f:
        f.truncate(4096)
        with mmap.mmap(f.fileno(), 0) as m:
            m[:2] = b"ok"
    assert open("mapped", "rb").read(2) == b"ok"
    assert ctypes.CDLL(None).getpid() == os.getpid() and ctypes.CFUNCTYPE(ctypes.c_int)(lambda: 3)() == 3
    a, b = socket.socketpair()
    a.send(b"x")
    assert b.recv(1) == b"x"
    assert os.path.exists("/dev/fd/%d" % w) and open("/dev/fd/%d" % r, "rb").read(1) == b"x"
    for name, mode in (("/dev/null", "wb"), ("/dev/zero", "rb"), ("/dev/urandom", "rb"), ("/dev/full", "rb")):
        with open(name, mode) as f:
            f.write(b"x") if mode == "wb" else f.read(8)
    subprocess.run(["sh", "-c", "echo x > /dev/stdout; echo x > /dev/stderr; cat /dev/stdin"], stdin=subprocess.DEVNULL, check=True, capture_output=True)
    assert int(open("/proc/self/stat").read().split()[0]) == os.getpid() and "MemTotal" in open("/proc/meminfo").read()
    assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] > 0 and os.nice(0) == os.getpriority(os.PRIO_PROCESS, 0)
    os.waitpid(os.spawnvp(os.P_NOWAIT, "true", ["true"]), 0)
    assert os.popen("echo x").read() == "x\n"


@work
def network_errors(facts):
    """What is refused is refused at once, as an error that programs know."""
    import socket, time, urllib.request
    begin = time.monotonic()
    for f in (lambda: socket.create_connection(("127.0.0.1", 9)), lambda: urllib.request.urlopen("http://example.invalid/"),
              lambda: socket.getaddrinfo("example.invalid", 80)):
        try:
            f()
            raise AssertionError("reached")
        except OSError:
            pass
    assert time.monotonic() - begin < 5


@work
def git(facts):
    """In a workspace that is a repository, also where its owner is another name for this user."""
    import subprocess
    run = lambda *a: subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@b", *a], capture_output=True, text=True, cwd="repository")
    os.mkdir("repository")
    for a in (["init", "-q"], ["add", "-A"], ["commit", "-q", "--allow-empty", "-m", "x"], ["status", "--porcelain"], ["log", "--oneline"], ["diff"], ["gc", "-q"]):
        p = run(*a)
        assert p.returncode == 0, (a, p.stderr)
    open("repository/new", "w").close()
    assert run("status", "--porcelain").stdout == "?? new\n"


@work
def venv(facts):
    import subprocess, venv
    venv.create("environment", with_pip=False, symlinks=True)
    p = subprocess.run(["environment/bin/python", "-c", "import sys; print(sys.prefix)"], capture_output=True, text=True)
    assert p.stdout.strip().endswith("/environment"), p.stderr


@work
def data(facts):
    import numpy as np
    import pandas as pd
    f = pd.DataFrame({"a": np.arange(1000), "b": ["x"] * 1000})
    f.to_csv("f.csv", index=False)
    assert pd.read_csv("f.csv").equals(f) and np.linalg.det(np.eye(50) @ np.eye(50)) == 1.0
    try:
        import pyarrow  # noqa: F401
    except ImportError:
        pass
    else:
        f.to_parquet("f.parquet")
        assert pd.read_parquet("f.parquet").equals(f)
    np.save("a.npy", np.zeros(10))
    assert np.load("a.npy", mmap_mode="r").sum() == 0
    f.to_json("f.json"), f.to_pickle("f.pickle")
    assert str(pd.Timestamp("2024-07-01", tz="Europe/Berlin").utcoffset()) == "2:00:00"


@work
def plots(facts):
    """With a cold cache: the list of fonts is made now."""
    import matplotlib
    matplotlib.use("agg")
    import matplotlib.pyplot as plt
    plt.plot([1, 2], [3, 4])
    plt.title("Tïtle $x^2$")
    plt.savefig("p.png")
    plt.savefig("p.svg")
    assert open("p.png", "rb").read(4) == b"\x89PNG" and os.path.isdir(os.environ["MPLCONFIGDIR"])


IMPORTS = r'''
import importlib, json, os, sys, warnings
warnings.simplefilter("ignore")
left = {"antigravity", "this", "idlelib", "turtledemo", "lib2to3"}
got = {}
for name in sorted(sys.stdlib_module_names - left):
    if name.startswith("__"):
        continue
    try:
        importlib.import_module(name)
        got[name] = "ok"
    except BaseException as e:
        got[name] = type(e).__name__
sys.__stdout__.write("imports " + json.dumps(got) + "\n")
'''


def imports():
    """Every module of the standard library, in an interpreter of its own: name -> ok or the kind of error."""
    import subprocess
    p = subprocess.run([sys.executable, "-I", "-c", IMPORTS], capture_output=True, text=True)
    assert p.returncode == 0, p.stderr
    return p.stdout[p.stdout.index("imports ") + 8:]


def try_work(name, facts):
    import tempfile
    os.chdir(tempfile.mkdtemp(dir=facts["dir"]))
    try:
        WORK[name](facts)
    finally:
        os.chdir(facts["dir"])
