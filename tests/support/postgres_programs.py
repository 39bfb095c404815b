"""Where PostgreSQL is: a server that was given, the wheel of requirements/dev.txt, or programs of the system."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import sysconfig
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple

VARIABLE: Final = "STEMMADB_TEST_PG"
LEAST: Final = 15
USERS: Final = ("postgres", "nobody")
HOW: Final = "install PostgreSQL 15 or newer (apt-get install postgresql), or set STEMMADB_TEST_PG"


class Installation(NamedTuple):
    """Programs of PostgreSQL, and where they are from."""

    version: str
    origin: str
    programs: Path


def installations() -> Iterator[Installation]:
    """Those that can be used, the best first."""
    for origin, programs in _candidates():
        try:
            shown = subprocess.run(  # noqa: S603  # ours
                [str(programs / "postgres"), "--version"], capture_output=True, text=True, check=True
            )
        except (OSError, subprocess.CalledProcessError):
            continue
        version = shown.stdout.split()[2]
        if int(version.split(".")[0]) >= LEAST and (programs / "initdb").exists():
            yield Installation(version, origin, programs)


def _candidates() -> Iterator[tuple[str, Path]]:
    for wheel in sorted(Path(sysconfig.get_path("purelib")).glob("*pgserver/pginstall/bin")):
        yield f"the wheel {wheel.parts[-3]}", wheel
    installed = Path("/usr/lib/postgresql").glob("*/bin")
    yield from ((str(path), path) for path in sorted(installed, reverse=True))
    found = shutil.which("postgres")
    if found is not None:
        programs = Path(found).resolve().parent
        yield str(programs), programs


@cache
def installation() -> Installation | None:
    return next(installations(), None)


def found() -> str | None:
    """What tests run on, in a few words; None if there is no PostgreSQL."""
    if os.environ.get(VARIABLE):
        return f"the server of {VARIABLE}"
    chosen = installation()
    return None if chosen is None else f"{chosen.version} from {chosen.origin}"


class OwnUser(NamedTuple):
    """As whom PostgreSQL runs if we are root."""

    uid: int
    gid: int


def own_user() -> OwnUser | None:
    if os.geteuid() != 0:
        return None
    for name in USERS:
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            continue
        return OwnUser(entry.pw_uid, entry.pw_gid)
    raise RuntimeError("no user that PostgreSQL could run as")


def as_user(user: OwnUser | None) -> dict[str, Any]:
    return {} if user is None else {"user": user.uid, "group": user.gid, "extra_groups": []}
