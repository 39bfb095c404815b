"""Elle's method on histories of lists: what can be explained is accepted, each anomaly has its name."""

from __future__ import annotations

import random
import time
from dataclasses import replace
from itertools import permutations

import pytest

from list_cycles import anomalies
from list_history import Append, Outcome, Read, Step, Transaction


def a(key: str, element: int) -> Append:
    return Append(key, element)


def r(key: str, *elements: int) -> Read:
    return Read(key, elements)


def at(began: float, ended: float, *steps: Step, process: str | None = None, outcome: Outcome = "ok") -> Transaction:
    return Transaction(process or f"p{began}", began, ended, outcome, steps)


def together(*transactions: tuple[Step, ...]) -> list[Transaction]:
    """All of them at the same time."""
    return [Transaction(f"p{number}", 0, 100, "ok", steps) for number, steps in enumerate(transactions)]


def names(history: list[Transaction]) -> list[str]:
    return [one.kind for one in anomalies(history)]


# ---------------------------------------------------------------- each anomaly by its name


def test_writes_that_follow_each_other_in_a_ring_are_g0() -> None:
    last = (r("x", 1, 2), r("y", 2, 1))
    assert names(together((a("x", 1), a("y", 1)), (a("x", 2), a("y", 2)), last)) == ["G0"]


def test_a_read_of_what_was_refused_is_g1a() -> None:
    history = [at(0, 1, a("x", 1), outcome="failed"), at(2, 3, r("x", 1))]
    assert "G1a" in names(history)


def test_a_read_of_half_a_transaction_is_g1b() -> None:
    history = together((a("x", 1), a("x", 2)), (r("x", 1),), (r("x", 1, 2),))
    assert "G1b" in names(history)


def test_reads_that_see_each_others_writes_are_g1c() -> None:
    assert names(together((a("x", 1), r("y", 1)), (a("y", 1), r("x", 1)))) == ["G1c"]


def test_a_read_skew_is_g_single() -> None:
    history = together((a("x", 1), a("y", 1)), (r("x", 1), r("y")), (r("x", 1), r("y", 1)))
    assert names(history) == ["G-single"]


def test_a_lost_update_is_g_single() -> None:
    history = together((r("x"), a("x", 1)), (r("x"), a("x", 2)), (r("x", 1, 2),))
    assert names(history) == ["G-single"]


def test_a_write_skew_is_g2() -> None:
    history = together((r("x"), a("y", 1)), (r("y"), a("x", 1)), (r("x", 1), r("y", 1)))
    assert names(history) == ["G2"]


def test_a_fork_of_the_order_is_incompatible() -> None:
    history = together((a("x", 1),), (a("x", 2),), (r("x", 1),), (r("x", 2),))
    assert "incompatible order" in names(history)


def test_an_acknowledged_append_that_a_later_read_lacks_is_lost() -> None:
    assert names([at(0, 1, a("x", 1)), at(2, 3, r("x"))]) == ["lost append"]
    assert names([at(0, 1, a("x", 1), outcome="unknown"), at(2, 3, r("x"))]) == []
    assert names([at(0, 2, a("x", 1)), at(1, 3, r("x"))]) == []


def test_an_append_that_is_there_twice_and_one_that_nobody_made_are_named() -> None:
    assert "doubled append" in names(together((a("x", 1),), (r("x", 1, 1),)))
    assert "garbage read" in names(together((a("x", 1),), (r("x", 1, 7),)))


def test_a_transaction_sees_its_own_appends_and_no_change_meanwhile() -> None:
    assert names(together((r("x"), a("x", 1), r("x", 1), a("x", 2), r("x", 1, 2)))) == []
    assert "internal" in names(together((a("x", 1), r("x"))))
    assert "internal" in names(together((r("x"), r("x", 1)), (a("x", 1),)))
    assert "internal" in names(together((r("x", 1), a("x", 1))))


def test_appends_of_one_transaction_that_are_not_together_in_order_are_scattered() -> None:
    assert names(together((a("x", 1), a("x", 2)), (r("x", 2, 1),))) == ["G1b", "scattered"]
    assert "scattered" in names(together((a("x", 1), a("x", 3)), (a("x", 2),), (r("x", 1, 2, 3),)))


def test_a_process_that_goes_back_in_time_is_named_so() -> None:
    history = [
        Transaction("p", 0, 100, "ok", (r("x", 1),)),
        Transaction("p", 0, 100, "ok", (r("x"),)),
        Transaction("q", 0, 100, "ok", (a("x", 1),)),
    ]
    assert names(history) == ["G-single-process"]
    history[1] = Transaction("o", 0, 100, "ok", (r("x"),))
    assert names(history) == []


def test_a_stale_read_is_named_by_real_time() -> None:
    history = [at(0, 1, a("x", 1)), at(2, 3, r("x")), at(4, 5, r("x", 1))]
    assert names(history) == ["G-single-realtime"]
    assert names([at(0, 3, a("x", 1)), at(2, 4, r("x")), at(5, 6, r("x", 1))]) == []


