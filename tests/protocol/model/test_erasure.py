"""Which bodies an erasure takes: those named, and every copy the server made of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from stemmadb.protocol.errors import FutureVersion, Malformed, NotFound
from stemmadb.protocol.model.history import erasure
from stemmadb.protocol.model.history.difference import Content
from stemmadb.protocol.model.history.erasure import ErasurePlan
from stemmadb.protocol.model.history.origins import WrittenLeaves
from stemmadb.protocol.model.log import branch_spans, replay
from stemmadb.protocol.model.log.ancestry import BranchPoint
from stemmadb.protocol.model.log.commit_record import Arguments, Compact, Erase, Merge, Revert
from stemmadb.protocol.model.log.facts import NO_BODY, Fact, FactKind, empty
from stemmadb.protocol.model.log.state import BranchState, Missing
from stemmadb.protocol.model.values.body import encode
from stemmadb.protocol.model.values.ids import BranchName, EntityId, Version

X = EntityId("urn:x")
SECRET = {"name": "secret"}
PLAIN = {"name": "plain"}
GONE = object()


class History:
    """Facts of one entity, written down one after the other, and what erasing some of them takes."""

    def __init__(self) -> None:
        self.branches = {BranchName("main"): BranchState(name=BranchName("main"))}
        self.written: list[WrittenLeaves] = []
        self.version = Version(0)

    def write(self, kind: FactKind, value: Any = None, *, on: str = "main", by: Arguments | None = None) -> Version:
        self.version = Version(self.version + 1)
        return self.also(kind, value, on=on, by=by)

    def also(self, kind: FactKind, value: Any = None, *, on: str = "main", by: Arguments | None = None) -> Version:
        """One more fact of the same commit."""
        index = sum(one.fact.version == self.version for one in self.written)
        body = None if kind == "delete" or value is GONE else encode(value)
        digest = NO_BODY
        fact = Fact(self.version, index, BranchName(on), X, kind, empty(X), digest, empty(X), None, body)
        self.written.append(WrittenLeaves(fact, by))
        return self.version

    def skip(self) -> Version:
        """A commit of other entities."""
        self.version = Version(self.version + 1)
        return self.version

    def fork(self, name: str, *, parent: str = "main", at: int | None = None) -> None:
        fork = self.version if at is None else Version(at)
        self.branches[BranchName(name)] = BranchState(name=BranchName(name), parent=BranchName(parent), fork=fork)

    def end(self, name: str) -> None:
        old = self.branches[BranchName(name)]
        self.branches[old.name] = BranchState(
            name=old.name, parent=old.parent, fork=old.fork, deleted=Version(self.version + 1)
        )

    def merged(
        self, source: str, kind: FactKind, value: Any = None, *, on: str = "main", resolved: bool = False
    ) -> Version:
        details = Merge(
            source=BranchName(source),
            source_version=self.version,
            target_version=self.version,
            resolved=(X,) if resolved else (),
        )
        return self.write(kind, value, on=on, by=details)

    def reverted(self, *versions: int, kind: FactKind, value: Any = None, on: str = "main") -> Version:
        return self.write(kind, value, on=on, by=Revert(versions=tuple(map(Version, versions))))

    def value_at(self, point: BranchPoint) -> Content:
        spans = branch_spans.lineage(self.branches, point.branch, point.version)
        seen = [one.fact for one in self.written if branch_spans.visible(spans, one.fact.branch, one.fact.version)]
        return replay.fold(Missing.ABSENT, seen)

    def erase(self, *versions: int) -> ErasurePlan:
        return erasure.plan(
            X,
            self.written,
            [Version(version) for version in versions],
            branches=self.branches,
            head=self.version,
            value_at=self.value_at,
        )


def rename(value: str) -> list[dict[str, Any]]:
    return [{"op": "replace", "path": "/name", "value": value}]


def places(plan: ErasurePlan) -> list[tuple[int, int]]:
    return [(version, index) for version, index in plan.facts]


def heads(plan: ErasurePlan) -> Sequence[str]:
    return plan.heads


@pytest.mark.rule("ERASE-1")
def test_only_the_versions_named_go_where_there_are_no_copies() -> None:
    history = History()
    history.write("set", PLAIN)
    secret = history.write("set", SECRET)
    history.write("set", PLAIN)
    plan = history.erase(secret)
    assert plan == ErasurePlan(versions=(secret,), facts=((secret, 0),), heads=())


@pytest.mark.rule("ERASE-1")
def test_all_facts_of_the_entity_in_a_commit_go_together() -> None:
    history = History()
    history.write("set", SECRET)
    history.also("patch", rename("more secret"))
    history.also("set", PLAIN)
    assert places(history.erase(1)) == [(1, 0), (1, 1), (1, 2)]


@pytest.mark.rule("ERASE-1")
def test_a_head_that_is_replayed_from_what_goes_needs_a_survivor() -> None:
    history = History()
    history.write("set", SECRET)
    history.write("patch", rename("other"))
    plan = history.erase(1)
    assert places(plan) == [(1, 0)], "a client's own patch is no copy"
    assert heads(plan) == ("main",)


@pytest.mark.rule("ERASE-1")
def test_erasing_a_patch_taints_what_follows_until_a_set_or_a_delete() -> None:
    history = History()
    history.write("set", PLAIN)
    patch = history.write("patch", rename("secret"))
    history.fork("a")
    history.write("delete")
    history.fork("b")
    history.write("set", PLAIN)
    plan = history.erase(patch)
    assert heads(plan) == ("a",)


@pytest.mark.rule("ERASE-1")
def test_every_live_branch_that_sees_it_needs_a_survivor_and_a_deleted_one_does_not() -> None:
    history = History()
    history.write("set", PLAIN)
    history.fork("before")
    history.write("set", SECRET)
    for name in ("b", "a", "ended"):
        history.fork(name)
    history.fork("below", parent="a")
    history.end("ended")
    history.write("set", PLAIN, on="b")
    assert heads(history.erase(2)) == ("a", "below", "main")


@pytest.mark.rule("ERASE-1")
@pytest.mark.parametrize("kind", ["set", "patch"])
def test_what_a_merge_copied_goes_too_on_every_branch_it_went_on_to(kind: FactKind) -> None:
    history = History()
    history.write("set", PLAIN)
    history.fork("draft")
    history.fork("other")
    secret = history.write("set", SECRET, on="draft")
    body = SECRET if kind == "set" else rename("secret")
    first = history.merged("draft", kind, body)
    second = history.merged("main", kind, body, on="other")
    plan = history.erase(secret)
    assert places(plan) == [(secret, 0), (first, 0), (second, 0)]
    assert plan.versions == (secret, first, second)
    assert heads(plan) == ("draft", "main", "other")


@pytest.mark.rule("ERASE-1")
def test_a_merge_is_judged_by_the_version_of_the_source_it_took() -> None:
    history = History()
    history.write("set", PLAIN)
    history.fork("draft")
    history.write("set", SECRET, on="draft")
    history.write("set", {"name": "later"}, on="draft")
    history.merged("draft", "patch", rename("later"))
    assert places(history.erase(2)) == [(2, 0)]


@pytest.mark.rule("ERASE-1")
def test_a_set_that_a_merge_took_from_a_clean_source_stays_and_mends_the_target() -> None:
    history = History()
    secret = history.write("set", SECRET)
    history.fork("draft")
    history.write("set", PLAIN, on="draft")
    history.merged("draft", "set", PLAIN)
    plan = history.erase(secret)
    assert places(plan) == [(secret, 0)]
    assert heads(plan) == ()


@pytest.mark.rule("ERASE-1")
def test_a_merge_that_mixed_something_into_a_tainted_target_goes() -> None:
    history = History()
    secret = history.write("set", SECRET)
    history.fork("draft")
    history.write("set", PLAIN, on="draft")
    mixed = history.merged("draft", "set", {"name": "plain", "also": "secret"})
    assert places(history.erase(secret)) == [(secret, 0), (mixed, 0)]


@pytest.mark.rule("ERASE-1")
def test_what_the_caller_resolved_in_a_merge_is_the_callers_own_unless_it_is_a_patch_of_what_goes() -> None:
    history = History()
    history.write("set", PLAIN)
    history.fork("draft")
    history.write("set", SECRET, on="draft")
    resolution = history.merged("draft", "set", {"name": "chosen"}, resolved=True)
    assert places(history.erase(2)) == [(2, 0)]
    assert places(history.erase(resolution)) == [(resolution, 0)]
    history = History()
    history.write("set", SECRET)
    history.fork("draft")
    history.write("set", PLAIN, on="draft")
    patched = history.merged("draft", "patch", rename("chosen"), resolved=True)
    assert places(history.erase(1)) == [(1, 0), (patched, 0)]


@pytest.mark.rule("ERASE-1")
def test_a_delete_that_was_merged_ends_it_and_has_nothing_to_erase() -> None:
    history = History()
    history.write("set", SECRET)
    history.fork("draft")
    history.write("delete", on="draft")
    history.merged("draft", "delete")
    plan = history.erase(1)
    assert places(plan) == [(1, 0)]
    assert heads(plan) == ()


@pytest.mark.rule("ERASE-1")
@pytest.mark.parametrize("kind", ["set", "patch"])
def test_what_a_revert_brought_back_goes(kind: FactKind) -> None:
    history = History()
    secret = history.write("set", SECRET)
    harmless = history.write(kind, PLAIN if kind == "set" else rename("plain"))
    undo = history.reverted(harmless, kind=kind, value=SECRET if kind == "set" else rename("secret"))
    plan = history.erase(secret)
    assert places(plan) == [(secret, 0), (undo, 0)]
    assert heads(plan) == ("main",)


@pytest.mark.rule("ERASE-1")
def test_a_revert_that_took_the_secret_back_stays_as_it_holds_what_was_there_before() -> None:
    history = History()
    history.write("set", PLAIN)
    secret = history.write("set", SECRET)
    history.reverted(secret, kind="set", value=PLAIN)
    plan = history.erase(secret)
    assert places(plan) == [(secret, 0)]
    assert heads(plan) == ()


@pytest.mark.rule("ERASE-1")
def test_a_revert_that_holds_something_else_than_was_there_before_goes() -> None:
    history = History()
    history.write("set", PLAIN)
    secret = history.write("set", SECRET)
    undo = history.reverted(secret, kind="set", value={"name": "plain", "kept": "secret"})
    assert places(history.erase(secret)) == [(secret, 0), (undo, 0)]


@pytest.mark.rule("ERASE-1")
def test_a_revert_of_something_else_stays_however_much_was_erased_before() -> None:
    history = History()
    secret = history.write("set", SECRET)
    history.write("set", PLAIN)
    edit = history.write("patch", rename("edited"))
    history.reverted(edit, secret + 100, kind="patch", value=rename("plain"))
    assert places(history.erase(secret)) == [(secret, 0)]


@pytest.mark.rule("ERASE-1")
def test_a_revert_is_judged_only_by_the_undone_commits_that_wrote_the_entity() -> None:
    history = History()
    secret = history.write("set", SECRET)
    elsewhere = history.skip()
    history.write("set", PLAIN)
    edit = history.write("patch", rename("edited"))
    history.reverted(elsewhere, edit, kind="patch", value=rename("plain"))
    assert places(history.erase(secret)) == [(secret, 0)]


@pytest.mark.rule("ERASE-1")
def test_a_revert_of_a_commit_that_held_the_secret_only_between_its_operations_goes() -> None:
    history = History()
    history.write("set", PLAIN)
    both = history.write("patch", rename("secret"))
    history.also("set", {"name": "end"})
    history.write("set", {"name": "after"})
    undo = history.reverted(both, kind="patch", value=rename("secret"))
    assert places(history.erase(both)) == [(both, 0), (both, 1), (undo, 0)]


@pytest.mark.rule("ERASE-1")
def test_a_revert_on_a_branch_of_what_its_parent_wrote_is_found() -> None:
    history = History()
    secret = history.write("set", SECRET)
    harmless = history.write("set", PLAIN)
    history.fork("draft")
    history.write("patch", rename("mine"), on="draft")
    undo = history.reverted(harmless, kind="patch", value=rename("secret"), on="draft")
    assert places(history.erase(secret)) == [(secret, 0), (undo, 0)]


@pytest.mark.rule("ERASE-1")
def test_checkpoints_of_what_goes_go_and_others_stay() -> None:
    history = History()
    secret = history.write("set", SECRET)
    copy = history.write("checkpoint", SECRET, by=Compact(floor=Version(1)))
    history.write("set", PLAIN)
    history.write("checkpoint", PLAIN, by=Compact(floor=Version(1)))
    assert places(history.erase(secret)) == [(secret, 0), (copy, 0)]


@pytest.mark.rule("ERASE-1")
def test_erasing_a_checkpoint_alone_takes_nothing_from_the_state() -> None:
    history = History()
    history.write("set", PLAIN)
    checkpoint = history.write("checkpoint", PLAIN, by=Compact(floor=Version(1)))
    plan = history.erase(checkpoint)
    assert places(plan) == [(checkpoint, 0)]
    assert heads(plan) == ()


@pytest.mark.rule("ERASE-1")
def test_erasing_a_checkpoint_before_which_all_was_compacted_away_leaves_no_value() -> None:
    history = History()
    history.write("set", GONE)
    history.write("patch", GONE)
    checkpoint = history.write("checkpoint", PLAIN, by=Compact(floor=Version(1)))
    history.write("patch", rename("x"))
    assert heads(history.erase(checkpoint)) == ("main",)


@pytest.mark.rule("ERASE-1")
def test_what_was_compacted_away_taints_nothing_and_a_copy_of_it_is_found_if_its_version_is_named() -> None:
    history = History()
    history.write("set", GONE)
    history.fork("draft")
    history.write("patch", GONE)
    history.write("checkpoint", GONE, by=Compact(floor=Version(1)))
    copy = history.merged("main", "set", SECRET, on="draft")
    other = history.write("set", PLAIN, on="draft")
    assert places(history.erase(other)) == [(other, 0)]
    plan = history.erase(1)
    assert places(plan) == [(copy, 0)]
    assert plan.versions == (1, copy)
    assert heads(plan) == ("main",)


@pytest.mark.rule("ERASE-1")
def test_erasing_twice_takes_nothing_more() -> None:
    history = History()
    history.write("set", GONE)
    history.write("set", PLAIN, by=Erase(id=X, versions=(Version(1),)))
    assert history.erase(1) == ErasurePlan(versions=(Version(1),), facts=(), heads=())


@pytest.mark.rule("ERASE-1")
def test_a_survivor_of_an_earlier_erasure_is_a_value_like_any_other() -> None:
    history = History()
    history.write("set", PLAIN)
    survivor = history.write("set", SECRET, by=Erase(id=X, versions=(Version(1),)))
    assert places(history.erase(1)) == [(1, 0)]
    assert heads(history.erase(survivor)) == ("main",)


@pytest.mark.rule("ERASE-1")
def test_a_delete_has_nothing_to_erase() -> None:
    history = History()
    history.write("set", PLAIN)
    delete = history.write("delete")
    assert history.erase(delete) == ErasurePlan(versions=(delete,), facts=(), heads=())


@pytest.mark.rule("ERASE-1")
def test_versions_that_cannot_be_erased_are_refused() -> None:
    history = History()
    history.write("set", PLAIN)
    with pytest.raises(NotFound) as missing:
        history.erase(0, 1)
    assert missing.value.facts == {"id": X, "version": 0}
    with pytest.raises(FutureVersion) as future:
        history.erase(1, 2)
    assert future.value.facts == {"version": 2, "head": 1}
    with pytest.raises(Malformed):
        history.erase()
