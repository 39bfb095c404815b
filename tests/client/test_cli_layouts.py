"""How things look at 80 columns, in narrow and in wide terminals; and that nobody can forge what is shown."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from drawn_shapes import text_of
from stemmadb.client import Change
from stemmadb.client.cli import layouts
from stemmadb.client.cli.escapes import clean
from stemmadb.client.cli.safe_text import (
    Viewer,
    compact,
    counted,
    note_text,
    operation_text,
    pretty,
    short_did,
)
from stemmadb.client.cli.shapes import Shape, TextCell, TextLines, line
from stemmadb.client.notes import Note
from stemmadb.client.reading.branches import Branch, Tag
from stemmadb.client.reading.differences import Difference, EntityChange
from stemmadb.client.reading.entries import BlameLine, FactChange, HistoryEntry, LogEntry
from stemmadb.client.reading.merge import MergeClash, MergeReport, PlannedWrite
from stemmadb.client.reading.undo import RevertReport
from stemmadb.protocol.model.values.ids import BranchName, Did, EntityId, TimeMs, Version
from stemmadb.protocol.model.values.json_values import Value

ADA = Did("did:key:z6MkpbtAxUTTDrik4PB5KV4jU6iHBBncAF5siQaYJmbg18W1")
BOB = Did("did:key:z6MkuWRLmUwXjB9kcyuPNEPLdY9nGq6f8KhxVRbexqZhQCUw")
LOOKS = Viewer({ADA: "ada"}, UTC)
MAIN = BranchName("main")
TIME = TimeMs(1_794_821_425_000)


def logged(version: int, author: Did = ADA, **more: Any) -> LogEntry:
    given: dict[str, Any] = {
        "kind": "commit",
        "branch": MAIN,
        "time_ms": TIME,
        "facts_count": 1,
        "hash": "b3:x",
    } | more
    return LogEntry(version=Version(version), author=author, **given)


def changed(version: int, author: Did = ADA, **more: Any) -> HistoryEntry:
    given: dict[str, Any] = {"kind": "set", "branch": MAIN, "time_ms": TIME, "hash": "b3:x"} | more
    return HistoryEntry(version=Version(version), author=author, **given)


LOG = [
    logged(12, BOB, kind="merge", details={"kind": "merge", "source": "draft"}, facts_count=3),
    logged(11, note={"message": "a longer note that says why all of this had to be changed"}, facts_count=120),
    logged(2, kind="revert", details={"versions": [1, 2]}, note="by mistake"),
]


HISTORY = [
    changed(12, BOB, kind="delete", note="gone for good"),
    changed(11, kind="patch", patch=[{"op": "replace", "path": "/done", "value": True}], made_by="merge"),
    changed(9, kind="patch", gone=True),
    changed(2, value={"title": "write the specification of everything", "done": False}, note={"message": "first"}),
]
BLAME = [
    BlameLine(path="/title", version=Version(2), author=ADA, time_ms=TIME, note=Note(message="first")),
    BlameLine(path="/done", version=Version(12), author=BOB, time_ms=TIME),
]
VALUE: Value = {"title": "write the specification of everything", "done": True}
DIFFERENCE = Difference(
    left=Version(2),
    right=Version(12),
    changes=(
        EntityChange(id=EntityId("urn:todo:1"), before=Version(2), after=Version(11), patch=HISTORY[1].patch),
        EntityChange(id=EntityId("urn:todo:2"), after=Version(5), value={"title": "cook"}),
        EntityChange(id=EntityId("urn:todo:3"), before=Version(1), value=None),
    ),
)
BRANCHES = [
    Branch(name=BranchName("draft"), parent=MAIN, fork=Version(4), version=Version(0), deleted=Version(9)),
    Branch(name=MAIN, parent=None, fork=Version(0), version=Version(12)),
]
CLASH = MergeClash(
    id=EntityId("urn:todo:1"), path="/done", base=None, source=Version(6), target=Version(7), winner="source"
)
WRITES = (
    PlannedWrite(id=EntityId("urn:todo:1"), kind="patch", patch=HISTORY[1].patch),
    PlannedWrite(id=EntityId("urn:todo:2"), kind="set", value={"title": "cook"}),
    PlannedWrite(id=EntityId("urn:todo:3"), kind="delete"),
)
REPORT = MergeReport(
    version=None,
    source_version=Version(6),
    target_version=Version(7),
    conflicts=(CLASH,),
    conflicts_count=2,
    writes=WRITES,
    writes_count=4,
)
CHANGE = Change(
    Version(12),
    entered={EntityId("urn:todo:4"): {"title": "sleep"}},
    updated={EntityId("urn:todo:1"): VALUE},
    left=(EntityId("urn:todo:3"),),
)

GOLDEN = {
    "log": """\
