"""Runs a case of tests/vectors/cache.json: frames in; the cache, session.open and the view of a restart out."""

from __future__ import annotations

import json
from typing import Any

import msgspec

from stemmadb.client.cache.contents import CacheContents
from stemmadb.client.cache.equality import canonical, query_of
from stemmadb.client.cache.ledger import CacheLedger
from stemmadb.client.cache.records import CacheHead, CacheState
from stemmadb.client.nursery.confirmed import Membership
from stemmadb.client.nursery.entities import CachedEntity, Nothing
from stemmadb.client.nursery.nursery import Nursery
from stemmadb.client.watching import Watcher
from stemmadb.protocol.model.query.query import Query
from stemmadb.protocol.model.values.body import read_stored
from stemmadb.protocol.model.values.ids import BranchName, Did, EntityId, TimeMs
from stemmadb.protocol.model.values.limits import DEFAULTS
from stemmadb.protocol.wire.codec.json_codec import JsonCodec
from stemmadb.protocol.wire.messages.sync import Sync

SPACE = Did("did:key:z6MkhaXgBZDvotDkL5257faiztiGiC2QtKLGpbnnEGta2doK")
SESSION = bytes(16)


def run(case: dict[str, Any]) -> dict[str, Any]:
    """What the case must come to."""
    contents, nursery = CacheContents(), Nursery()
    nursery.record_changes()
    ledger = CacheLedger(bytes_max=case.get("cache_bytes_max", 64 * 1024 * 1024))
    for event in case["events"]:
        _take(event, nursery, ledger, contents)
    state = contents.state()
    return {"cache": _cache(state), **_restarted(state)}


def _take(event: dict[str, Any], nursery: Nursery, ledger: CacheLedger, contents: CacheContents) -> None:
    if "watch" in event:
        query = msgspec.convert(event["query"], Query)
        _watch(nursery, event["watch"], query)
        ledger.register(event["watch"], canonical(query), BranchName(query.branch), now=TimeMs(event["time"]))
    elif "unwatch" in event:
        nursery.unwatch(event["unwatch"])
        ledger.unregister(event["unwatch"])
    elif "frame" in event:
        frame = JsonCodec().read_server(json.dumps(event["frame"]))
        assert isinstance(frame, Sync)
        nursery.integrate(frame, session=SESSION, issued=0)
    else:
        assert nursery.hash is not None
        head = CacheHead(nursery.to, nursery.hash, TimeMs(event["write"]), None, b"")
        step = ledger.step(nursery.confirmed, nursery.take_changes(), head).step
        if step is not None:
            contents.take(step)


def _watch(nursery: Nursery, number: int, query: Query) -> None:
    watcher = Watcher(number, query, space=SPACE, limits=DEFAULTS)
    coverage = watcher.coverage
    nursery.watch(number, Membership(watcher.branch, names=coverage.ids, prefixes=coverage.prefixes), watcher)


def _cache(state: CacheState | None) -> dict[str, Any] | None:
    if state is None:
        return None
    return {
        "to": state.head.to,
        "time": state.head.time,
        "watches": [
            {
                "watch": one.number,
                "query": one.query,
                "whole": one.is_whole,
                "members": sorted(state.members[one.number]),
            }
            for one in state.watches
        ],
        "entities": [
            {"branch": one.branch, "id": one.id, "version": one.version, "value": read_stored(one.body)}
            for _, one in sorted(state.entities.items())
        ],
    }


def _restarted(state: CacheState | None) -> dict[str, Any]:
    nursery = Nursery()
    if state is not None:
        whole = [one for one in state.watches if one.is_whole]
        for one in whole:
            _watch(nursery, one.number, query_of(one.query))
        entities = {k: CachedEntity(read_stored(e.body), e.version, e.hash) for k, e in state.entities.items()}
        nursery.restore(
            state.head.to, state.head.hash, entities, {one.number: state.members[one.number] for one in whole}
        )
    watches = () if state is None else state.watches
    return {
        "open": {
            "to": nursery.to,
            "watches": [
                {"watch": one.number, "query": json.loads(one.query), "filled": True}
                for one in watches
                if one.is_whole
            ],
        },
        "view": _view(nursery),
    }


def _view(nursery: Nursery) -> dict[str, Any]:
    shown: dict[str, Any] = {}
    for branch in ("main",):
        for id_ in sorted(nursery.ids_under(BranchName(branch), "")):
            value = nursery.value(BranchName(branch), EntityId(id_))
            if not isinstance(value, Nothing):
                shown[id_] = value
    return shown
