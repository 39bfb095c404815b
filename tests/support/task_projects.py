"""Projects with task files in a temporary directory, and bash that sources our scripts in them."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import requirements

ROOT: Final = Path(__file__).parents[2]
LIB: Final = ROOT / "memory/stemmadb/memory/interfaces/files/lib"
BASH_SECONDS_MAX: Final = 60


class TaskProject:
    """A project whose `.claude/memory/lib` has our scripts."""

    def __init__(self, root: Path) -> None:
        requirements.need("jq", "the scripts for task files run jq")
        self.root = root
        self.memory = root / ".claude/memory"
        (self.memory / "lib").mkdir(parents=True)
        for script in LIB.glob("*.sh"):
            shutil.copy(script, self.memory / "lib")

    def environment(self, **more: str) -> dict[str, str]:
        hidden = ("CLAUDE_", "STEMMADB_", "AGENT_")
        kept = {name: value for name, value in os.environ.items() if not name.startswith(hidden)}
        return kept | {"HOME": str(self.root), "TZ": "Asia/Tokyo"} | more

    def bash(self, command: str, *arguments: str, stdin: str = "", **more: str) -> subprocess.CompletedProcess[str]:
        """Runs a command that can call every function; `$1` and so on are the arguments."""
        script = f". .claude/memory/lib/wbs-helpers.sh\n{command}"
        return self.run("bash", "-c", script, "bash", *arguments, stdin=stdin, **more)

    def script(self, name: str, *arguments: str, stdin: str = "", **more: str) -> subprocess.CompletedProcess[str]:
        return self.run(str(self.memory / "lib" / name), *arguments, stdin=stdin, **more)

    def run(self, *command: str, stdin: str = "", **more: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(  # noqa: S603  # what a test says
            command, cwd=self.root, env=self.environment(**more), input=stdin, capture_output=True, text=True,
            timeout=BASH_SECONDS_MAX, check=False,
        )  # fmt: skip

    def task(self, id_: str, **fields: Any) -> None:
        """Writes a task file by hand."""
        kinds = ("epic", "feature", "task")
        value = {"id": id_, "type": kinds[id_.count(".")], "status": "pending"} | fields
        self.write(f"tasks/{id_}.json", json.dumps(value, indent=2, ensure_ascii=False) + "\n")

    def write(self, name: str, text: str | bytes) -> None:
        file = self.memory / name
        file.parent.mkdir(exist_ok=True, parents=True)
        file.write_bytes(text.encode() if isinstance(text, str) else text)

    def value(self, name: str) -> Any:
        return json.loads((self.memory / name).read_text())

    def entry(self, id_: str) -> Mapping[str, Any]:
        found = [entry for entry in self.value("task-index.json")["tasks"] if entry["id"] == id_]
        assert len(found) == 1
        return dict(found[0])

    def everything(self) -> dict[str, bytes]:
        """Every file of the project, to see that nothing changed."""
        return {
            str(file.relative_to(self.root)): file.read_bytes() if file.is_file() else b""
            for file in sorted(self.root.rglob("*"))
        }
