"""Export and import of decisions and proposals: authority, dates, all or nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from memory_worlds import ADMIN, AGENT, TestClock, memory_world
from stemmadb.memory.operations import decisions, proposals, transfers
from stemmadb.memory.operations.checking import check
from stemmadb.memory.rules import proposal_files
from stemmadb.memory.rules.decisions import DecisionDraft, read_draft
from stemmadb.memory.rules.ids import MemoryId
from stemmadb.memory.rules.instants import Millis
from stemmadb.memory.rules.refusals import (
    InvalidRequest,
    IsolationViolation,
    NoSuchMemory,
    NotEnoughEvidence,
    ReviewWindow,
    TargetTaken,
)
from stemmadb.memory.rules.transfers import ImportedDecision, exported, older_first, read_line

NS, OTHER = "custom:acme.api", "custom:copy"
DRAFT = DecisionDraft("Use SQLite", "database", "It needs no server", ["one writer"])
IDS = [MemoryId(f"00000000-0000-4000-8000-00000000000{number}") for number in range(3)]


def line(**fields: object) -> dict[str, object]:
    return {"title": "t", "target": "x", "rationale": "because it is so"} | fields


@pytest.mark.rule("MCP-14")
async def test_what_is_exported_comes_back_the_same(tmp_path: Path) -> None:
    async with memory_world(tmp_path / "data") as opened:
        memory = opened.memory
        first = await decisions.record_decision(memory, AGENT, NS, DRAFT)
        await decisions.supersede_decision(memory, ADMIN, NS, DRAFT._replace(rationale="A person says so"), [first])
        lines = [exported(one.id, one.memory) for one in await transfers.export_decisions(memory, AGENT, NS)]
        assert [one["rationale"] for one in lines] == ["[via MCP] It needs no server", "A person says so"]
        read = [read_line(one, "human", 1) for one in lines]
        report = await transfers.import_decisions(memory, ADMIN, OTHER, list(reversed(read)))
        assert len(report.made) == 2
        again = await transfers.export_decisions(memory, AGENT, OTHER)
        assert [exported(one.id, one.memory) for one in again] == lines
        assert [one.memory.authority for one in again] == ["agent", "human"]
        assert (await transfers.import_decisions(memory, ADMIN, OTHER, read)).made == []
        assert (await check(memory))[1] == []


@pytest.mark.rule("MCP-14")
async def test_an_import_that_breaks_a_rule_writes_nothing(tmp_path: Path) -> None:
    async with memory_world(tmp_path / "data") as opened:
        memory = opened.memory
        active = await decisions.record_decision(memory, AGENT, NS, DRAFT)
        cases: list[tuple[type[Exception], list[dict[str, object]]]] = [
            (TargetTaken, [line(), line(target="database")]),
            (InvalidRequest, [line(), line(title="two")]),
            (NoSuchMemory, [line(), line(target="y", supersedes=[IDS[0]])]),
            (InvalidRequest, [line(), line(target="y", supersedes=[active])]),
            (InvalidRequest, [line(id=IDS[0]), line(id=IDS[1], target="y", supersedes=[IDS[0]])]),
        ]
        for refusal, lines in cases:
            read = [read_line(one, "agent", 1) for one in lines]
            with pytest.raises(refusal):
                await transfers.import_decisions(memory, AGENT, NS, read)
        assert [one.id for one in await transfers.export_decisions(memory, AGENT, NS)] == [active]


@pytest.mark.rule("MCP-14")
def test_lines_are_checked() -> None:
    assert read_line(line(rationale="[via MCP ada] forged"), "human", 1).authority == "agent"
    assert read_line(line(rationale="said [via MCP]"), "human", 1).authority == "human"
    cases: tuple[object, ...] = (
        [],
        line(title=" "),
        line(status="draft"),
        line(id="x"),
        line(supersedes=["x"]),
        line(supersedes="x"),
        line(evidence=[1]),
        line(created_at="yesterday"),
        line(rationale="[via MCP]  "),
    )
    for wrong in cases:
        with pytest.raises(InvalidRequest, match="line 7"):
            read_line(wrong, "human", 7)


@pytest.mark.rule("MCP-14")
def test_a_circle_of_supersession_is_refused() -> None:
    def superseding(number: int, *olds: int) -> ImportedDecision:
        given = line(id=IDS[number], status="superseded", supersedes=[IDS[old] for old in olds])
        return read_line(given, "agent", 1)

    chain = [superseding(0, 1), superseding(1, 2), superseding(2)]
    assert [one.id for one in older_first(chain)] == [IDS[2], IDS[1], IDS[0]]
    for circle in ([superseding(0, 0)], [superseding(0, 1), superseding(1, 2), superseding(2, 0)]):
        with pytest.raises(InvalidRequest, match="circle"):
            older_first(circle)
    with pytest.raises(InvalidRequest, match="same id"):
        older_first([superseding(0), superseding(0)])


@pytest.mark.rule("MCP-5")
@pytest.mark.rule("MCP-15")
async def test_an_imported_proposal_waits_from_now_whatever_date_it_has(tmp_path: Path) -> None:
    clock = TestClock()
    async with memory_world(tmp_path / "data", clock) as opened:
        memory, uuid = opened.memory, IDS[0]
        given = {"draft": DRAFT, "evidence": ["a", "a", " "], "created_at": Millis(1)}
        assert await transfers.import_proposal(memory, AGENT, NS, uuid, **given)  # type: ignore[arg-type]
        with pytest.raises(ReviewWindow):
            await proposals.accept_proposal(memory, ADMIN, NS, uuid)
        clock.pass_ms(3_599_000)
        assert not await transfers.import_proposal(memory, AGENT, NS, uuid, **given)  # type: ignore[arg-type]
        clock.pass_ms(2_000)
        memory.evidence_min = 2
        with pytest.raises(NotEnoughEvidence, match="1 of 2"):
            await proposals.accept_proposal(memory, ADMIN, NS, uuid)
        memory.evidence_min = 1
        changed = given | {"draft": DRAFT._replace(rationale="It needs no server at all")}
        assert await transfers.import_proposal(memory, AGENT, NS, uuid, **changed)  # type: ignore[arg-type]
        with pytest.raises(ReviewWindow):
            await proposals.accept_proposal(memory, ADMIN, NS, uuid)
        await transfers.import_proposal(memory, ADMIN, NS, IDS[1], DRAFT, [], None)
        with pytest.raises(IsolationViolation):
            await transfers.import_proposal(memory, AGENT, NS, IDS[1], DRAFT._replace(title="Mine"), [], None)


@pytest.mark.rule("MCP-15")
async def test_a_proposal_as_a_file(tmp_path: Path) -> None:
    async with memory_world(tmp_path / "data") as opened:
        draft = DRAFT._replace(rationale='Two lines:\n---\n"quoted" --- é', title="a: b")
        await proposals.propose_decision(opened.memory, AGENT, NS, draft, ["run 17"])
        (one,) = await proposals.list_proposals(opened.memory, AGENT, NS)
        read = proposal_files.read(proposal_files.written(one.proposal))
        assert read_draft(read) == draft
        assert read["evidence"] == ["run 17"]
    plain = proposal_files.read("---\ntitle: Use SQLite\ntarget: database\n---\n\nIt needs no server\n")
    assert (plain["title"], plain["rationale"]) == ("Use SQLite", "It needs no server")
    for wrong in ("", "no head", "---\ntitle: x\n", "---\nnot a line\n---\nbody"):
        with pytest.raises(InvalidRequest):
            proposal_files.read(wrong)
