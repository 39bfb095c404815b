"""How long something lasts, as people write it: `15m`, `8h`, `2d`."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final

import click

_UNITS: Final = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_DURATION: Final = re.compile(r"([0-9]{1,6})\s*([smhd])[a-z]*")


def read_duration(text: str) -> int:
    """Milliseconds; `UsageError` if it is no duration."""
    found = _DURATION.fullmatch(text.strip().lower())
    if found is None or not int(found[1]):
        raise click.UsageError(f"{text!r} is not a duration. Write it as 15m, 8h or 2d.")
    return int(found[1]) * _UNITS[found[2]]


def duration_option(*names: str, **how: Any) -> Callable[[Any], Any]:
    """An option that takes a duration."""
    return click.option(*names, metavar="DURATION", callback=lambda _ctx, _param, text: read_duration(text), **how)
