"""Why a merge or a revert wrote nothing, and why a log skips versions, in one sentence each."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Final, Unpack

from stemmadb.client.reading.entries import LogEntry
from stemmadb.client.reading.undo import RevertOptions, RevertReport
from stemmadb.client.space import Space
from stemmadb.protocol.errors import Malformed
from stemmadb.protocol.model.values.ids import Version

RUNS_SHOWN: Final = 6
LOOKED_AT: Final = 1_000
"""How many of the newest commits of a branch are searched for the reason."""


async def no_merge(target: Space, source: str) -> str:
    """Why merging the source would change nothing, if that is not plain: an earlier merge of it was reverted."""
    log = await target.log(branch=target.branch_name).all(limit=LOOKED_AT)
    return reverted_merge(log, source, target.branch_name)


def reverted_merge(log: Iterable[LogEntry], source: str, target: str) -> str:
    """A sentence if the last merge of the source in the log, newest first, was reverted; or nothing. Pure."""
    reverted: dict[int, Version] = {}
    for entry in log:
        details = entry.details or {}
        if entry.kind == "revert" and isinstance(details.get("versions"), list):
            for version in details["versions"]:  # type: ignore[union-attr]  # the line above asks for a list
                reverted.setdefault(int(str(version)), entry.version)
        if entry.kind == "merge" and details.get("source") == source:
            by = reverted.get(entry.version)
            if by is None:
                return ""
            return (
                f"Version {entry.version} merged {source} into {target}, and version {by} took that back: a merge "
                f"brings only what {source} wrote since. To have it again, revert version {by}."
            )
    return ""


async def revert(space: Space, versions: Sequence[int], **options: Unpack[RevertOptions]) -> RevertReport:
    """The same as `space.revert`, with a sentence for a person where a version wrote nothing that the branch sees."""
    try:
        return await space.revert(versions, **options)
    except Malformed as error:
        if "versions" not in str(error.facts.get("path")) or not (why := await no_revert(space, versions)):
            raise
        raise Malformed(why, path="versions", why=why) from None


async def no_revert(space: Space, versions: Sequence[int]) -> str:
    """Why there is nothing to take back, if a version wrote no entity, or wrote on another branch."""
    for version in versions:
        entry = await space.log(branch=None, version=version, with_facts=True).first()
        if entry is not None and entry.version == version and not entry.facts_count:
            about = (entry.details or {}).get("name") or (entry.details or {}).get("source") or ""
            return (
                f"Version {version} wrote no entity ({entry.kind} {about}".rstrip()
                + "): there is nothing to take back."
            )
        if entry is not None and entry.version == version and entry.branch not in (None, space.branch_name):
            hint = "Name the branch, or merge it first; 'log --all' shows where each version was written."
            return f"Version {version} was written on {entry.branch}, not on {space.branch_name}. {hint}"
        if (
            entry is not None
            and entry.version == version
            and {str(fact.id) for fact in entry.changes} == {str(space.did)}
        ):
            return f"Version {version} wrote the access list, which no revert changes: use 'stemmadb acl'."
    return ""


def skipped(entries: Sequence[LogEntry], branch: str) -> str:
    """Why versions are missing between the entries of a log, newest first; nothing if none are. Pure."""
    pairs = pairwise(entry.version for entry in entries)
    runs = [(older + 1, newer - 1) for newer, older in pairs if newer - older > 1][::-1]
    if not runs:
        return ""
    is_one = len(runs) == 1 and runs[0][0] == runs[0][1]
    subject = f"Version {runs[0][0]} is" if is_one else f"Versions {_listed(runs)} are"
    return (
        f"{subject} not on {branch}: versions count all writes of the space. Those of other branches take one, and "
        "so do branches and tags that are made or deleted. --all shows them."
    )


def _listed(runs: Sequence[tuple[int, int]]) -> str:
    """`3, 5-7 and 9`."""
    texts = [str(first) if first == last else f"{first}-{last}" for first, last in runs[:RUNS_SHOWN]]
    if len(runs) > RUNS_SHOWN:
        return f"{', '.join(texts)} and others"
    return texts[0] if len(texts) == 1 else f"{', '.join(texts[:-1])} and {texts[-1]}"
