"""How long something lasts, as people write it: `15m`, `8h`, `2d`."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final

import click

_UNITS: Final = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}
_DURATION: Final = re.compile(
    r"([0-9]{1,6})\s*(?:(s)(?:ec|econd)?s?|(m)(?:in|inute)?s?|(h)(?:our)?s?|(d)(?:ay)?s?|(w)(?:eek)?s?)"
)
"""Only whole units: `1month` is no minute."""


def read_duration(text: str, *, least: int = 1) -> int:
    """Milliseconds; `UsageError` if it is no duration, or fewer than `least` of its unit."""
    found = _DURATION.fullmatch(text.strip().lower())
    if found is None or int(found[1]) < least:
        raise click.UsageError(f"{text[:80]!r} is not a duration. Write it as 15m, 8h, 2d or 4w.")
    return int(found[1]) * next(milliseconds for unit, milliseconds in _UNITS.items() if unit in found.groups()[1:])


def duration_option(*names: str, **how: Any) -> Callable[[Any], Any]:
    """An option that takes a duration."""
    return click.option(*names, metavar="DURATION", callback=lambda _ctx, _param, text: read_duration(text), **how)
