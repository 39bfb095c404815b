"""What a watcher tells adds up to the query afresh over what is shown: random graphs, commits, pending work."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import graphs
from stemmadb.protocol.model.values.limits import DEFAULTS, Limits
from watch_overlays import App, random_commit, random_cupboard, random_edits, random_query

SCHEDULES = 600
ACTIONS_MAX = 40
WATCHES_MAX = 3


class Schedule:
    """One random run of a overlay and of the apps that watch it."""

    def __init__(self, random: Random, limits: Limits = DEFAULTS) -> None:
        self.random = random
        self.limits = limits
        self.count = random.choice((3, 6, 10, 14))
        self.cupboard = random_cupboard(random, self.count)
        self.apps: list[App] = []
        self.compared = 0
        self.watch()

    def act(self) -> None:
        random = self.random
        actions: list[Callable[[], None]] = [
            *(self.commit, self.commit, self.write, self.write, self.write, self.confirm, self.confirm, self.reject),
            *(self.take, self.take, self.take, self.take, self.page, self.page, self.watch, self.extra_marks),
        ]
        if random.random() < 0.1:
            actions = [self.reset, self.unwatch, self.lose]
        random.choice(actions)()

    def commit(self) -> None:
        confirms = self.some_pending() if self.random.random() < 0.2 else None
        self.cupboard.commit(random_commit(self.random, self.count, self.cupboard), confirms=confirms)

    def write(self) -> None:
        self.cupboard.write(random_edits(self.random, self.count))

    def confirm(self) -> None:
        if self.cupboard.pending:
            self.cupboard.confirm(next(iter(self.cupboard.pending)))

    def reject(self) -> None:
        if (name := self.some_pending()) is not None:
            self.cupboard.reject(name)

    def some_pending(self) -> int | None:
        return self.random.choice([*self.cupboard.pending]) if self.cupboard.pending else None

    def watch(self) -> None:
        if len(self.apps) < WATCHES_MAX:
            query = random_query(self.random, self.count)
            self.apps.append(App(self.cupboard, self.cupboard.watch(query, self.limits)))

    def page(self) -> None:
        for app in self.apps:
            number = app.watcher.number
            untold = sorted(self.cupboard.untold(number))
            if self.random.random() < 0.7:
                self.cupboard.page(number, self.random.choice((untold, untold, untold[:2])))

    def reset(self) -> None:
        self.cupboard.reset()

    def unwatch(self) -> None:
        if len(self.apps) > 1:
            app = self.apps.pop(self.random.randrange(len(self.apps)))
            self.cupboard.unwatch(app.watcher.number)

    def lose(self) -> None:
        held = sorted(id_ for app in self.apps for id_ in self.cupboard.members(app.watcher.number))
        self.cupboard.lose(*self.random.choices(held, k=self.random.randrange(2)) if held else ())

    def extra_marks(self) -> None:
        for app in self.apps:
            app.watcher.mark([graphs.random_id(self.random, self.count)])

    def take(self) -> None:
        self.tell(self.random.choice(self.apps))

    def tell(self, app: App) -> None:
        before = app.held
        change = app.take()
        if self.cupboard.awaits(app.watcher.number) and change is None:
            assert app.held == before  # it waits for what is not known
        elif app.watcher.is_filled:
            app.compare()
            self.compared += 1

    def finish(self) -> None:
        self.cupboard.lose()
        for app in self.apps:
            self.cupboard.page(app.watcher.number)
        for app in self.apps:
            self.tell(app)


def adds_up(random: Random) -> int:
    """One schedule; gives how often an app was compared."""
    schedule = Schedule(random)
    for _ in range(random.randrange(ACTIONS_MAX // 2, ACTIONS_MAX)):
        schedule.act()
    schedule.finish()
    return schedule.compared


@pytest.mark.rule("NURSERY-4", "WATCH-1", "SYNC-7")
def test_what_was_told_adds_up_to_the_query_afresh_over_what_is_shown() -> None:
    compared = sum(adds_up(Random(seed)) for seed in range(SCHEDULES))
    assert compared > 3 * SCHEDULES


@pytest.mark.rule("NURSERY-4", "WATCH-1", "SYNC-7")
@settings(derandomize=True, deadline=None, max_examples=50)
@given(st.randoms(use_true_random=False))
def test_what_was_told_adds_up_on_schedules_that_shrink(random: Random) -> None:
    adds_up(random)
