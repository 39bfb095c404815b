"""Merges: what only the source changed is in the target afterwards as it is in the source, deletes included."""

from __future__ import annotations

from simulation.history import NOTHING, History, State
from simulation.reading import erased
from simulation.scene import DOCS
from stemmadb.protocol.model.log.commit_record import Commit, Merge
from stemmadb.protocol.model.values.ids import EntityId, Version
from stemmadb.protocol.model.values.json_values import equal


def check_merges(history: History) -> int:
    """By the definition of a merge (MERGE-2), for entities without a conflict; gives how many were looked at."""
    before: dict[tuple[str, str], Commit] = {}
    checked = 0
    for commit in history.commits:
        details = commit.details
        if isinstance(details, Merge):
            assert commit.branch is not None, "a merge has a target"
            pair = (str(details.source), str(commit.branch))
            checked += _check(history, commit, details, before.get(pair))
            before[pair] = commit
    return checked


def _check(history: History, commit: Commit, details: Merge, before: Commit | None) -> int:
    """Nobody merges the other way, so that the base is what was merged before, or where the branches parted."""
    source, target = str(details.source), str(commit.branch)
    if before is not None and isinstance(before.details, Merge):
        base, since = before.details.source_version, before.version
    else:
        base = since = max(history.fork(source), history.fork(target))
    states = [_at(history, source, base), _at(history, source, details.source_version)]
    states += [_at(history, target, Version(commit.version - 1)), _at(history, target, commit.version)]
    touched = history.written(target, since, commit.version)
    ids = [EntityId(id_) for id_ in DOCS if id_ not in touched and id_ not in erased(history)]
    for id_ in ids:
        was, theirs, ours, merged = (state.get(id_) for state in states)
        if equal(ours, was):
            assert equal(merged, theirs), f"{id_} was {was}, {source} made it {theirs}; {commit.version}: {merged}"
    return len(ids)


def _at(history: History, branch: str, version: Version) -> State:
    return history.at(branch, version) or NOTHING
