"""What an operation does to a value: the one meaning that confirmed facts and pending layers share."""

from __future__ import annotations

from collections.abc import Iterable

from stemmadb.client.nursery.entities import ABSENT, UNKNOWN, Nothing
from stemmadb.client.nursery.plans import CommitWrite
from stemmadb.protocol.errors import StemmaError
from stemmadb.protocol.model import patch
from stemmadb.protocol.model.values.json_values import Value


class DoesNotApply(Exception):
    """The operation cannot be applied to what is there."""


def after(value: Value | Nothing, writes: Iterable[CommitWrite]) -> Value | Nothing:
    """The value after these operations, in order; `DoesNotApply` if one of them cannot be applied (COMMIT-6).

    What is unknown stays unknown under a patch: whether it applies is the server's to say.
    """
    for write in writes:
        if write.op == "set":
            value = write.value
        elif value is ABSENT:
            raise DoesNotApply(f"{write.op} of {write.id}, which is not there")
        elif write.op == "delete":
            value = ABSENT
        elif value is not UNKNOWN:
            value = _patched(value, write)
    return value


def _patched(value: Value | Nothing, write: CommitWrite) -> Value:
    try:
        return patch.apply(value, write.value)  # type: ignore[arg-type]  # neither is a Nothing here
    except StemmaError as error:
        raise DoesNotApply(error.message) from None
