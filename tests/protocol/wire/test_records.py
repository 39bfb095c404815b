"""What is sent of facts and commits is what was stored, and verifies as such (FACT-2, FACT-3)."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import msgspec
import pytest

from stemmadb.protocol.errors import Malformed
from stemmadb.protocol.model.log import facts
from stemmadb.protocol.model.log.commit_record import Commit, Erase, LocalIdentity, OperationIdentity, sealed
from stemmadb.protocol.model.log.facts import NO_BODY, Fact
from stemmadb.protocol.model.values.body import encode
from stemmadb.protocol.model.values.ids import BranchName, Did, EntityId, Hash, Local, TimeMs, Version
from stemmadb.protocol.wire import records

SPACE = Did("did:key:z6MkiTBz1ymuepAQ4HEHYSF1H8quG5GLVVQR3djdX3mDooWp")
ID, MAIN = EntityId("urn:a:1"), BranchName("main")
SALT, BODY = bytes(16), encode({"a": 1})


def fact(
    index: int, kind: Any, *, salt: bytes | None = SALT, body: bytes | None = BODY, digest: Hash | None = None
) -> Fact:
    digest = digest or (facts.digest_of(salt, body) if salt is not None and body is not None else NO_BODY)
    parent = facts.empty(ID)
    return Fact(
        version=Version(3), index=index, branch=MAIN, id=ID, kind=kind, parent=parent, digest=digest,
        hash=facts.hash_fact(kind, ID, parent, digest), salt=salt, body=body,
    )  # fmt: skip


SET, DELETE = fact(0, "set"), fact(1, "delete", salt=None, body=None)
GONE = fact(2, "patch", salt=None, body=None, digest=Hash(b"d" * 32))
COMMIT = sealed(SPACE, Commit(
    version=Version(3), previous=Hash(b"p" * 32), identity=LocalIdentity(SPACE, bytes(16), Local(7)), time=TimeMs(5),
    request=Hash(b"r" * 32), branch=MAIN, facts=(SET.hash, DELETE.hash, GONE.hash),
    note_digest=facts.digest_of(SALT, BODY), note=BODY, note_salt=SALT,
))  # fmt: skip
WIDE = sealed(SPACE, Commit(
    version=Version(3), previous=Hash(b"p" * 32), identity=OperationIdentity(SPACE, bytes(16)), time=TimeMs(5),
    request=Hash(b"r" * 32), branch=None, facts=(SET.hash,), fact_branches=(MAIN,), note_digest=NO_BODY,
    arguments=encode(Erase(id=ID, versions=(Version(2),))),
))  # fmt: skip


@pytest.mark.rule("FACT-2")
@pytest.mark.parametrize("one", [SET, DELETE, GONE], ids=["set", "delete", "gone"])
@pytest.mark.parametrize("names_branch", [True, False])
def test_a_fact_comes_back_with_its_hash_computed(one: Fact, names_branch: bool) -> None:
    item = records.fact_item(one, names_branch=names_branch)
    assert (item.digest is not None) is (one is GONE)
    assert records.fact_of(item, one.version, None if names_branch else MAIN) == one


@pytest.mark.rule("FACT-2")
@pytest.mark.parametrize(
    ("change", "place"),
    [
        ({"salt": None}, "salt"),
        ({"body": None}, "salt"),
        ({"salt": None, "body": None}, "digest"),
    ],
)
def test_a_fact_that_lacks_what_its_hash_covers_is_malformed(change: dict[str, Any], place: str) -> None:
    item = msgspec.structs.replace(records.fact_item(SET), **change)
    with pytest.raises(Malformed) as caught:
        records.fact_of(item, Version(3), MAIN)
    assert caught.value.facts["path"] == place


@pytest.mark.rule("FACT-2")
def test_a_fact_of_a_space_wide_write_names_its_branch() -> None:
    with pytest.raises(Malformed):
        records.fact_of(records.fact_item(SET), Version(3), None)


@pytest.mark.rule("FACT-3")
@pytest.mark.parametrize("commit", [COMMIT, WIDE], ids=["commit", "erase"])
def test_a_commit_record_comes_back_whole(commit: Commit) -> None:
    entry = records.log_entry(commit, [SET])
    assert records.commit_of(entry) == commit
    assert entry.kind == commit.kind
    assert [records.fact_of(item, commit.version, commit.branch) for item in entry.items] == [SET]


@pytest.mark.rule("FACT-3")
@pytest.mark.parametrize("change", [{"session": None}, {"local": None}, {"operation": bytes(16)}])
def test_a_commit_has_one_identity(change: dict[str, Any]) -> None:
    with pytest.raises(Malformed):
        records.commit_of(msgspec.structs.replace(records.log_entry(COMMIT), **change))


@pytest.mark.rule("SYNC-3")
def test_a_commit_in_a_frame_says_who_made_it_and_where() -> None:
    item = records.commit_item(COMMIT, [SET, DELETE])
    assert (item.version, item.branch, item.author, item.local, item.note) == (3, MAIN, SPACE, 7, BODY)
    assert [one.branch for one in item.facts] == [None, None]
    wide = records.commit_item(WIDE, [SET])
    assert (wide.kind, wide.branch, wide.local, wide.facts[0].branch) == ("erase", None, None, MAIN)


FOUR = [fact(index, "set") for index in range(4)]
LARGE = records.log_entry(COMMIT, FOUR)


def _going_on(entry: Any, items: Any) -> Any:
    """What a page begins with if the one before ended inside an entry."""
    return msgspec.structs.replace(entry, facts=(), note=None, note_salt=None, items=tuple(items))


@pytest.mark.rule("FACT-3", "HISTORY-1")
@pytest.mark.parametrize("cuts", [(), (2,), (0, 4), (1, 2, 3)])
def test_an_entry_that_went_on_over_pages_is_one_entry_again(cuts: tuple[int, ...]) -> None:
    edges = [*cuts, 4]
    first = msgspec.structs.replace(LARGE, items=LARGE.items[: edges[0]])
    others = [_going_on(LARGE, LARGE.items[start:end]) for start, end in pairwise(edges)]
    older = msgspec.structs.replace(LARGE, version=Version(2))
    assert records.joined_entries([first, *others, older]) == (LARGE, older)
    assert records.commit_of(records.joined_entries([first, *others])[0]) == COMMIT


@pytest.mark.rule("FACT-3")
@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"hash": Hash(b"h" * 32)}, "not of one commit"),
        ({"facts": LARGE.facts}, "not of one commit"),
        ({"items": LARGE.items[1:]}, "continue by index"),
    ],
)
def test_an_entry_that_does_not_go_on_is_malformed(change: dict[str, Any], why: str) -> None:
    first = msgspec.structs.replace(LARGE, items=LARGE.items[:2])
    with pytest.raises(Malformed, match=why):
        records.joined_entries([first, msgspec.structs.replace(_going_on(LARGE, LARGE.items[2:]), **change)])


@pytest.mark.rule("FACT-3")
def test_no_entries_are_no_entries() -> None:
    assert records.joined_entries([]) == ()
