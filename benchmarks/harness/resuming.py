"""A run that was stopped goes on where it was: the scenarios that are done are kept in a file beside the results."""

from __future__ import annotations

import json
from pathlib import Path


class Underway:
    """The scenarios of a run that are done; the file is there as long as the run has not ended."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.done: list[str] = json.loads(path.read_text())["done"] if path.exists() else []

    def start_over(self) -> None:
        self.done = []
        self.path.unlink(missing_ok=True)

    def note(self, name: str) -> None:
        self.done.append(name)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.path.write_text(json.dumps({"done": self.done}) + "\n")

    def end(self) -> None:
        self.path.unlink(missing_ok=True)
