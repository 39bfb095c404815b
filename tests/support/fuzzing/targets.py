"""The table of fuzz targets: each takes bytes and raises only if something is wrong with StemmaDB."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from fuzzing import kept_targets, seeds, value_targets, wire_targets


class Target(NamedTuple):
    """`run` allows a typed error and nothing else; `seeds` are good inputs to begin with."""

    run: Callable[[bytes], None]
    seeds: Callable[[], list[bytes]]
    quick_runs: int
    """Changed inputs on every change: counted, so that each run is the same; about two seconds."""


TARGETS: Final = {
    "server_side": Target(wire_targets.server_side, seeds.server_side, 2_000),
    "client_side": Target(wire_targets.client_side, seeds.client_side, 1_600),
    "contents": Target(wire_targets.contents, seeds.contents, 16_000),
    "handshakes": Target(wire_targets.handshakes, seeds.handshakes, 16_000),
    "bodies": Target(value_targets.bodies, seeds.bodies, 6_000),
    "patches": Target(value_targets.patches, seeds.patches, 8_000),
    "schemas": Target(value_targets.schemas, seeds.schemas, 6_000),
    "traversals": Target(value_targets.traversals, seeds.traversals, 6_000),
    "names": Target(value_targets.names, seeds.names, 8_000),
    "delegations": Target(kept_targets.delegations, seeds.delegations, 6_000),
    "imports": Target(kept_targets.imports, seeds.imports, 600),
    "journals": Target(kept_targets.journals, seeds.journals, 400),
}
