"""Compiles the modules that every commit goes through, as they are, with mypyc (docs/decisions/0013).

Run by `native.py`. What is compiled lies beside its sources, in `server/stemmadb/server/_compiled/`, and is used by a
process that asks for it (`stemmadb.server.compiled`), if all sources are as they were when it was made.
"""

from __future__ import annotations

import hashlib
import os
import shlex
import subprocess
import sys
import sysconfig
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import setuptools  # type: ignore[import-untyped]  # noqa: F401  # mypyc looks whether it was imported
from mypyc.build import mypycify

ROOT = Path(__file__).resolve().parent.parent
WORKSHOP = ROOT / "build/hot"
GROUP = "stemmadb_hot"
FLAGS = ("-O1", "-fPIC", "-fwrapv", "-fno-strict-aliasing", "-fvisibility=hidden", "-DNDEBUG", "-w")
"""Of more optimisation nothing could be told from the noise, and it takes twice the time."""

SERVER = (
    "carrying",
    "counting",
    *(f"engine.{name}" for name in ("cache", "deciding", "flights", "fold", "intake", "opened", "recent", "space")),
    *(f"engine.{name}" for name in ("weighing", "writer")),
    *(f"service.{name}" for name in ("batches", "choruses", "commits", "feed", "groups", "limiting", "outbox")),
    *(f"service.{name}" for name in ("room", "session", "stepping", "valve", "waiting", "watch_index")),
    *(f"storage.sqlite.{name}" for name in ("appending", "daybook", "inserting", "interning", "log", "one_step")),
    "storage.sqlite.posting",
)
PROTOCOL = ("wire.plain_commits", "wire.server_side")


def sources() -> list[str]:
    """Records of msgspec are not in them: mypyc would drop what they are made with."""
    named = [("server", name) for name in SERVER] + [("protocol", name) for name in PROTOCOL]
    return [f"{part}/stemmadb/{part}/{name.replace('.', '/')}.py" for part, name in named]


def compile_to(directory: Path, compiler: list[str]) -> None:
    """The module that has it all, and a small one for each that hands out its part."""
    os.chdir(ROOT)
    WORKSHOP.mkdir(parents=True, exist_ok=True)
    before = set(WORKSHOP.glob("*.o"))
    options = ["--config-file=pyproject.toml", f"--cache-dir={WORKSHOP / 'mypy'}", "--no-warn-unused-configs"]
    made = mypycify([*options, *sources()], multi_file=True, group_name=GROUP, target_dir=str(WORKSHOP))
    with ThreadPoolExecutor(os.cpu_count()) as workers:
        for module in made:
            include = [sysconfig.get_paths()["include"], *module.include_dirs]
            objects = list(workers.map(lambda name: _object(name, include, compiler), module.sources))  # noqa: B023
            target = directory / f"{module.name}{sysconfig.get_config_var('EXT_SUFFIX')}"
            linking = ["-undefined", "dynamic_lookup"] if sys.platform == "darwin" else []
            _run([*compiler, "-shared", "-pthread", *linking, "-o", str(target), *objects])
            before.difference_update(map(Path, objects))
    for old in before:
        old.unlink()


def _object(source: str, include: Iterable[str], compiler: list[str]) -> str:
    """What was compiled of the same text before is used again: most files change little."""
    parts = [f"-I{path}" for path in include]
    digest = hashlib.sha256(repr((compiler, FLAGS, sys.version)).encode())
    for file in (Path(source), *sorted(WORKSHOP.glob("*.h"))):
        digest.update(file.read_bytes())
    made = WORKSHOP / f"{digest.hexdigest()}.o"
    if not made.exists():
        half = made.with_suffix(f".{os.getpid()}")
        _run([*compiler, *FLAGS, *parts, "-c", "-o", str(half), source])
        half.replace(made)
    return str(made)


def _run(command: list[str]) -> None:
    subprocess.run(command, check=True)  # noqa: S603  # our own sources


if __name__ == "__main__":
    compile_to(Path(sys.argv[1]), shlex.split(sys.argv[2]))
