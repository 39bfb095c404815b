"""Which python3 of the PATH the environment is built with: real scripts, each of which says what its loop takes."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "scripts/pick-python"
FAILS = 0
"""As a time: the loop does not end."""


@pytest.fixture
def tools(tmp_path: Path) -> Path:
    """All that the script needs beside a python3."""
    directory = tmp_path / "tools"
    directory.mkdir()
    for name in ("awk", "head", "wc"):
        found = shutil.which(name)
        assert found is not None
        (directory / name).symlink_to(found)
    return directory


def python(directory: Path, first: int, later: int | None = None, *, is_usable: bool = True) -> Path:
    """What its loop takes in the first turn, and in all later ones."""
    directory.mkdir()
    lines = [
        "#!/bin/sh",
        'case "$2" in',
        f"*base_prefix*) exit {int(not is_usable)} ;;",
        f"*realpath*) echo '{directory}/python3' ;;",
        f"*) time={first if later is None else later}; seen='{directory}/seen'",
        f'   [ -e "$seen" ] || time={first}; : > "$seen"',
        f'   [ "$time" != {FAILS} ] || exit 1; echo "$time" ;;',
        "esac",
    ]
    file = directory / "python3"
    file.write_text("\n".join(lines) + "\n")
    file.chmod(0o755)
    return file


def picked(tools: Path, *files: Path) -> str:
    path = ":".join(str(directory) for directory in (*(file.parent for file in files), tools))
    ran = subprocess.run(  # noqa: S603  # our own script
        ["/bin/sh", str(SCRIPT)], env={"PATH": path}, check=True, capture_output=True, text=True
    )
    return ran.stdout.removesuffix("\n")


@pytest.mark.parametrize(("second", "is_second"), [(84, True), (85, False), (100, False)])
def test_the_first_is_taken_unless_another_is_far_faster(
    tmp_path: Path, tools: Path, second: int, is_second: bool
) -> None:
    files = python(tmp_path / "a", 100), python(tmp_path / "b", second)
    assert picked(tools, *files) == str(files[is_second])


def test_a_slow_moment_decides_nothing(tmp_path: Path, tools: Path) -> None:
    files = python(tmp_path / "a", 500, 100), python(tmp_path / "b", 100)
    assert picked(tools, *files) == str(files[0])


def test_one_whose_loop_does_not_end_is_passed_over_and_once_is_not_all(tmp_path: Path, tools: Path) -> None:
    broken, sound = python(tmp_path / "a", FAILS), python(tmp_path / "b c", 100)
    assert picked(tools, broken, sound) == str(sound)
    once = python(tmp_path / "d", FAILS, 50)
    assert picked(tools, sound, once) == str(once)
    assert picked(tools, broken, python(tmp_path / "e", FAILS)) == str(broken), "make-env says what is wrong with it"


def test_an_old_one_and_that_of_an_active_environment_are_not_looked_at(tmp_path: Path, tools: Path) -> None:
    unusable, sound = python(tmp_path / "a", 10, is_usable=False), python(tmp_path / "b", 100)
    assert picked(tools, unusable, sound) == str(sound)
    assert picked(tools, unusable) == "python3"
