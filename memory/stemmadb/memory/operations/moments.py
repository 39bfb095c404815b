"""A moment in the past of main, given as a version, a time or a tag."""

from __future__ import annotations

from typing import Final, NamedTuple

from stemmadb.memory.operations.memory_space import MemorySpace
from stemmadb.memory.rules import instants
from stemmadb.memory.rules.instants import Millis
from stemmadb.memory.rules.refusals import InvalidRequest, UnknownMoment
from stemmadb.protocol.errors import Compacted, FutureVersion, InvalidName, UnknownTag

MAIN: Final = "main"


class PastMoment(NamedTuple):
    """A version of main, and the time that counts for what had expired then."""

    version: int
    time: Millis


async def read_moment(memory: MemorySpace, text: str) -> PastMoment:
    """`17` is a version, `2026-11-18T09:30:00Z` a time, anything else a tag; `UnknownMoment` if there is no such.

    As of a version or a tag, the time of the version's commit counts; as of a time, that time itself.
    """
    try:
        if text.isascii() and text.isdigit():
            return await _at_version(memory, int(text))
        if _is_time(text):
            return await _at_time(memory, text)
        return await _at_tag(memory, text)
    except (Compacted, FutureVersion, UnknownTag, InvalidName) as unknown:
        raise UnknownMoment(unknown.message) from unknown


def _is_time(text: str) -> bool:
    try:
        instants.read(text, "at")
    except InvalidRequest:
        return False
    return True


async def _at_version(memory: MemorySpace, version: int) -> PastMoment:
    if version > memory.index.head:
        raise FutureVersion(version=version, head=memory.index.head)
    entry = await memory.space.log(branch=None, version=version).first()
    return PastMoment(version, Millis(0 if entry is None else entry.time_ms))


async def _at_time(memory: MemorySpace, text: str) -> PastMoment:
    time = instants.read(text, "at")
    moment = memory.space.at(time=max(0, time))
    return PastMoment(await moment.settled(), time)


async def _at_tag(memory: MemorySpace, name: str) -> PastMoment:
    found = next((tag for tag in await memory.space.tags.list() if tag.name == name), None)
    if found is None:
        raise UnknownTag(tag=name)
    if found.branch != MAIN:
        raise UnknownMoment(f"Tag {name} is on branch {found.branch}. Only moments of main can be searched.")
    return await _at_version(memory, found.version)
