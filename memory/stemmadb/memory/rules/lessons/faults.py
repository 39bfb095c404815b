"""What is wrong with a request of the JSON interface."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

from stemmadb.memory.rules.refusals import Refusal

FaultCode = Literal["schema_error", "semantic_error", "integrity_error"]


class LessonFault(NamedTuple):
    """One thing that is wrong. `field` is a path with dots; empty for the request as a whole."""

    code: FaultCode
    message: str
    field: str = ""


class LessonRefused(Refusal):
    """A gate did not let the request pass: all that this gate found."""

    def __init__(self, faults: Sequence[LessonFault]) -> None:
        super().__init__(" ".join(fault.message for fault in faults))
        self.faults = faults
