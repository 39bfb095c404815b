"""Notes: one type for every kind of write, however they were given or stored."""

from __future__ import annotations

import msgspec
import pytest

from stemmadb.client.notes import Note, given_note, read_note
from stemmadb.client.testing import World
from stemmadb.protocol.model.values.body import encode
from stemmadb.protocol.model.values.json_values import Value


@pytest.mark.parametrize(
    ("stored", "note", "text"),
    [
        (None, {}, ""),
        (encode(None), {}, ""),
        (encode("why"), {"message": "why"}, "why"),
        (encode({"message": "why"}), {"message": "why"}, "why"),
        (encode({"message": "why", "ticket": 7}), {"message": "why", "ticket": 7}, '{"message": "why", "ticket": 7}'),
        (encode({"ticket": 7}), {"ticket": 7}, '{"ticket": 7}'),
        (encode([1, 2]), {"message": "[1, 2]"}, "[1, 2]"),
        (encode({"message": 7}), {"message": 7}, "7"),
    ],
)
def test_whatever_was_stored_is_read_as_a_note(stored: bytes | None, note: dict[str, Value], text: str) -> None:
    found = read_note(stored)
    assert type(found) is Note
    assert found == note
    assert str(found) == text
    assert bool(found) is bool(note)
    assert msgspec.json.decode(msgspec.json.encode(found)) == note


def test_a_text_is_sent_as_a_message_and_a_note_as_it_was() -> None:
    assert given_note("why") == {"message": "why"}
    assert given_note({"ticket": 7}) == {"ticket": 7}
    assert given_note(None) is None
    assert given_note(Note()) is None
    assert type(given_note(Note(message="why"))) is dict


async def every_kind_of_write(world: World) -> None:
    await world.make_space("todo")
    async with world.connect() as db:
        space = await db.space("todo")
        async with space.transaction(note="why") as tx:
            tx.set("urn:a", 1)
        await tx.confirmed()
        async with space.transaction() as tx:
            tx.set("urn:b", 1)
        await tx.confirmed()
        draft = await space.branch("draft", create=True, note="why")
        async with draft.transaction(note="why") as tx:
            tx.set("urn:a", 2)
        await tx.confirmed()
        await draft.merge_into("main", note="why")
        await space.tags.create("v1", note="why")
        await space.tags.delete("v1", note="why")
        await space.delete_branch("draft", note="why")
        async with space.transaction(note="why") as tx:
            tx.set("urn:c", 3)
        await space.revert(await tx.confirmed(), note="why")
        async with space.transaction(note="why") as tx:
            tx.set("urn:d", 3)
        await space.erase("urn:d", [await tx.confirmed()], note="why")
        await space.compact(3, note="why")
        entries = [entry async for entry in space.log(branch=None)]
        assert len({entry.kind for entry in entries}) >= 8
        notes = [entry.note for entry in entries]
        assert {type(note) for note in notes} == {Note}
        assert {str(note) for note in notes} == {"why", ""}
        assert {note.get("message") for note in notes if note} == {"why"}
        assert {type(entry.note) async for entry in space.history("urn:a")} == {Note}
        assert {type(line.note) for line in await space.blame("urn:a")} == {Note}


def test_every_kind_of_write_has_a_note_of_one_type() -> None:
    World(seed=1).run(every_kind_of_write)
