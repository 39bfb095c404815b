"""CPU and memory of process trees, and the settings of this process that all it starts inherit."""

from __future__ import annotations

import ctypes
import os
import platform
import resource
import signal
import time
from pathlib import Path
from types import FrameType
from typing import NoReturn

DIRECTORY = os.environ.get("STEMMADB_BENCH_DIR")
"""Where the data of all systems lies; the temporary directory if it is not said."""
SLICE_US = int(os.environ.get("STEMMADB_BENCH_SLICE_US", "100"))
"""The slice of the scheduler for the load and all it starts; 0 leaves it alone."""
_SCHED_SETATTR = {"x86_64": 314, "aarch64": 274}


def cpu_seconds(pid: int) -> float:
    """User and system time of a process, its threads and its children, also of those that have ended."""
    try:
        own = time.clock_gettime(_cpu_clock(pid)) + _of_ended(pid)
        children = [int(name) for task in _tasks(pid) for name in (task / "children").read_text().split()]
    except OSError:
        return 0.0
    return own + sum(cpu_seconds(child) for child in children)


def _of_ended(pid: int) -> float:
    """What the children used that it has waited for; else the time of a child would be taken back when it ends."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[13:15])) / os.sysconf("SC_CLK_TCK")


def _cpu_clock(pid: int) -> int:
    """The kernel's clock of what a process has used (`clock_getcpuclockid`); `/proc` counts in steps of 10 ms."""
    return ~pid << 3 | 2


def _tasks(pid: int) -> list[Path]:
    return list(Path(f"/proc/{pid}/task").iterdir())


def rss_mb(pid: int) -> float:
    with open(f"/proc/{pid}/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


def descriptors(pid: int) -> int:
    return len(os.listdir(f"/proc/{pid}/fd"))


def threads(pid: int) -> int:
    return len(_tasks(pid))


def prepare_process() -> None:
    """Many sockets, and a short slice, for this process and all that it starts; told to end, it ends those first."""
    signal.signal(signal.SIGTERM, _end)
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    if SLICE_US:
        _short_slice(SLICE_US * 1_000)


def _end(number: int, _: FrameType | None) -> NoReturn:
    """What is open is closed on the way out, servers included."""
    raise SystemExit(128 + number)


class _Attributes(ctypes.Structure):
    """`struct sched_attr`, first version. With the ordinary policy the runtime is the slice that is asked for."""

    _fields_ = (
        ("size", ctypes.c_uint32),
        ("policy", ctypes.c_uint32),
        ("flags", ctypes.c_uint64),
        ("nice", ctypes.c_int32),
        ("priority", ctypes.c_uint32),
        ("runtime", ctypes.c_uint64),
        ("deadline", ctypes.c_uint64),
        ("period", ctypes.c_uint64),
    )


def _short_slice(nanoseconds: int) -> None:
    """With all cores busy a sync seems to last a whole slice. Kernels that know no slices ignore this."""
    number = _SCHED_SETATTR.get(platform.machine())
    if number is not None:
        attributes = _Attributes(size=ctypes.sizeof(_Attributes), runtime=nanoseconds)
        ctypes.CDLL(None, use_errno=True).syscall(number, 0, ctypes.byref(attributes), 0)