VERSION  TIME                 AUTHOR         FACTS  NOTE
     12  2026-11-16 09:30:25  z6Mk…xqZhQCUw      3  merge draft
     11  2026-11-16 09:30:25  ada …Jmbg18W1    120  a longer note that says why
                                                    all of this had to be
                                                    changed
      2  2026-11-16 09:30:25  ada …Jmbg18W1      1  revert 1, 2: by mistake
""",
    "narrow log": """\
VERSION  TIME                 AUTHOR         NOTE
     12  2026-11-16 09:30:25  z6Mk…xqZhQCUw  merge draft
     11  2026-11-16 09:30:25  ada            a longer note
                                             that says why
                                             all of this had
                                             to be changed
      2  2026-11-16 09:30:25  ada            revert 1, 2: by
                                             mistake
""",
    "history": """\
VERSION  TIME                 AUTHOR         CHANGE                NOTE
     12  2026-11-16 09:30:25  z6Mk…xqZhQCUw  deleted               gone for good
     11  2026-11-16 09:30:25  ada …Jmbg18W1  /done = true          merge
      9  2026-11-16 09:30:25  ada …Jmbg18W1  erased or compacted
      2  2026-11-16 09:30:25  ada …Jmbg18W1  {"title": "write the  first
                                             specification of
                                             everything", "done":
                                             false}
""",
    "blame": """\
PATH    VALUE                 VERSION  TIME                 AUTHOR         NOTE
/title  "write the                  2  2026-11-16 09:30:25  ada …Jmbg18W1  first
        specification of
        everything"
/done   true                       12  2026-11-16 09:30:25  z6Mk…xqZhQCUw
""",
    "narrow blame": """\
PATH    VALUE    VERSION  TIME                 AUTHOR
/title  "write         2  2026-11-16 09:30:25  ada
        the
        specifi
        cation
        of
        everyth
        ing"
/done   true          12  2026-11-16 09:30:25  z6Mk…xqZhQCUw
""",
    "listing": """\
ID          VALUE
urn:todo:1  {"title": "write the specification of everything", "done": true}
urn:todo:2  null
""",
    "difference": """\
~ urn:todo:1
    /done = true
+ urn:todo:2  {"title": "cook"}
- urn:todo:3  null
""",
    "branches": """\
BRANCH  VERSION  PARENT  FORK  STATE
draft         0  main       4  deleted at 9
main         12
""",
    "merge": """\
Merging draft into main would write 4 entities.
~ urn:todo:1  /done = true
~ urn:todo:2  {"title": "cook"}
- urn:todo:3  deleted
... and 1 more
Both sides changed 2 places:
  urn:todo:1 /done  taken: source
    source@6
    target@7
... and 1 more
""",
    "change": """\
main@12  2026-11-16 09:31:00  1 entered  1 changed  1 left
  + urn:todo:4  {"title": "sleep"}
  ~ urn:todo:1  {"title": "write the specification of everything", "done": true}
  - urn:todo:3
""",
    "roles": """\
