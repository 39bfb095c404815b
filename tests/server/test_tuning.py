"""What a process that serves fixes of its interpreter and of the memory it takes."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest

LEFT_MB: int = 64

PROGRAM = """
import sys
from pathlib import Path
from stemmadb.server.tuning import tune_interpreter

def resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096

if sys.argv[1] == "fixed":
    tune_interpreter()
for _ in range(3):  # glibc takes blocks of this size for usual ones from now on
    large = bytearray(8 * 2**20)
    del large
before, buffers, others = resident(), [], []
for _ in range(128):
    buffers.append(bytearray(b"x") * 2**20)
    others.append(bytearray(b"y") * 2048)  # what lives on between the buffers of readers that leave
del buffers
print((resident() - before) // 2**20)
"""


def kept_mb(how: str) -> int:
    """The memory that a process keeps of 128 MB of buffers that it has freed."""
    done = subprocess.run([sys.executable, "-c", PROGRAM, how], capture_output=True, text=True, check=True)  # noqa: S603
    return int(done.stdout)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc keeps freed memory this way")
def test_the_buffers_of_those_who_left_go_back_to_the_system() -> None:
    assert kept_mb("as it is") > LEFT_MB, "the machine gives it back by itself: this test shows nothing"
    assert kept_mb("fixed") < LEFT_MB // 4
