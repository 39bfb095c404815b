"""What a command does with the files alone, without a store: validate, rebuild, next, start, finish, allow."""

from __future__ import annotations

import os
import subprocess
from datetime import UTC, datetime
from typing import Any, Final

from stemmadb.memory.interfaces.files.project import PROJECT_VARIABLE, lib
from stemmadb.memory.interfaces.files.working_copy import WorkingCopy
from stemmadb.memory.rules.refusals import InvalidRequest
from stemmadb.memory.rules.tasks import file_text, findings, index, paths
from stemmadb.memory.rules.tasks.file_text import FileText
from stemmadb.memory.rules.tasks.plan import TaskPlan

ALLOWED: Final = ".stemma/allowed-tests"


class LocalPlan:
    """The task files of a working copy, and its index."""

    def __init__(self, copy: WorkingCopy) -> None:
        if not copy.root.is_dir():
            raise InvalidRequest(f"{copy.project} has no .claude/memory. Run 'stemmadb memory files init' there.")
        self._copy = copy
        self._files = self._read_tasks()
        listed = copy.read(paths.INDEX)
        self._index = None if listed is None else file_text.read_json(listed)

    def _read_tasks(self) -> dict[str, FileText]:
        found: dict[str, FileText] = {}
        directory = self._copy.root / "tasks"
        for file in sorted(directory.glob("*.json")) if directory.is_dir() else ():
            data = None if file.is_symlink() else self._copy.read(f"tasks/{file.name}")
            wrong = "is a symlink." if file.is_symlink() else "is not a file that can be read."
            found[file.name] = FileText(None, refusal=wrong) if data is None else file_text.read_json(data)
        return found

    def findings(self) -> list[str]:
        """Everything that is wrong."""
        return findings.of_plan(self._files, self._index)

    def contradictions(self) -> list[str]:
        """What keeps an index from being made."""
        return sorted({finding.text for finding in findings.of_entities(self._files) if finding.blocks})

    @property
    def plan(self) -> TaskPlan:
        """The tasks of the files; of the index alone if there are no files."""
        if not self._files and self._index is not None and isinstance(self._index.value, dict):
            entries = self._index.value.get("tasks")
            return TaskPlan({entry["id"]: entry for entry in entries} if isinstance(entries, list) else {})
        return TaskPlan(findings.entities(self._files))

    def rebuild_index(self) -> int:
        """Writes the index from the files; how many tasks it has. The caller has looked for contradictions."""
        if not self._files and self._index is not None:
            raise InvalidRequest("There are no files in tasks/: the index stays as it is. 'files sync' makes them.")
        with self._copy.locked():
            self._copy.replace({paths.INDEX: index.index_text(self.plan, index.version_of(self._index)).encode()})
        return len(self.plan.records)

    def start(self, id_: str) -> None:
        """The task is in progress from now on."""
        with self._copy.locked():
            plan = LocalPlan(self._copy).plan
            plan.check_can_work(id_, "start")
            fields = {"status": "in-progress", "startedAt": f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"}
            self._write(id_, plan, fields)

    def _write(self, id_: str, plan: TaskPlan, fields: dict[str, Any]) -> None:
        changed = TaskPlan({**plan.records, id_: {**plan.records[id_], **fields}})
        listing = index.index_text(changed, index.version_of(self._index))
        texts = {f"tasks/{id_}.json": index.task_text(id_, changed), paths.INDEX: listing}
        self._copy.replace({path: text.encode() for path, text in texts.items()})


def finish(copy: WorkingCopy, id_: str) -> int:
    """Runs the package's own `subagent-validation.sh` for one task; its exit code."""
    environment = {**os.environ, PROJECT_VARIABLE: str(copy.project)}
    command = ["bash", str(lib() / "subagent-validation.sh"), id_]
    return subprocess.run(command, env=environment, check=False).returncode  # noqa: S603  # our own script


def allow(copy: WorkingCopy, command: str) -> bool:
    """Adds a command to those that `finish` may run; False if it was there. `allowed-tests` is never synced."""
    if not command.strip() or any(sign in command for sign in "\n\r\x00"):
        raise InvalidRequest("A test is one line of text. Put several commands into a script and allow that.")
    copy.check()
    with copy.locked():
        lines = (copy.read(ALLOWED) or b"").decode(errors="surrogateescape").splitlines()
        if command in lines:
            return False
        text = "".join(f"{line}\n" for line in [*lines, command])
        copy.replace({ALLOWED: text.encode(errors="surrogateescape")})
    return True
