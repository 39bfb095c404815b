"""The generated tests for as long as you like: `make soak MINUTES=30`.

Each kind of check runs with seed after seed, in turn. The next seeds are kept in .soak.json, so that counts add up
over runs; a seed that fails is printed and ends the run with exit code 1. `--kind NAME --seed N` repeats one.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from pathlib import Path

import msgspec

ROOT = Path(__file__).parents[1]
STATE = ROOT / ".soak.json"
sys.path[:0] = [
    str(ROOT / "tests" / part) for part in ("support", "protocol/model", "protocol/wire", "server/faults")
]

import test_ancestry  # noqa: E402
import test_fuzz  # noqa: E402
import test_merge_laws  # noqa: E402
import test_power_loss  # noqa: E402
import test_watching_schedules  # noqa: E402

import convergence_machine  # noqa: E402
import engine_machine  # noqa: E402
import killing  # noqa: E402
import nursery_machine  # noqa: E402
import schedules  # noqa: E402
from engines import Wandering  # noqa: E402
from service_machine import Machine  # noqa: E402
from service_peers import house  # noqa: E402
from stemmadb.protocol.errors import InvalidValue  # noqa: E402
from stemmadb.protocol.model import body, scan  # noqa: E402
from stemmadb.protocol.model.limits import DEFAULTS  # noqa: E402
from stemmadb.server.engine.lanes import Lanes  # noqa: E402
from stemmadb.server.service.settings import ServiceSettings  # noqa: E402


def admission(seed: int) -> int:
    """Random commits against the naive oracle."""
    schedule = schedules.Schedule(seed)
    schedule.run(steps=40)
    return len(schedule.sent)


def watches(seed: int) -> int:
    """Random graphs and commits: a watch step equals the query afresh."""
    return test_watching_schedules.runs_like_the_query_afresh(random.Random(seed))


def merges(seed: int) -> int:
    """Random histories with forks and merges: the merge by definition."""
    schedule = test_merge_laws.Schedule(seed)
    for _ in range(40):
        schedule.step()
    schedule.check()
    return 40


def ancestors(seed: int) -> int:
    """Random graphs of commits: the merge bases that brute force finds."""
    test_ancestry.compare_with_brute_force(seed)
    return 20


def bodies(seed: int) -> int:
    """Random bytes: the fast and the exact reader agree."""
    chance = random.Random(seed)
    for _ in range(100):
        data = chance.randbytes(chance.randrange(1, 24))
        assert _outcome(data, lambda raw: body.read(raw)[0]) == _outcome(data, scan.read), data.hex()
    return 100


def messages(seed: int) -> int:
    """Mutated messages on every decoder of both encodings: nothing but typed errors."""
    chance = random.Random(seed)
    return sum(test_fuzz.read_changed(case, chance, rounds=1) for case in test_fuzz.CASES)


def engine(seed: int) -> int:
    """The engine on SQLite, anything in any order: what the model holds."""
    engine_machine.Steps(engine_machine.SqliteMachine, seed).run(60)
    return 60


def kills(seed: int) -> int:
    """Kill -9 of a process that appends, three times: acknowledged is recovered."""
    acknowledged: killing.Acknowledged = {}
    with tempfile.TemporaryDirectory() as name:
        return sum(killing.cycle(Path(name), 3 * seed + number, acknowledged) for number in range(3))


def power(seed: int) -> int:
    """Power loss, 200 images of one life: acknowledged is recovered."""
    with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as other:
        return test_power_loss.lose_power(seed, Path(one), Path(other))


def service(seed: int) -> int:
    """Random lives of clients: what a watcher holds equals the query afresh, every commit is decided once."""

    async def run() -> int:
        workers = Lanes(Wandering(seed), Wandering(seed + 1, 12)) if seed % 2 else None
        limits = msgspec.structs.replace(DEFAULTS, part_bytes_max=600) if seed % 3 else DEFAULTS
        settings = ServiceSettings(feed_batches_max=3) if seed % 5 else ServiceSettings()
        async with house(limits=limits, settings=settings, workers=workers) as home:
            machine = Machine(home, seed)
            await machine.run(60)
            return machine.checked

    return asyncio.run(run())


def nursery(seed: int) -> int:
    """Random lives of nurseries on a real service: what is shown is what the naive nursery shows."""
    return nursery_machine.live(seed).checks


def client(seed: int) -> int:
    """Apps in chaos, killed and restarted: every commit is decided once, every view equals the server's."""
    return convergence_machine.run(seed, seconds=12.0).commits


def _outcome(data: bytes, read: Callable[[bytes], object]) -> str:
    try:
        return repr(read(data))
    except InvalidValue as refusal:
        return f"refused: {refusal.facts}"


KINDS: dict[str, Callable[[int], int]] = {
    check.__name__: check
    for check in (
        admission,
        watches,
        merges,
        ancestors,
        bodies,
        messages,
        engine,
        kills,
        power,
        service,
        nursery,
        client,
    )
}
FIRST_SEED = 1_000_000  # beyond what the tests on every change use


class Totals:
    """Seeds and steps of each kind, over all runs."""

    def __init__(self) -> None:
        stored = json.loads(STATE.read_text()) if STATE.exists() else {}
        self.seeds: dict[str, int] = {name: stored.get(name, {}).get("seeds", 0) for name in KINDS}
        self.steps: dict[str, int] = {name: stored.get(name, {}).get("steps", 0) for name in KINDS}

    def add(self, name: str, steps: int) -> None:
        self.seeds[name] += 1
        self.steps[name] += steps

    def keep(self) -> None:
        STATE.write_text(json.dumps({name: {"seeds": self.seeds[name], "steps": self.steps[name]} for name in KINDS}))

    def show(self, violations: int) -> None:
        print(f"{'kind':<12}{'seeds':>10}{'steps':>12}  what is checked")
        for name, check in KINDS.items():
            print(f"{name:<12}{self.seeds[name]:>10,}{self.steps[name]:>12,}  {check.__doc__}")
        print(f"violations: {violations}")


def run_seed(name: str, seed: int) -> int | None:
    try:
        return KINDS[name](seed)
    except Exception:  # the harness reports whatever the check raised, and stops
        traceback.print_exc()
        print(f"VIOLATION: repeat it with: .venv/bin/python scripts/soak.py --kind {name} --seed {seed}")
        return None


def soak(minutes: float) -> int:
    totals = Totals()
    ends, told = time.monotonic() + minutes * 60, time.monotonic()
    while time.monotonic() < ends:
        for name in KINDS:
            steps = run_seed(name, FIRST_SEED + totals.seeds[name])
            if steps is None:
                totals.show(violations=1)
                return 1
            totals.add(name, steps)
        if time.monotonic() - told > 15:
            told = time.monotonic()
            totals.keep()
            print(f"{(ends - told) / 60:5.1f} min left, {sum(totals.seeds.values()):,} seeds", flush=True)
    totals.keep()
    totals.show(violations=0)
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--kind", choices=sorted(KINDS), help="with --seed: repeat one seed of one kind")
    parser.add_argument("--seed", type=int)
    chosen = parser.parse_args()
    if chosen.kind is not None and chosen.seed is not None:
        return 1 if run_seed(chosen.kind, chosen.seed) is None else 0
    return soak(chosen.minutes)


if __name__ == "__main__":
    sys.exit(main())