ROLE  NAME  DID
own   ada   did:key:z6MkpbtAxUTTDrik4PB5KV4jU6iHBBncAF5siQaYJmbg18W1
read        did:key:z6MkuWRLmUwXjB9kcyuPNEPLdY9nGq6f8KhxVRbexqZhQCUw
""",
}
SHAPES: dict[str, list[Shape]] = {
    "log": [layouts.log(LOG, LOOKS)],
    "narrow log": [layouts.log(LOG, LOOKS)],
    "history": [layouts.history(HISTORY, LOOKS)],
    "blame": [layouts.blame(BLAME, VALUE, LOOKS)],
    "narrow blame": [layouts.blame(BLAME, VALUE, LOOKS)],
    "listing": [layouts.listing({"urn:todo:1": VALUE, "urn:todo:2": None})],
    "difference": [layouts.difference(DIFFERENCE)],
    "branches": [layouts.branches(BRANCHES)],
    "merge": layouts.merge_report(REPORT, source="draft", target="main", dry_run=True),
    "change": [layouts.change(CHANGE, datetime(2026, 11, 16, 9, 31, tzinfo=UTC), LOOKS)],
    "roles": [layouts.roles({BOB: "read", ADA: "own"}, LOOKS)],
}


@pytest.mark.parametrize("name", GOLDEN)
def test_it_reads_well_at_80_columns_and_at_60(name: str) -> None:
    width = 60 if name.startswith("narrow") else 80
    text = "\n".join(text_of(shape, width) for shape in SHAPES[name])
    assert f"{text}\n" == GOLDEN[name]
    assert all(len(one) <= width for one in text.splitlines())


def test_where_there_is_room_a_did_is_whole_and_nothing_is_cut() -> None:
    wide = text_of(layouts.log(LOG, LOOKS, branches=True), 200)
    assert BOB in wide
    assert "BRANCH" in wide
    assert "a longer note that says why all of this had to be changed" in wide
    long: Value = {"text": "x" * 5_000}
    assert "x" * 5_000 in text_of(layouts.listing({"urn:a": long}), 100_000)


def test_a_log_with_facts_shows_what_each_commit_wrote() -> None:
    one = FactChange(id=EntityId("urn:a"), kind="set", branch=MAIN, value=None)
    two = FactChange(id=EntityId("urn:b"), kind="delete", branch=MAIN)
    three = FactChange(id=EntityId("urn:c"), kind="patch", branch=MAIN, gone=True)
    shown = text_of(layouts.log_with_facts([logged(3, changes=(one, two, three), note="why")], LOOKS), 80)
    assert shown.splitlines() == [
        "3  2026-11-16 09:30:25  ada …Jmbg18W1  main  why",
        "    set urn:a  null",
        "    delete urn:b  deleted",
        "    patch urn:c  erased or compacted",
    ]


def test_reports_say_what_was_done() -> None:
    def said(report: MergeReport, *, dry_run: bool = False) -> str:
        return text_of(layouts.merge_report(report, source="draft", target="main", dry_run=dry_run)[0], 80)

    done = MergeReport(version=Version(8), source_version=Version(6), target_version=Version(7), writes_count=1)
    none = MergeReport(version=None, source_version=Version(6), target_version=Version(7))
    assert said(done) == "Merged draft into main: version 8, 1 write."
    assert said(none) == "main has all that is on draft; there is nothing to merge."
    assert said(none, dry_run=True) == said(none)
    same = Difference(left=Version(1), right=Version(2), changes=())
    assert text_of(layouts.difference(same), 80) == "Nothing differs between version 1 and version 2."


def test_a_revert_says_what_it_took_back_or_would() -> None:
    def said(report: RevertReport, *, dry_run: bool = False) -> str:
        return "\n".join(text_of(one, 80) for one in layouts.revert_report(report, dry_run=dry_run))

    taken = (Version(3), Version(4))
    assert said(RevertReport(version=Version(9), reverted=taken)) == "Took back 3, 4 with version 9."
    assert said(RevertReport(version=None)) == "There is nothing left to take back."
    would = said(RevertReport(version=None, reverted=taken, writes=WRITES[2:], writes_count=1), dry_run=True)
    assert would == "This would take back 3, 4: 1 write.\n- urn:todo:3  deleted"


def test_a_change_of_very_many_entities_is_cut_for_a_person() -> None:
    many = Change(Version(1), {EntityId(f"urn:{number:05}"): number for number in range(1_000)}, {}, ())
    shown = text_of(layouts.change(many, datetime.now(UTC)), 80).splitlines()
    assert len(shown) == layouts.CHANGES_SHOWN + 2
    assert shown[-1] == "... and 800 more"
    nothing = text_of(layouts.change(Change(Version(1), {}, {}, ()), datetime.now(UTC)), 80)
    assert nothing.endswith("nothing is there")


def test_tags_are_listed() -> None:
    shown = text_of(layouts.tags([Tag(name=BranchName("v1"), branch=MAIN, version=Version(3))]), 80)
    assert shown.splitlines()[1].split() == ["v1", "main", "3"]


@pytest.mark.parametrize(
    ("operation", "text"),
    [
        ({"op": "add", "path": "/a", "value": [1]}, "/a = [1]"),
        ({"op": "replace", "path": "", "value": None}, "/ = null"),
        ({"op": "remove", "path": "/a"}, "/a removed"),
        ({"op": "increment", "path": "/n", "by": -2}, "/n += -2"),
        ({"op": "move", "path": "/a", "from": "/b"}, "/a move of /b"),
        ({"op": "splice", "path": "/l", "index": 1, "remove": 2, "add": ["x"]}, '/l at 1: 2 removed, ["x"] added'),
        ({"op": "test", "path": "/a", "value": 1}, "/a test 1"),
    ],
)
def test_an_operation_is_said_shortly(operation: dict[str, Any], text: str) -> None:
    assert operation_text(operation) == text


EVIL = "\x1b[2Jurn\r\n\x9b31m\u202egnirts\u2028\x00\U000e0001"


def test_what_others_wrote_cannot_move_the_cursor_or_forge_lines() -> None:
    assert clean("naïve 日本 🙂") == "naïve 日本 🙂"
    assert clean(EVIL).isprintable()
    assert json.loads(f'"{clean(EVIL)}"') == EVIL
    assert json.loads(pretty({EVIL: [EVIL]})) == {EVIL: [EVIL]}
    assert json.loads(compact({EVIL: EVIL})) == {EVIL: EVIL}
    shapes: list[Shape] = [
        layouts.listing({EVIL: EVIL}),
        layouts.log([logged(1, note=EVIL, branch=BranchName(EVIL))], LOOKS, branches=True),
        layouts.log_with_facts([logged(1, note={EVIL: 1}, kind="merge", details={"source": EVIL})], LOOKS),
        layouts.history([changed(1, kind="patch", patch=[{"op": EVIL, "path": EVIL}])], LOOKS),
        layouts.blame([BlameLine(path=f"/{EVIL}", version=Version(1), author=ADA, time_ms=TIME)], {}, LOOKS),
        layouts.change(Change(Version(1), {EntityId(EVIL): EVIL}, {}, (EntityId(EVIL),)), datetime.now(UTC)),
    ]
    for shape in shapes:
        assert all(one.isprintable() for one in text_of(shape, 300).splitlines())


def test_markup_in_a_value_is_shown_as_it_is() -> None:
    assert "[red]x[/red]" in text_of(layouts.listing({"urn:a": "[red]x[/red]"}), 80)
    assert text_of(TextLines([line(TextCell("[bold]:smile:", is_json=True))]), 80) == "[bold]:smile:"


@pytest.mark.parametrize(
    ("note", "text"),
    [
        (None, ""),
        ("why", "why"),
        ({"message": "why"}, "why"),
        ({"message": "why", "by": 1}, '{"message": "why", "by": 1}'),
    ],
)
def test_a_note_is_shown_as_it_was_meant(note: Any, text: str) -> None:
    assert note_text(note) == text


def test_small_words() -> None:
    assert short_did(BOB) == "z6Mk…xqZhQCUw"
    assert short_did("did:key:short") == "short"
    assert [counted(1, "entity", "entities"), counted(2, "entity", "entities"), counted(0, "write")] == [
        "1 entity",
        "2 entities",
        "0 writes",
    ]
