"""Deciding: gathers what a batch needs, decides it, and goes on to the state after it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from stemmadb.protocol.model import admission, lane
from stemmadb.protocol.model.admission import Accepted, Outcome
from stemmadb.protocol.model.ids import Did, Version
from stemmadb.protocol.model.proposal import Proposal
from stemmadb.protocol.model.state import NotGathered
from stemmadb.protocol.model.writing import Written
from stemmadb.server.engine.cache import Share
from stemmadb.server.engine.flights import Flights
from stemmadb.server.engine.fold import Fold
from stemmadb.server.engine.gathering import gather
from stemmadb.server.engine.inputs import Inputs
from stemmadb.server.engine.lanes import Workers
from stemmadb.server.engine.needs import Needs
from stemmadb.server.engine.opened import OpenLog
from stemmadb.server.engine.snapshots import Due
from stemmadb.server.engine.view import BatchView
from stemmadb.server.engine.weighing import first_fitting

_NO_HEADS: Final[Written] = {}


class Decision(NamedTuple):
    """Outcomes for the first of a batch, or for all; it has no effect before it is durable (COMMIT-10)."""

    outcomes: Sequence[Outcome]
    """Without the heads after them: whoever keeps a verdict must not keep a value of each commit in memory."""
    accepted: Sequence[Accepted]
    expected: Version
    """The version that what was accepted comes right after."""
    due: Sequence[Due]
    """Snapshots to be taken once it is durable."""


class Decider:
    """Decides on the state that includes what was decided before, durable or not."""

    def __init__(self, space: Did, log: OpenLog, workers: Workers, heads: Share, flights: Flights, inputs: Inputs):
        self._space = space
        self._log = log
        self._workers = workers
        self._flights = flights
        self._inputs = inputs
        self._fold = Fold(space, heads, settings=inputs.settings, scan_facts_max=inputs.limits.scan_facts_max)
        self._generation = log.generation
        self._counts = inputs.counts.space(space)

    def forget(self) -> None:
        """What was decided is void, or what it was decided on is no more: the next one begins with the log."""
        self._fold.drop()

    async def decide(self, batch: Sequence[Proposal], moved: Callable[[Version], None]) -> Decision:
        """Decides the first at least; `moved` is told the version of a log that was read anew."""
        if self._log.is_ready and self._generation == self._log.generation:
            decision = self._plainly(batch)
            if decision is not None:
                return decision
        needs = Needs(batch, self._space)
        while True:
            view = await self._gather(needs, moved)
            try:
                return self._decided(batch, view)
            except NotGathered as lacking:
                needs.widen(lacking)

    def at_once(self, batch: Sequence[Proposal]) -> Decision | None:
        """As `decide`, where memory has all that it takes; else None, and nothing has happened."""
        if not self._log.is_ready or self._generation != self._log.generation or self._flights.is_under_way:
            return None
        self._fold.all_durable()
        plainly = self._plainly(batch)
        if plainly is not None:
            return plainly
        needs = Needs(batch, self._space)
        view, wanted = self._fold.view(needs)
        if wanted:
            return None
        try:
            decision = self._decided(batch, view)
        except NotGathered:
            return None
        self._counts.cache_hits += len(view.heads)
        return decision

    def _plainly(self, batch: Sequence[Proposal]) -> Decision | None:
        """If all of them are plain and memory has all that it takes; else None, and nothing has happened."""
        inputs = self._inputs
        ground = self._fold.ground(batch)
        if ground is None or first_fitting(batch, ground.heads, inputs.settings.batch_bytes_max) is not batch:
            return None
        count, expected = len(ground.heads), ground.version
        accepted = lane.decide(batch, ground, now=inputs.now(), salts=inputs.salts, limits=inputs.limits)
        if accepted is None:
            return None
        self._counts.cache_hits += count
        due = self._fold.take(accepted)
        return Decision(_told(accepted), accepted, expected, due)

    def _decided(self, batch: Sequence[Proposal], view: BatchView) -> Decision:
        """`NotGathered` if the view lacks what not even the first can be decided without."""
        inputs = self._inputs
        fitting = first_fitting(batch, view.heads, inputs.settings.batch_bytes_max)
        outcomes = admission.decide(fitting, view, now=inputs.now(), salts=inputs.salts, limits=inputs.limits)
        assert outcomes, "a decision answers for one at least, or says what it lacks"
        accepted = [one for one in outcomes if isinstance(one, Accepted)]
        due = self._fold.take(accepted)
        return Decision(_told(outcomes), accepted, view.version, due)

    async def _gather(self, needs: Needs, moved: Callable[[Version], None]) -> BatchView:
        """Reads what memory lacks, in one hop; at most the batch decided last is not durable meanwhile."""
        await self._log.ready()
        if self._generation != self._log.generation:
            await self._flights.landed()
            self._fold.drop()
            self._generation = self._log.generation
        if not self._flights.is_under_way:
            self._fold.all_durable()
        view, wanted = self._fold.view(needs)
        self._counts.cache_hits += len(view.heads)
        self._counts.cache_misses += len(needs.heads) - len(view.heads)
        if wanted and wanted.needs_durable:
            await self._flights.landed()
            self._fold.all_durable()
            view, wanted = self._fold.view(needs)
        if wanted:
            scan_facts_max = self._inputs.limits.scan_facts_max
            gathered = await self._log.run(self._workers, lambda log: gather(log, wanted, scan_facts_max))
            self._fold.learn(view, wanted, gathered)
            if wanted.tip:
                moved(gathered.tip.version)
        return view


def _told(outcomes: Sequence[Outcome]) -> Sequence[Outcome]:
    return [Accepted(one.commit, one.facts, _NO_HEADS) if isinstance(one, Accepted) else one for one in outcomes]
