"""`python -m scripts.clientkit.cases 10000 [SEED]` prints seeded cases for the differential test, one a line."""

from __future__ import annotations

import json
import sys

from scripts.clientkit import drafts, recording
from scripts.clientkit.recording import Event


def main(count: int, seed: int) -> None:
    """Two fifths are events of nurseries, the others transactions and patches."""
    events = 2 * count // 5
    rest = (count - events) // 2
    for number in range(rest):
        _print(drafts.case(seed + number))
        _print(drafts.patch_case(seed + number))
    life = seed
    while events > 0:
        for event in next(recording.lives(range(life, life + 1)))[:events]:
            _print({"kind": "nursery", "life": life, **event})
            events -= 1
        life += 1


def _print(case: Event) -> None:
    sys.stdout.write(json.dumps(case) + "\n")


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0)
