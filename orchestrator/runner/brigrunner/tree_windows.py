"""The processes below the runner on Windows: a job object of its own in brig's job.

Whatever the worker starts is in it and cannot leave, so the end of the job's
processes is the end of everything below.
"""
import ctypes
import msvcrt
import os
import sys
import time

import _winapi

from .native import SIGKILL

CREATE_SUSPENDED, NEW_GROUP = 0x4, 0x200
KILL_ON_CLOSE, DIE_ON_EXCEPTION = 0x2000, 0x400
ACCOUNTING, PROCESS_IDS, EXTENDED = 1, 3, 9
CTRL_BREAK = 1
KILLED = 0x42524947  # the exit status of what is ended here
MOST = 4096          # processes that are looked at

# Exit statuses of processes that broke, as the signals that the same is elsewhere.
_SIGNALS = {KILLED: 9, 0xC0000005: 11, 0xC00000FD: 11, 0xC000001D: 4, 0xC0000094: 8, 0xC000013A: 2,
            0xC0000409: 6, 0xC0000374: 6}

_kernel = ctypes.WinDLL("kernel32", use_last_error=True)
_handle, _number = ctypes.c_void_p, ctypes.c_ulong
for _name, _result, _arguments in (
        ("CreateJobObjectW", _handle, (ctypes.c_void_p, ctypes.c_wchar_p)),
        ("AssignProcessToJobObject", ctypes.c_int, (_handle, _handle)),
        ("TerminateJobObject", ctypes.c_int, (_handle, ctypes.c_uint)),
        ("SetInformationJobObject", ctypes.c_int, (_handle, ctypes.c_int, ctypes.c_void_p, _number)),
        ("QueryInformationJobObject", ctypes.c_int, (_handle, ctypes.c_int, ctypes.c_void_p, _number, ctypes.c_void_p)),
        ("ResumeThread", _number, (_handle,)),
        ("OpenProcess", _handle, (_number, ctypes.c_int, _number)),
        ("CloseHandle", ctypes.c_int, (_handle,)),
        ("GenerateConsoleCtrlEvent", ctypes.c_int, (_number, _number))):
    _function = getattr(_kernel, _name)
    _function.restype, _function.argtypes = _result, _arguments


class _Limits(ctypes.Structure):  # JOBOBJECT_EXTENDED_LIMIT_INFORMATION
    _fields_ = [("times", ctypes.c_int64 * 2), ("flags", ctypes.c_uint32), ("working_sets", ctypes.c_size_t * 2),
                ("processes", ctypes.c_uint32), ("affinity", ctypes.c_size_t), ("classes", ctypes.c_uint32 * 2),
                ("io", ctypes.c_uint64 * 6), ("process_memory", ctypes.c_size_t), ("job_memory", ctypes.c_size_t),
                ("peak_process", ctypes.c_size_t), ("peak_job", ctypes.c_size_t)]


class _Accounting(ctypes.Structure):  # JOBOBJECT_BASIC_ACCOUNTING_INFORMATION
    _fields_ = [("user", ctypes.c_int64), ("kernel", ctypes.c_int64), ("periods", ctypes.c_int64 * 2),
                ("faults", _number), ("total", _number), ("active", _number), ("terminated", _number)]


class _Ids(ctypes.Structure):  # JOBOBJECT_BASIC_PROCESS_ID_LIST
    _fields_ = [("assigned", _number), ("listed", _number), ("ids", ctypes.c_size_t * MOST)]


def _failed():
    return ctypes.WinError(ctypes.get_last_error())


