"""Ids of tasks: one to three numbers, which say what a task is and to which parent it belongs.

>>> sorted(["1.10", "1.9", "1", "1.9.2"], key=order)
['1', '1.9', '1.9.2', '1.10']
"""

from __future__ import annotations

import re
from typing import Final, Literal, TypeGuard

TaskType = Literal["epic", "feature", "task"]

TYPES: Final[tuple[TaskType, ...]] = ("epic", "feature", "task")
STATUSES: Final = ("pending", "in-progress", "done")
_ID: Final = re.compile(r"[1-9][0-9]{0,8}(\.[1-9][0-9]{0,8}){0,2}", re.ASCII)


def is_id(text: object) -> TypeGuard[str]:
    return isinstance(text, str) and _ID.fullmatch(text) is not None


def order(id_: str) -> tuple[int, ...]:
    """The key to sort ids by: their numbers."""
    return tuple(map(int, id_.split(".")))


def depth(id_: str) -> int:
    return id_.count(".") + 1


def parent_of(id_: str) -> str | None:
    return id_.rpartition(".")[0] or None


def type_of(id_: str) -> TaskType:
    return TYPES[depth(id_) - 1]
