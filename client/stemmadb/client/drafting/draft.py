"""A draft: what an app reads and writes in one transaction, over a view that does not change (NURSERY-2)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from stemmadb.client.drafting import inputs
from stemmadb.client.drafting.declared_reads import Reads
from stemmadb.client.drafting.entity_draft import DraftEntry, EntityDraft
from stemmadb.client.drafting.port import MISSING, MissingFromView, ViewLike
from stemmadb.client.drafting.steps import Delete, DraftContext, DraftStep, Patch, Put, StepBase, Update
from stemmadb.client.nursery.entities import ABSENT, UNKNOWN, CachedEntity, Nothing
from stemmadb.client.nursery.plans import CommitPlan
from stemmadb.client.nursery.shown import Shown
from stemmadb.protocol.errors import LimitExceeded, NotInView, StemmaError
from stemmadb.protocol.model import patch
from stemmadb.protocol.model.patch.operation import Operation
from stemmadb.protocol.model.values import ids
from stemmadb.protocol.model.values.ids import EntityId, Version
from stemmadb.protocol.model.values.json_values import Value
from stemmadb.protocol.model.values.limits import Limits


class _Learned(NamedTuple):
    """What a server said about an entity, with the pending commits of the view on top."""

    shown: Shown
    cached: CachedEntity | None


class TransactionDraft:
    """Records reads and writes, and comes to a `CommitPlan` that is never refused as `undeclared` (COMMIT-3).

    What is wrong is told at once, and the call that raised has written nothing. What cannot be judged yet, since the
    entity is not in view, waits until `learn` brings it; `plan` then judges it (NURSERY-8).

        draft = TransactionDraft(view, limits=limits)
        if draft.get("urn:todo:1", "/done") is MISSING:
            draft.learn(EntityId("urn:todo:1"), held)       # what the server said, as of `view.to`
        draft.patch("urn:todo:1", [{"op": "replace", "path": "/done", "value": True}])
        plan = draft.plan()
    """

    def __init__(self, view: ViewLike, *, limits: Limits, note: Value | None = None) -> None:
        self._view = view
        self._limits = limits
        self._note = None if note is None else inputs.take_note(note, limits)
        self._reads = Reads(limits)
        self._context = DraftContext(view.branch, limits, self._reads, patch.Work(limits.value_bytes_max))
        self._pages: dict[EntityId, EntityDraft] = {}
        self._entries: list[DraftEntry] = []
        self._steps: list[tuple[EntityId, DraftStep]] = []
        self.is_observed = False
        """True once the app has read anything, or seen an error: from then on the draft stays on its view."""
        self._listings: dict[str, dict[EntityId, _Learned]] = {}

    # ------------------------------------------------------------ reading

    def get(self, id_: str, path: str = "", default: Value = None) -> Value | MissingFromView:
        """A copy of what is at the path, or the default; `MISSING` if the server has to be asked first.

        Declares the read of that path, unless the draft wrote the whole entity itself.
        """
        tokens = inputs.take_path(path, self._limits)
        page = self._page(id_)
        self._settle(page)
        value = page.state.value
        if value is UNKNOWN:
            return MISSING
        page.base.claim(page.state, path)
        self.is_observed = True
        return default if value is ABSENT else inputs.copied(inputs.found(value, tokens, default))

    def listing(self, prefix: str) -> dict[EntityId, Value] | MissingFromView:
        """Copies of all entities whose ids begin so, by id; `MISSING` if the server has to be asked first.

        Declares that nothing else is there (COMMIT-2). The prefix is given without a `*`.
        """
        ids.id_prefix(prefix, self._limits.id_bytes_max)
        shown = self._listed(prefix)
        if shown is None:
            return MISSING
        found = {id_: one.value for id_, one in shown.items()}
        for id_, page in self._pages.items():
            if id_.startswith(prefix):
                self._settle(page)
                assert page.state.value is not UNKNOWN, "all that is under the prefix is known by now"
                found[id_] = page.state.value
        # What was learned may let a layer apply that does not on what the view holds.
        self.is_observed = True
        layers = self._view.layers_under(prefix) | {id_: one.layers for id_, one in shown.items()}
        self._reads.declare_prefix(prefix, self._view.to, layers)
        return {id_: inputs.copied(value) for id_, value in sorted(found.items()) if not isinstance(value, Nothing)}

    def learn(self, id_: EntityId, cached: CachedEntity) -> None:
        """What the server said about an entity, as of the version of the view or as of `held.as_of`."""
        learned = self._learned(id_, cached)
        self._page(id_).learn(*learned)

    def learn_listing(self, prefix: str, entities: Mapping[EntityId, CachedEntity]) -> None:
        """All that is confirmed under a prefix at the version of the view; what is not among them is not there."""
        assert all(id_.startswith(prefix) for id_ in entities), "the server answered for another prefix"
        listing = {id_: self._learned(id_, cached) for id_, cached in entities.items()}
        for id_ in self._view.layers_under(prefix):
            if id_ not in listing:
                listing[id_] = self._learned_absent(id_)
        self._listings[prefix] = listing
        for id_, page in self._pages.items():
            if id_.startswith(prefix):
                page.learn(*(listing.get(id_) or self._learned_absent(id_)))

    # ------------------------------------------------------------ writing

    def set(self, id_: str, value: object, *, blind: bool = False) -> None:
        """The whole value. It claims that the entity is as it was in the view, whether that is known here or not."""
        page = self._page(id_)
        self._take(page, Put(page.base.id, inputs.take_value(value, self._limits), blind))

    def create(self, id_: str, value: object) -> None:
        """The whole value of an entity that is not there; else `AlreadyExists`."""
        page = self._page(id_)
        self._take(page, Put(page.base.id, inputs.take_value(value, self._limits), is_new=True))

    def patch(self, id_: str, operations: Sequence[Operation], *, blind: bool = False) -> None:
        """The operations on what is there (PATCH-1). Without operations nothing is written."""
        page = self._page(id_)
        taken = inputs.take_patch(operations, self._limits)
        if taken.operations:
            self._take(page, Patch(page.base.id, taken, blind))

    def update(self, id_: str, value: object) -> None:
        """Another value for an entity that is there, written as a small patch; nothing if it is equal."""
        page = self._page(id_)
        self._take(page, Update(page.base.id, inputs.take_value(value, self._limits)))

    def increment(self, id_: str, path: str, by: int | float = 1, *, blind: bool = False) -> None:
        """Adds to a number. It claims nothing about the number, so that increments never collide (COMMIT-3)."""
        inputs.take_path(path, self._limits)
        self.patch(id_, [{"op": "increment", "path": path, "by": by}], blind=blind)

    def delete(self, id_: str, *, blind: bool = False) -> None:
        """Takes the entity away; `NotFound` if it is known not to be there."""
        page = self._page(id_)
        self._take(page, Delete(page.base.id, blind))

    # ------------------------------------------------------------ the end

    def moved_to(self, view: ViewLike) -> TransactionDraft:
        """The same writes on a later view. The app sees no difference as long as it has read nothing."""
        assert not self.is_observed, "what the app has read must not change"
        moved = TransactionDraft(view, limits=self._limits)
        moved._note = self._note
        for id_, step in self._steps:
            moved._take(moved._page(id_), step)
        return moved

    def missing(self) -> frozenset[EntityId]:
        """What must be learned before `plan`."""
        return frozenset([id_ for id_, page in self._pages.items() if not page.is_known and page.is_missing])

    def plan(self) -> CommitPlan:
        """What the draft comes to. Judges what has waited, as the call that asked for it would have done.

        `NotInView` if something is still missing.
        """
        for id_, page in self._pages.items():
            if not page.is_known and page.is_missing:
                raise NotInView(id=id_)
            page.settle()
        writes = tuple([entry.write for entry in self._entries if entry.write is not None])
        bases = [(id_, self._pages[id_].cached) for id_ in dict.fromkeys([write.id for write in writes])]
        return CommitPlan(
            branch=self._view.branch,
            writes=writes,
            reads=self._reads.planned(),
            note=self._note,
            bases=tuple([(id_, cached) for id_, cached in bases if cached is not None]),
        )

    # ------------------------------------------------------------ pages

    def _take(self, page: EntityDraft, step: DraftStep) -> None:
        if len(self._entries) >= self._limits.operations_max:
            bound = self._limits.operations_max
            raise LimitExceeded(bound="operations_max", maximum=bound, actual=bound + 1)
        try:
            entry = page.take(step)
        except StemmaError:
            self.is_observed = True  # an app that catches it has learned what is there
            raise
        self._steps.append((page.base.id, step))
        if entry is not None:
            self._entries.append(entry)

    def _settle(self, page: EntityDraft) -> None:
        try:
            page.settle()
        except StemmaError:
            self.is_observed = True
            raise

    def _page(self, id_: str) -> EntityDraft:
        page = self._pages.get(EntityId(id_))
        return page or self._open(inputs.take_id(id_, self._limits))

    def _open(self, id_: EntityId) -> EntityDraft:
        """What was learned with a listing is as of the view; what the view holds may be older."""
        learned = self._listed_one(id_) if self._listings else None
        if learned is None:
            # What is not in view can still be written whole: that claims it has not changed since.
            learned = _Learned(self._view.shown(id_) or Shown(UNKNOWN, self._view.to), None)
        page = self._pages[id_] = EntityDraft(StepBase(id_, learned.shown, self._context), learned.cached)
        return page

    def _listed_one(self, id_: EntityId) -> _Learned | None:
        for prefix, listing in self._listings.items():
            if id_.startswith(prefix):
                return listing.get(id_) or self._learned_absent(id_)
        return None

    def _listed(self, prefix: str) -> dict[EntityId, Shown] | None:
        """What was learned of all that is under a prefix, or what the view shows of it."""
        for known, listing in self._listings.items():
            if prefix.startswith(known):
                return {id_: one.shown for id_, one in listing.items() if id_.startswith(prefix)}
        return self._view.listing(prefix)

    def _learned(self, id_: EntityId, cached: CachedEntity) -> _Learned:
        basis: Version = self._view.to if cached.as_of is None else cached.as_of
        return _Learned(self._view.replayed(id_, cached.value)._replace(basis=basis), cached)

    def _learned_absent(self, id_: EntityId) -> _Learned:
        return _Learned(self._view.replayed(id_, ABSENT)._replace(basis=self._view.to), None)
