"""Batch sizing: how many proposals are decided in one go, by the values that their patches change.

A patch of a few bytes copies what it changes, and every accepted commit of a batch holds its own copy until all are
published. A long array counts in full for each patch of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from stemmadb.protocol.model.commit.proposal import Proposal
from stemmadb.protocol.model.log.state import EntityState
from stemmadb.server.engine.base.head_cache import Key


def first_fitting(batch: Sequence[Proposal], heads: Mapping[Key, EntityState], bytes_max: int) -> Sequence[Proposal]:
    """The first of the batch whose patched values fit in the bound together; one at least."""
    if len(batch) == 1 or _at_most(batch, heads) <= bytes_max:
        return batch
    sizes: dict[Key, int] = {}
    left = bytes_max
    for count, proposal in enumerate(batch):
        left -= _patched_bytes(proposal, heads, sizes)
        if left < 0 and count:
            return batch[:count]
    return batch


def _at_most(batch: Sequence[Proposal], heads: Mapping[Key, EntityState]) -> int:
    """More than all patched values can be together, found without looking each of them up."""
    count = grown = 0
    largest = max([head.size for head in heads.values()], default=0)
    for proposal in batch:
        for step in proposal.steps:
            if step.kind == "patch":
                count += 1
                grown += len(step.body or b"")
            elif step.size > largest:
                largest = step.size
    return count * (largest + grown)


def _patched_bytes(proposal: Proposal, heads: Mapping[Key, EntityState], sizes: dict[Key, int]) -> int:
    """Whether a step is accepted is not known yet, so that a value is taken to be as large as it may have become."""
    patched = 0
    for step in proposal.steps:
        key = (step.branch, step.id)
        size = sizes.get(key)
        if size is None:
            head = heads.get(key)  # none on a branch that there is not
            size = 0 if head is None else head.size
        if step.kind == "patch":
            patched += size
            sizes[key] = size + len(step.body or b"")
        else:
            sizes[key] = max(size, step.size)
    return patched
