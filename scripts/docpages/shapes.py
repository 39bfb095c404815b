"""What differs from run to run in an output: identities, hashes, times, ages, ports and paths. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

_KINDS: Final = (
    (re.compile(r"did:key:z[1-9A-HJ-NP-Za-km-z]+"), "did:key:..."),
    (re.compile(r"…[1-9A-HJ-NP-Za-km-z]{4,}"), "…did"),
    (re.compile(r"b3:[a-z2-7]{6,}"), "b3:..."),
    (re.compile(r"\b\d+\.[a-z2-7]{12}(?:\.[a-z2-7]{8})?\b"), "<state>"),
    (re.compile(r'"time":\d+'), '"time":0'),
    (re.compile(r"\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}(:\d{2}(\.\d+)?)?(Z|[+-]\d{2}:?\d{2})?"), "<time>"),
    (re.compile(r"\b\d{2}:\d{2}:\d{2}(\.\d+)?\b"), "<time>"),
    (re.compile(r"\b\d+(\.\d+)?( ms| s| seconds?| KiB| MiB| KB| MB| bytes?)\b"), "<amount>"),
    (re.compile(r"\bprocess \d+\b"), "<process>"),
    (re.compile(r"\b\d+ connections?, \d+ sessions?\b"), "<connections>"),
    (re.compile(r"\bsqlite +\d+\.\d+\.\d+"), "<sqlite>"),
    (re.compile(r" {2,}"), "  "),
)


def normalised(lines: Iterable[str]) -> list[str]:
    """The same lines with everything that chance and the clock decide taken out."""
    shown = []
    for line in lines:
        for kind, name in _KINDS:
            line = kind.sub(name, line)  # noqa: PLW2901  # each looks at what the one before left
        shown.append(line.rstrip())
    return shown
