"""Deciding: gathers what a batch needs, decides it, and goes on to the state after it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from stemmadb.protocol.model.commit import admission, fast_path
from stemmadb.protocol.model.commit.admission import Accepted, Outcome
from stemmadb.protocol.model.commit.proposal import Proposal
from stemmadb.protocol.model.commit.write import WrittenHeads
from stemmadb.protocol.model.log.state import NotGathered
from stemmadb.protocol.model.values.ids import Did, Version
from stemmadb.server.engine.base.executors import Workers
from stemmadb.server.engine.base.head_cache import Share
from stemmadb.server.engine.base.inputs import Inputs
from stemmadb.server.engine.base.open_log import OpenLog
from stemmadb.server.engine.write.batch_sizing import first_fitting
from stemmadb.server.engine.write.batch_view import BatchView
from stemmadb.server.engine.write.due_snapshots import Due
from stemmadb.server.engine.write.gather import gather
from stemmadb.server.engine.write.in_flight import InFlight
from stemmadb.server.engine.write.needs import Needs
from stemmadb.server.engine.write.writer_state import WriterState

_NO_HEADS: Final[WrittenHeads] = {}


class BatchDecision(NamedTuple):
    """Outcomes for the first of a batch, or for all; it has no effect before it is durable (COMMIT-10)."""

    outcomes: Sequence[Outcome]
    """Without the heads after them: a caller that retains a verdict must not retain a value of each commit in memory.
    """
    accepted: Sequence[Accepted]
    expected: Version
    """The version that what was accepted comes right after."""
    due: Sequence[Due]
    """Snapshots to be taken once it is durable."""


class Decider:
    """Decides on the state that includes what was decided before, durable or not."""

    def __init__(self, space: Did, log: OpenLog, workers: Workers, heads: Share, in_flight: InFlight, inputs: Inputs):
        self._space = space
        self._log = log
        self._workers = workers
        self._in_flight = in_flight
        self._inputs = inputs
        self._state = WriterState(
            space,
            heads,
            settings=inputs.settings,
            scan_facts_max=inputs.limits.scan_facts_max,
            is_unwritten=log.is_unwritten,
        )
        self._generation = log.generation
        self._counts = inputs.counts.space(space)

    def forget(self) -> None:
        """What was decided is void, or what it was decided on is no more: the next one begins with the log."""
        self._state.drop()

    async def decide(self, batch: Sequence[Proposal], moved: Callable[[Version], None]) -> BatchDecision:
        """Decides the first at least; `moved` is called with the version of a log that was read anew."""
        if self._log.is_ready and self._generation == self._log.generation:
            decision = self._decide_fast_path(batch)
            if decision is not None:
                return decision
        needs = Needs(batch, self._space)
        while True:
            view = await self._gather(needs, moved)
            try:
                return self._decided(batch, view)
            except NotGathered as lacking:
                needs.widen(lacking)

    def at_once(self, batch: Sequence[Proposal]) -> BatchDecision | None:
        """As `decide`, where memory has all that it takes; else None, and nothing has happened."""
        if not self._log.is_ready or self._generation != self._log.generation or self._in_flight.is_under_way:
            return None
        self._state.all_durable()
        quick = self._decide_fast_path(batch)
        if quick is not None:
            return quick
        needs = Needs(batch, self._space)
        view, wanted = self._state.view(needs)
        if wanted:
            return None
        try:
            decision = self._decided(batch, view)
        except NotGathered:
            return None
        self._counts.cache_hits += len(view.heads)
        return decision

    def _decide_fast_path(self, batch: Sequence[Proposal]) -> BatchDecision | None:
        """Decides the batch if all of it fits the fast path and memory has what it needs; else None."""
        inputs = self._inputs
        base = self._state.batch_base(batch) if fast_path.IS_THERE else None
        if base is None:
            return None
        if len(batch) > 1 and first_fitting(batch, base.heads, inputs.settings.batch_bytes_max) is not batch:
            return None
        count, expected = len(base.heads), base.version
        accepted = fast_path.decide(batch, base, inputs.now(), inputs.salts, inputs.limits)
        if accepted is None:
            return None
        self._counts.cache_hits += count
        due = self._state.take(accepted)
        return BatchDecision(_without_heads(accepted), accepted, expected, due)

    def _decided(self, batch: Sequence[Proposal], view: BatchView) -> BatchDecision:
        """`NotGathered` if the view lacks what not even the first can be decided without."""
        inputs = self._inputs
        fitting = first_fitting(batch, view.heads, inputs.settings.batch_bytes_max)
        outcomes = admission.decide(fitting, view, now=inputs.now(), salts=inputs.salts, limits=inputs.limits)
        assert outcomes, "a decision answers for one at least, or says what it lacks"
        accepted = [one for one in outcomes if isinstance(one, Accepted)]
        due = self._state.take(accepted)
        return BatchDecision(_without_heads(outcomes), accepted, view.version, due)

    async def _gather(self, needs: Needs, moved: Callable[[Version], None]) -> BatchView:
        """Reads what memory lacks, in one executor call; at most the batch decided last is not durable meanwhile."""
        await self._log.ready()
        if self._generation != self._log.generation:
            await self._in_flight.completed()
            self._state.drop()
            self._generation = self._log.generation
        if not self._in_flight.is_under_way:
            self._state.all_durable()
        view, wanted = self._state.view(needs)
        self._counts.cache_hits += len(view.heads)
        self._counts.cache_misses += len(needs.heads) - len(view.heads)
        if wanted and wanted.needs_durable:
            await self._in_flight.completed()
            self._state.all_durable()
            view, wanted = self._state.view(needs)
        if wanted:
            scan_facts_max = self._inputs.limits.scan_facts_max
            gathered = await self._log.run(self._workers, lambda log: gather(log, wanted, scan_facts_max))
            self._state.learn(view, wanted, gathered)
            if wanted.tip:
                moved(gathered.tip.version)
        return view


def _without_heads(outcomes: Sequence[Outcome]) -> Sequence[Outcome]:
    return [Accepted(one.commit, one.facts, _NO_HEADS) if isinstance(one, Accepted) else one for one in outcomes]
