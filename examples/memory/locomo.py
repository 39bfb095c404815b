"""Recall of evidence on LoCoMo: of the turns that answer a question, the share among the first 5, 10 and 20 results.

    git clone https://github.com/snap-research/locomo
    python examples/memory/locomo.py locomo/data

The path is a JSON file of the data, a directory with such files, or a zip of them. Nothing is fetched and nothing of
it is kept. Each turn is a memory of its conversation's namespace; each question with evidence is a search by words.
Questions of category 5 ask for what was never said, and are left out.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import tempfile
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from stemmadb.client import Identity
from stemmadb.memory.operations import searching
from stemmadb.memory.operations.forgetting import make_namespace
from stemmadb.memory.operations.searching import SearchQuery
from stemmadb.memory.process.opened_memory import OpenedMemory, opened_memory
from stemmadb.memory.rules import ids, records
from stemmadb.memory.rules.records import Memory
from stemmadb.memory.rules.roles import MemoryCaller
from stemmadb.server.open_store import now, open_store
from stemmadb.server.service.service import Service
from stemmadb.server.serving.local_dial import URL, local_dial

CALLER = MemoryCaller(role="agent", name="plugin", via="http")
DEPTHS = (5, 10, 20)
AT_ONCE = 400
ADVERSARIAL = 5
TURN = re.compile(r"D\d+:\d+")
SESSION = re.compile(r"session_\d+")


class Question(NamedTuple):
    """A question, and the turns that answer it."""

    text: str
    evidence: frozenset[str]


class Conversation(NamedTuple):
    """Turns by their ids, and the questions about them."""

    ns: str
    turns: Mapping[str, str]
    questions: Sequence[Question]


def contents(path: Path) -> Iterator[Any]:
    """The JSON documents under a path."""
    if path.is_dir():
        found = sorted(path.rglob("*.json")) or sorted(path.rglob("*.zip"))
        for one in found:
            yield from contents(one)
    elif path.suffix == ".zip":
        with zipfile.ZipFile(path) as packed:
            for name in sorted(packed.namelist()):
                if name.endswith(".json") and "__MACOSX" not in name:
                    yield json.loads(packed.read(name))
    else:
        yield json.loads(path.read_text(encoding="utf-8"))


def conversations(path: Path, *, dated: bool) -> Iterator[Conversation]:
    """Both layouts: one file for each conversation, or one list with all of them."""
    number = 0
    for document in contents(path):
        for one in document if isinstance(document, list) else [document]:
            if isinstance(one, dict) and "qa" in one:
                number += 1
                yield _conversation(f"custom:locomo.{number}", one, dated=dated)


def _conversation(ns: str, one: Mapping[str, Any], *, dated: bool) -> Conversation:
    sessions = one.get("conversation", one)
    turns: dict[str, str] = {}
    for name, said in sessions.items():
        if SESSION.fullmatch(name) and isinstance(said, list):
            when = f" ({sessions.get(f'{name}_date_time', '')})" if dated else ""
            for turn in said:
                caption = f" [{turn['blip_caption']}]" if turn.get("blip_caption") else ""
                turns[turn["dia_id"]] = f"{turn['speaker']}{when}: {turn.get('text') or ''}{caption}"
    questions = []
    for asked in one["qa"]:
        evidence = frozenset(TURN.findall(" ".join(asked.get("evidence") or ()))) & turns.keys()
        if evidence and asked.get("category") != ADVERSARIAL:
            questions.append(Question(asked["question"], evidence))
    return Conversation(ns, turns, questions)


async def fill(opened: OpenedMemory, one: Conversation) -> dict[str, str]:
    """The turns by the ids of their memories."""
    await make_namespace(opened.memory, CALLER, one.ns, kind="custom")
    nsh, made = ids.namespace_hash(one.ns), dict[str, str]()
    turns, at = list(one.turns.items()), opened.memory.clock.now()
    for start in range(0, len(turns), AT_ONCE):
        async with opened.memory.space.transaction() as tx:
            for turn, text in turns[start : start + AT_ONCE]:
                uuid = opened.memory.new_id()
                made[uuid] = turn
                record = Memory(ns=one.ns, kind="fact", text=text, via="http", created_at=at)
                tx.set(ids.memory_entity(nsh, uuid), records.stored(record), blind=True)
        await tx.confirmed()
    return made


async def recalls(opened: OpenedMemory, one: Conversation, turns: Mapping[str, str]) -> list[list[float]]:
    """For each question the recall at each depth."""
    found = []
    for question in one.questions:
        query = SearchQuery([one.ns], text=question.text, limit=max(DEPTHS))
        answer = await searching.search(opened.memory, CALLER, query)
        ranked = [turns[hit.id] for hit in answer.found]
        found.append([len(question.evidence & set(ranked[:depth])) / len(question.evidence) for depth in DEPTHS])
    return found


async def measure(path: Path, *, dated: bool) -> None:
    with tempfile.TemporaryDirectory() as directory:
        os.environ["STEMMADB_HOME"] = f"{directory}/home"
        async with open_store(Path(directory) / "data") as store:
            service = Service(store, server=Identity.make().did, now=now, random=os.urandom)
            try:
                data = Path(directory) / "data"
                async with opened_memory(local_dial(service), url=URL, data=data) as opened:
                    every = list(conversations(path, dated=dated))
                    turns = [await fill(opened, one) for one in every]
                    await opened.memory.index.reach()
                    found = [
                        recall
                        for one, its_turns in zip(every, turns, strict=True)
                        for recall in await recalls(opened, one, its_turns)
                    ]
            finally:
                await service.stop()
    if not found:
        raise SystemExit(f"There is no question with evidence under {path}.")
    means = [sum(column) / len(found) for column in zip(*found, strict=True)]
    shown = "   ".join(f"@{depth} {mean:.3f}" for depth, mean in zip(DEPTHS, means, strict=True))
    what = "with the session's date" if dated else "the turn alone"
    print(f"{what:<26}{shown}   {len(found)} questions, {sum(len(one.turns) for one in every)} turns", flush=True)


async def main(path: Path) -> None:
    for dated in (False, True):
        await measure(path, dated=dated)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("path", type=Path)
    asyncio.run(main(parser.parse_args().path))