def test_an_append_of_unknown_fate_may_appear_at_any_later_time() -> None:
    unknown = at(0, 1, a("x", 1), outcome="unknown")
    assert names([unknown, at(2, 3, r("x")), at(4, 5, r("x", 1))]) == []
    assert names([at(0, 1, r("x", 1)), at(2, 3, a("x", 1), outcome="unknown")]) == ["G1c-realtime"]


def test_writes_against_real_time_are_named_so() -> None:
    assert names([at(0, 1, a("x", 1)), at(2, 3, a("x", 2)), at(4, 5, r("x", 2, 1))]) == ["G0-realtime"]


def test_a_cycle_is_explained_with_its_transactions() -> None:
    [found] = anomalies(together((r("x"), a("y", 1)), (r("y"), a("x", 1)), (r("x", 1), r("y", 1))))
    assert "p0[read x [], append y 1] -RW-> p1[read y [], append x 1] -RW-> the first again" in found.what


# ---------------------------------------------------------------- against brute force


def explained(history: list[Transaction]) -> bool:
    """Whether any order of all transactions, true to real time, gives what was read."""
    return any(runs(order) for order in permutations(history))


def runs(order: tuple[Transaction, ...]) -> bool:
    lists: dict[str, tuple[int, ...]] = {}
    for place, transaction in enumerate(order):
        if any(after.ended < transaction.began for after in order[place + 1 :]):
            return False
        for step in transaction.steps:
            if isinstance(step, Append):
                lists[step.key] = (*lists.get(step.key, ()), step.element)
            elif lists.get(step.key, ()) != step.elements:
                return False
    return True


def a_small_history(chance: random.Random) -> list[Transaction]:
    """Four transactions one after the other, at about that time; one may be spoilt, and a fifth looks last."""
    lists: dict[str, list[int]] = {"x": [], "y": []}
    history = [a_small_transaction(chance, number, lists) for number in range(4)]
    if chance.random() < 0.5:
        place = chance.randrange(4)
        steps = list(history[place].steps)
        chance.shuffle(steps)
        if isinstance(steps[0], Read):
            steps[0] = r(steps[0].key, *lists[steps[0].key][: chance.randint(0, 4)])
        history[place] = replace(history[place], steps=tuple(steps))
    last = at(50, 51, *(r(key, *found) for key, found in lists.items()), process="last")
    return chance.sample([*history, last], 5)


def a_small_transaction(chance: random.Random, number: int, lists: dict[str, list[int]]) -> Transaction:
    steps: list[Step] = []
    for count in range(chance.randint(1, 3)):
        key, element = chance.choice("xy"), number * 10 + count
        if chance.random() < 0.5:
            lists[key].append(element)
            steps.append(a(key, element))
        else:
            steps.append(r(key, *lists[key]))
    began = number - chance.uniform(-0.5, 1.5)
    return at(began, began + chance.uniform(0.2, 1.5), *steps, process=f"p{number}")


@pytest.mark.parametrize("seed", range(4))
def test_small_histories_are_judged_as_by_trying_every_order(seed: int) -> None:
    chance = random.Random(seed)
    judged = {True: 0, False: 0}
    for _ in range(500):
        history = a_small_history(chance)
        right = explained(history)
        judged[right] += 1
        assert (anomalies(history) == []) is right, f"{anomalies(history)} in {history}"
    assert min(judged.values()) > 100, judged


# ---------------------------------------------------------------- large histories


def a_large_history(chance: random.Random, count: int, *, ahead: int = 64) -> list[Transaction]:
    """What a right store does: each transaction happens at one moment between its beginning and its end."""
    lists: dict[str, list[int]] = {}
    history: list[Transaction] = []
    for number in range(count):
        keys = [f"{number // 200}.{chance.randrange(8)}" for _ in range(2)]
        steps: list[Step] = [r(keys[0], *lists.get(keys[0], ()))]
        if chance.random() < 0.8:
            steps.append(a(keys[1], number))
            lists.setdefault(keys[1], []).append(number)
        began, ended = number - chance.uniform(0, ahead), number + chance.uniform(0, ahead)
        history.append(at(began, ended, *steps, process=f"p{number}"))
    history.extend(at(count * 2, count * 3, r(key, *found), process=key) for key, found in lists.items())
    chance.shuffle(history)
    return history


def test_a_right_history_of_twenty_thousand_is_accepted_in_seconds() -> None:
    history = a_large_history(random.Random(7), 20_000)
    began = time.process_time()
    assert anomalies(history) == []
    assert time.process_time() - began < 10.0


def test_one_stale_read_in_a_large_history_is_found() -> None:
    history = a_large_history(random.Random(8), 5_000)
    place = next(place for place, one in enumerate(history) if len(one.steps) == 1 and one.began < 4_000)
    late = replace(history[place], began=history[place].began + 500, ended=history[place].ended + 500)
    history[place] = late
    assert names(history) == ["G-single-realtime"]
