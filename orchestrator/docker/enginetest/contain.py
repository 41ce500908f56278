"""Builds a container's file system inside fresh namespaces and becomes its first process.

Test support of package enginetest: python3 -I -S -c <this> <plan as JSON>.
"""
import ctypes
import json
import os
import resource
import socket
import sys

RDONLY, NOSUID, NODEV, NOEXEC, REMOUNT, BIND, REC, PRIVATE = 1, 2, 4, 8, 32, 4096, 16384, 1 << 18
FLAGS = {"ro": RDONLY, "nosuid": NOSUID, "nodev": NODEV, "noexec": NOEXEC}
libc = ctypes.CDLL(None, use_errno=True)


def mount(source, target, kind="", flags=0, data=""):
    if libc.mount(source.encode(), target.encode(), kind.encode(), ctypes.c_ulong(flags), data.encode() or None):
        err = ctypes.get_errno()
        raise OSError(err, "mount %s on %s: %s" % (source, target, os.strerror(err)))


def bind(source, target, readonly=True):
    os.makedirs(target, exist_ok=True)
    mount(source, target, flags=BIND | REC)
    if readonly:
        mount("none", target, flags=BIND | REMOUNT | RDONLY)


def tmpfs(target, options, user):
    os.makedirs(target, exist_ok=True)
    flags, data = 0, []
    for option in filter(None, options.split(",")):
        if option in FLAGS:
            flags |= FLAGS[option]
        elif option == "U":  # Podman's word for: owned by who runs the container
            data += ["uid=" + user.partition(":")[0], "gid=" + user.partition(":")[2]]
        elif option != "rw":
            data.append(option)
    mount("tmpfs", target, "tmpfs", flags, ",".join(data))


def main():
    plan = json.loads(sys.argv[1])
    root = plan["root"]
    mount("none", "/", flags=REC | PRIVATE)
    mount("tmpfs", root, "tmpfs", NODEV, "mode=0755")
    for name in ("usr", "bin", "sbin", "lib", "lib64", "etc"):
        if os.path.islink("/" + name):
            os.symlink(os.readlink("/" + name), root + "/" + name)
        elif os.path.isdir("/" + name):
            bind("/" + name, root + "/" + name)
    if plan["runner"] and os.path.isdir(plan["runner"]):
        bind(plan["runner"], root + "/opt/brig")
    bind("/dev", root + "/dev", readonly=False)
    os.makedirs(root + "/dev/shm", exist_ok=True)
    mount("tmpfs", root + "/dev/shm", "tmpfs", NOSUID | NODEV | NOEXEC, "mode=1777,size=16m")
    os.makedirs(root + "/proc")
    mount("proc", root + "/proc", "proc", NOSUID | NODEV | NOEXEC)
    for target, options in (plan["tmpfs"] or {}).items():
        tmpfs(root + target, options, plan["user"])
    for m in plan["mounts"] or []:
        if m["Type"] == "bind":
            bind(m["Source"], root + m["Target"], m["ReadOnly"])
        else:
            tmpfs(root + m["Target"], "mode=1777", plan["user"])
    if plan["readonly"]:
        mount("none", root, flags=BIND | REMOUNT | RDONLY)
    os.chdir(root)
    os.chroot(".")
    if plan["hostname"]:
        socket.sethostname(plan["hostname"])
    for limit in plan["limits"] or []:
        number = getattr(resource, "RLIMIT_" + limit["Name"].upper())
        resource.setrlimit(number, (limit["Soft"], limit["Hard"]))
    for capability in range(64):
        libc.prctl(24, capability, 0, 0, 0)  # PR_CAPBSET_DROP
    uid, _, gid = (plan["user"] or "0").partition(":")
    os.setgroups([])
    os.setgid(int(gid or uid))
    os.setuid(int(uid))
    if plan["no_new_privileges"]:
        libc.prctl(38, 1, 0, 0, 0)  # PR_SET_NO_NEW_PRIVS
    os.chdir(plan["directory"] or "/")
    env = dict(pair.split("=", 1) for pair in plan["env"])
    for directory in env["PATH"].split(":"):  # not execvpe, which imports what is not here any more
        try:
            os.execve(os.path.join(directory, plan["argv"][0]), plan["argv"], env)
        except FileNotFoundError:
            pass
    sys.exit(127)


main()
