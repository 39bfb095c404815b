"""Which project a command is about, which namespace its plan has, and the scripts that it gets."""

from __future__ import annotations

import os
import shutil
import subprocess
from importlib.resources import files as package_files
from pathlib import Path
from typing import Any, Final

import msgspec

from stemmadb.memory.interfaces.files.working_copy import MEMORY, WorkingCopy
from stemmadb.memory.rules.directories import of_directory
from stemmadb.memory.rules.namespaces import read_name
from stemmadb.memory.rules.refusals import InvalidRequest

PROJECT_VARIABLE: Final = "CLAUDE_PROJECT_DIR"
SCRIPTS: Final = (
    "memory.sh", "wbs-helpers.sh", "memory-validate.sh", "memory-rebuild-index.sh", "subagent-validation.sh",
)  # fmt: skip
SETTINGS: Final = ".stemma/settings.json"
HOOK: Final = f"$CLAUDE_PROJECT_DIR/{MEMORY}/lib/subagent-validation.sh"
HOOKS: Final = {"SubagentStop": [{"hooks": [{"type": "command", "command": f'"{HOOK}"', "timeout": 900}]}]}


def lib() -> Path:
    """Where the package has the scripts."""
    return Path(str(package_files("stemmadb.memory.interfaces.files") / "lib"))


def find_project(given: Path | None, *, is_new: bool = False) -> Path:
    """The directory that was named, else that of the environment, else one above here with `.claude/memory`."""
    if given is None and os.environ.get(PROJECT_VARIABLE):
        given = Path(os.environ[PROJECT_VARIABLE])
    if given is None and not is_new:
        here = Path.cwd()
        given = next((one for one in (here, *here.parents) if (one / MEMORY).is_dir()), here)
    project = Path.cwd() if given is None else given
    if not project.is_dir():
        raise InvalidRequest(f"{project} is not a directory.")
    return project.absolute()


def install(copy: WorkingCopy, namespace: str) -> None:
    """The directories, the scripts, and which namespace it is."""
    copy.make()
    for name in SCRIPTS:
        target = copy.root / "lib" / name
        if target.is_symlink():
            raise InvalidRequest(f"{target} is a symlink. Remove it.")
        temporary = target.with_suffix(".new")
        shutil.copyfile(lib() / name, temporary)
        temporary.chmod(0o755)
        temporary.replace(target)
    copy.replace({SETTINGS: msgspec.json.encode({"namespace": namespace})})


def namespace_of(copy: WorkingCopy, given: str | None) -> str:
    """The one that was given, else that of `init`, else that of the directory."""
    if given is not None:
        return read_name(given, "ns")
    kept = copy.read(SETTINGS)
    if kept is not None:
        try:
            return read_name(msgspec.json.decode(kept)["namespace"], "ns")
        except (msgspec.DecodeError, KeyError, TypeError):
            raise InvalidRequest(
                f"{copy.root / SETTINGS} is broken. Run 'stemmadb memory files init' again."
            ) from None
    real = os.path.realpath(copy.project)
    return of_directory(_origin(copy.project), real, os.path.realpath(Path.home()))


def _origin(project: Path) -> str | None:
    git = shutil.which("git")
    if git is None:
        return None
    command = [git, "-C", str(project), "config", "--get", "remote.origin.url"]
    found = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603  # reads a setting
    return found.stdout.strip() or None


def add_hooks(project: Path) -> Path:
    """Writes our hook into the project's settings, beside what is there."""
    path = project / ".claude/settings.json"
    settings: Any = {}
    if path.exists():
        try:
            settings = msgspec.json.decode(path.read_bytes())
        except msgspec.DecodeError:
            settings = None
    if not isinstance(settings, dict) or not isinstance(settings.get("hooks", {}), dict):
        raise InvalidRequest(f"{path} is not a settings file. Correct it, or add the hook by hand.")
    ours = HOOKS["SubagentStop"][0]
    there = settings.setdefault("hooks", {}).setdefault("SubagentStop", [])
    if ours not in there:
        there.append(ours)
    temporary = path.with_suffix(".json.tmp")
    temporary.write_bytes(msgspec.json.format(msgspec.json.encode(settings), indent=2) + b"\n")
    temporary.replace(path)
    return path
