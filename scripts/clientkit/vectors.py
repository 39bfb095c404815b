"""Golden data of the client's rules: lives of nurseries, reports of watches, transactions, frames on a held state."""

from __future__ import annotations

from typing import Any, Final

from scripts.clientkit import drafts, recording
from scripts.clientkit.recording import Event

LIVES: Final = range(3)
WATCHED_LIVES: Final = range(40, 44)
DRAFTS: Final = 60
HELD: Final = 40


def nursery() -> Event:
    """`nursery.json`."""
    return _file(
        "Lives of nurseries (NURSERY-1..6). Each case is a life; its events happen to the `client` that they "
        "name, in their order. `add`: an own commit is applied, on `bases` that were read for it. `frame`: a "
        "whole frame comes, on a connection that opened `session`, in which locals up to `issued` were made. "
        "`answered`: a query that was asked for a wanted entity has its answer. `unfill`: a new connection is "
        "opened, and the watch was not filled. `result` is what became of commits and watches. `after`: what "
        "is shown of each entity, `value`, `absent` or `unknown`; the pending commits with whether each is "
        "shown and whether it is integrated; and the entities that must be asked for.",
        [_without(life, "look") for life in recording.lives(LIVES)],
    )


def watch_events() -> Event:
    """`watch_events.json`."""
    return _file(
        "What watches by id and prefix report (NURSERY-4): lives as in nursery.json, without `after`. At a "
        "`look` the app takes the next change of a watch: `result`, or null if nothing visible changed.",
        [
            [{k: v for k, v in event.items() if k != "after"} for event in life]
            for life in recording.lives(WATCHED_LIVES)
        ],
    )


def drafted() -> Event:
    """`drafts.json`."""
    return _file(
        "Transactions (COMMIT-2..4, NURSERY-8): a view with the pending layers of each entity, the steps of "
        "the app with `result`, `error` or `missing` (the server must be asked), then the content of the "
        "commit in JSON form and its request digest with a nonce of 16 zero bytes; or the error. Layers of "
        "unknown paths (null) write all of the entity. The commit is made in session "
        "AAECAwQFBgcICQoLDA0ODw==.",
        [drafts.case(seed) for seed in range(DRAFTS)],
    )


def held_frames() -> Event:
    """`held_frames.json`."""
    found: list[Event] = []
    for life in recording.lives(range(80, 200)):
        found.extend(event["held"] for event in life if "held" in event)
        if len(found) >= HELD:
            break
    return _file(
        "(held state, frame) -> held state, without own pending commits (04-protocol, Applying a frame): "
        "`before` and `after` name the entities with value and version, the watches with their members, and "
        "the entities that must be asked for (`wanted`). `hash` is what a msgpack client holds; a JSON client "
        "may not know it. An entity without `value` has none. `names` and `prefixes` are what the client can see by "
        "itself to be in a watch; both are empty if its query has a schema or a path. `as_of` is null for what is "
        "watched, which is true at `to`, else the version at which it was read.",
        found[:HELD],
    )


def _file(description: str, cases: list[Any]) -> Event:
    return {"description": description, "cases": cases}


def _without(life: list[Event], op: str) -> list[Event]:
    return [{k: v for k, v in event.items() if k != "held"} for event in life if event["op"] != op]
