"""Seeds: every source of chance in the kit is a stream of its own, made from one seed and a name."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from random import Random


def stream(seed: int, *names: object) -> Random:
    """A stream of chance. One that is added takes nothing from the others, so they stay as they were."""
    return Random("/".join(str(part) for part in (seed, *names)))  # noqa: S311 - a test has to be repeatable


def randoms(seed: int, *names: object) -> Callable[[int], bytes]:
    """The same as bytes: takes the place of `os.urandom`."""
    return stream(seed, *names).randbytes


def secret(seed: int, *names: object) -> bytes:
    """The 32 bytes of a key."""
    return hashlib.sha256("/".join(str(part) for part in (seed, *names)).encode()).digest()
