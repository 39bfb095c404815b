"""`python -m scripts.clientkit` writes every file that is made from the Python code; `--check` only compares."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

from scripts.clientkit import made

ROOT: Final = Path(__file__).parents[2]


def main(arguments: list[str]) -> int:
    """1 if `--check` found a file that is not what it would become."""
    outdated = []
    for file, text in made.files().items():
        path = ROOT / file
        if path.exists() and path.read_text() == text:
            continue
        outdated.append(file)
        if "--check" not in arguments:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
    for file in outdated:
        print(f"{'outdated' if '--check' in arguments else 'written'}: {file}")
    return 1 if outdated and "--check" in arguments else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