class Tree:
    """All processes below this one."""

    def __init__(self):
        self.pid = os.getpid()
        self._processes = {}  # of the workers: process id: handle
        self._job = _kernel.CreateJobObjectW(None, None)
        if not self._job:
            raise _failed()
        limits = _Limits(flags=KILL_ON_CLOSE | DIE_ON_EXCEPTION)
        if not _kernel.SetInformationJobObject(self._job, EXTENDED, ctypes.byref(limits), ctypes.sizeof(limits)):
            raise _failed()

    @staticmethod
    def inheritable(fd):
        """The handle of a descriptor, which the next child is to inherit."""
        handle = msvcrt.get_osfhandle(fd)
        os.set_handle_inheritable(handle, True)
        return handle

    def start(self, command, standard, more):
        """Starts a program that is in the job before its first instruction, and
        inherits these descriptors and nothing else."""
        from subprocess import STARTUPINFO, list2cmdline
        handles = [self.inheritable(fd) for fd in standard]
        info = STARTUPINFO(dwFlags=0x100, hStdInput=handles[0], hStdOutput=handles[1], hStdError=handles[2],
                           lpAttributeList={"handle_list": handles + [self.inheritable(fd) for fd in more]})
        environment = dict(os.environ)
        if command[0] != sys.executable:
            environment["__PYVENV_LAUNCHER__"] = sys.executable
        try:
            process, thread, pid, _ = _winapi.CreateProcess(
                command[0], list2cmdline(command), None, None, True, CREATE_SUSPENDED | NEW_GROUP, environment, None, info)
        finally:
            for fd in (*standard, *more):
                os.set_handle_inheritable(msvcrt.get_osfhandle(fd), False)
        try:
            if not _kernel.AssignProcessToJobObject(self._job, int(process)):
                raise _failed()
            if _kernel.ResumeThread(int(thread)) == 0xFFFFFFFF:
                raise _failed()
        except OSError:
            _winapi.TerminateProcess(process, KILLED)
            _winapi.CloseHandle(process)
            raise
        finally:
            _winapi.CloseHandle(thread)
        self._processes[pid] = process
        return pid

    def reap(self, ended):
        """Collects workers that have ended: ended[pid] = wait status. Whether anything is left."""
        for pid, process in list(self._processes.items()):
            if _winapi.WaitForSingleObject(process, 0) == 0:
                ended[pid] = wait_status(_winapi.GetExitCodeProcess(process))
                _winapi.CloseHandle(process)
                del self._processes[pid]
        return self._account().active > 0

    def kill_all(self, ended, seconds=2.0):
        """Ends everything below until nothing is left; returns how many that were."""
        self.reap(ended)
        killed, until = self._account().active, time.monotonic() + seconds
        while self._account().active and time.monotonic() < until:
            _kernel.TerminateJobObject(self._job, KILLED)
            time.sleep(0.001)
        for process in list(self._processes.values()):
            _winapi.WaitForSingleObject(process, 1000)
        self.reap(ended)
        return killed

    def kill_since(self, earlier, spare, ended, seconds=1.0):
        """Ends what was not there in the snapshot earlier, except spare."""
        until, killed = time.monotonic() + seconds, set()
        while True:
            new = [key for key in self.snapshot(spare) if key not in earlier]
            for key in new:
                if _end(key[0]):
                    killed.add(key)
            self.reap(ended)
            if not new or time.monotonic() > until:
                return len(killed)
            time.sleep(0.002)

    def snapshot(self, spare=0):
        """The living processes below, as a set of (pid, 0)."""
        return {(pid, 0) for pid in self.below() if pid != spare}

    def below(self):
        ids = _Ids()
        _kernel.QueryInformationJobObject(self._job, PROCESS_IDS, ctypes.byref(ids), ctypes.sizeof(ids), None)
        return [int(pid) for pid in ids.ids[:min(ids.listed, MOST)]]

    def interrupt(self, worker, pids):
        """Presses Ctrl-Break, which reaches everything in the worker's group; it ignores it itself."""
        _kernel.GenerateConsoleCtrlEvent(CTRL_BREAK, worker)

    def kill(self, pid):
        process = self._processes.get(pid)
        if process is not None:
            _winapi.TerminateProcess(process, KILLED)

    def usage(self):
        """Processes, resident bytes and processor time of this process and all below."""
        account, times = self._account(), os.times()
        return {"processes": 1 + account.active, "rss_bytes": sum(_resident(pid) for pid in [self.pid] + self.below()),
                "cpu_ns": (account.user + account.kernel) * 100 + int((times.user + times.system) * 1e9)}

    def _account(self):
        account = _Accounting()
        _kernel.QueryInformationJobObject(self._job, ACCOUNTING, ctypes.byref(account), ctypes.sizeof(account), None)
        return account


def wait_status(code):
    """An exit code as POSIX has it: the signal, or the status shifted."""
    return _SIGNALS[code] if code in _SIGNALS else (code & 0xff or bool(code)) << 8


def _end(pid):
    process = _kernel.OpenProcess(1, False, pid)  # PROCESS_TERMINATE
    if not process:
        return False
    try:
        _winapi.TerminateProcess(process, KILLED)
        return True
    except OSError:
        return False
    finally:
        _kernel.CloseHandle(process)


class _Memory(ctypes.Structure):  # PROCESS_MEMORY_COUNTERS
    _fields_ = [("size", _number), ("faults", _number), ("sizes", ctypes.c_size_t * 8)]


def _resident(pid):
    process = _kernel.OpenProcess(0x1000, False, pid)  # PROCESS_QUERY_LIMITED_INFORMATION
    if not process:
        return 0
    try:
        memory = _Memory(size=ctypes.sizeof(_Memory))
        if not _kernel.K32GetProcessMemoryInfo(_handle(process), ctypes.byref(memory), memory.size):
            return 0
        return memory.sizes[1]  # the working set; the first is its peak
    finally:
        _kernel.CloseHandle(process)
