"""What chaos does to the server of a world and to its clock."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from stemmadb.client.testing import seeds
from stemmadb.client.testing.chaos import Fault

if TYPE_CHECKING:
    from stemmadb.client.testing.world import World

APPENDS_MAX: Final = 3
"""Appends until a crash point is reached, at most."""
CLOCK_JUMP_SECONDS: Final = 3600.0
"""How far the clock is set forward or back, at most."""


def of_server(world: World, longest: float) -> dict[str, Fault]:
    """Crashes at any moment and at crash points, each with a new start within `longest` seconds; failed appends."""
    random = seeds.stream(world.seed, "server faults", world.lives)

    def down() -> float:
        return random.uniform(0, longest)

    return {
        "crash": lambda: world.crash(down=down()),
        "crash_before_append": lambda: world.crash_before_append(random.randint(1, APPENDS_MAX), down=down()),
        "crash_after_append": lambda: world.crash_after_append(random.randint(1, APPENDS_MAX), down=down()),
        "fail_append": lambda: world.fail_append(written=random.random() < 0.5),
    }


def of_clock(world: World) -> dict[str, Fault]:
    """Somebody sets it, forward or back."""
    random = seeds.stream(world.seed, "clock faults", world.lives)
    return {"jump": lambda: world.clock.jump(random.uniform(-CLOCK_JUMP_SECONDS, CLOCK_JUMP_SECONDS))}
