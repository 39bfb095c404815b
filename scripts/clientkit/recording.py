"""Random lives of nurseries against a real service, recorded: what happened to each, and what it showed after that.

The lives are those of tests/support/nursery_machine.py, where an oracle checks the Python nursery after each step. An
event is plain JSON in the words of the JSON subprotocol, so that a nursery in any language can live the same life.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Iterator
from functools import wraps
from typing import Any, Final

import nursery_machine
from nursery_client import Client
from stemmadb.client.nursery.entities import ABSENT, CachedEntity, CommitName, Nothing
from stemmadb.client.nursery.nursery import Nursery
from stemmadb.client.nursery.outcomes import Integrated
from stemmadb.client.nursery.pending import Pending
from stemmadb.client.watching import Change, Watcher
from stemmadb.protocol.model.query.query import Query
from stemmadb.protocol.model.values import reference
from stemmadb.protocol.model.values.ids import MAIN
from stemmadb.protocol.wire.codec.json_form import form_of
from stemmadb.protocol.wire.messages.commit import CommitMessage
from stemmadb.protocol.wire.messages.sync import Sync

Event = dict[str, Any]


def lives(seeds: range) -> Iterator[list[Event]]:
    """The events of each life, those of all its clients in their order."""
    for seed in seeds:
        recorder = Recorder()
        with recorder:
            nursery_machine.live(seed)
        yield recorder.events


class Recorder:
    """While it is open, every nursery that a client of the machine makes writes down what happens to it."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self._original = Client.__init__
        self._inside = 0

    def __enter__(self) -> None:
        recorder, original = self, self._original

        @wraps(original)
        def begin(client: Client, *given: Any, **named: Any) -> None:
            original(client, *given, **named)
            recorder._attach(client)

        setattr(Client, "__init__", begin)  # noqa: B010  # for as long as it is open

    def __exit__(self, *_: object) -> None:
        setattr(Client, "__init__", self._original)  # noqa: B010

    def _attach(self, client: Client) -> None:
        number, nursery = client.number, client.nursery
        self.events.append({"client": number, "op": "new"})
        for name, describe in DESCRIPTIONS.items():
            self._record(client, nursery, name, describe)

    def _record(self, client: Client, nursery: Nursery, name: str, describe: Callable[..., Event]) -> None:
        """Only what is called from outside: a call within a call is its own business."""
        original = getattr(nursery, name)

        @wraps(original)
        def recorded(*given: Any, **named: Any) -> Any:
            event = {"client": client.number, **describe(*given, **named)}
            is_plain = name == "integrate" and not len(nursery) and not given[0].verdicts
            before = held_of(nursery) if is_plain else None
            self._inside += 1
            try:
                result = original(*given, **named)
            finally:
                self._inside -= 1
            if not self._inside:
                if name == "watch":
                    self._record_looks(client, given[2])
                event["result"] = result_of(result)
                if before is not None:
                    event["held"] = {"before": before, "frame": event["frame"], "after": held_of(nursery)}
                self.events.append({**event, "after": state_of(nursery, client)})
            return result

        setattr(nursery, name, recorded)

    def _record_looks(self, client: Client, watcher: Watcher) -> None:
        """What a watch by id or prefix reports; one with a schema is evaluated by later stages only."""
        if any(root.schema is not None or root.path for root in watcher.query.roots):
            return
        original = watcher.take

        @wraps(original)
        def recorded(overlay: Nursery) -> Change | None:
            change = original(overlay)
            result = None if change is None else change_of(change)
            self.events.append({"client": client.number, "op": "look", "watch": watcher.number, "result": result})
            return change

        setattr(watcher, "take", recorded)  # noqa: B010


# ---------------------------------------------------------------- what happens


def _add(pending: Pending, bases: Any = ()) -> Event:
    message = CommitMessage(local=pending.name.local, nonce=pending.nonce, content=pending.content)
    written = form_of(CommitMessage).write(message)
    held = [[id_, cached_of(cached)] for id_, cached in bases]
    return {
        "op": "add",
        "name": name_of(pending.name),
        "nonce": written["nonce"],
        "content": written["content"],
        "bases": held,
    }


def _frame(frame: Sync, *, session: bytes, issued: int) -> Event:
    return {"op": "frame", "frame": form_of(Sync).write(frame), "session": _b64(session), "issued": issued}


def _watch(number: int, _membership: Any, watcher: Watcher) -> Event:
    return {"op": "watch", "watch": number, "query": form_of(Query).write(watcher.query)}


def _unwatch(number: int) -> Event:
    return {"op": "unwatch", "watch": number}


def _unfill(number: int) -> Event:
    return {"op": "unfill", "watch": number}


def _answered(key: tuple[str, str], cached: CachedEntity | None, version: int) -> Event:
    held = None if cached is None else cached_of(cached)
    return {"op": "answered", "branch": key[0], "id": key[1], "cached": held, "version": version}


DESCRIPTIONS: Final[dict[str, Callable[..., Event]]] = {
    "add": _add,
    "integrate": _frame,
    "watch": _watch,
    "unwatch": _unwatch,
    "unfill": _unfill,
    "answered": _answered,
}


# ---------------------------------------------------------------- what it came to


def result_of(result: Any) -> Any:
    """What a call gave, in JSON."""
    if isinstance(result, Integrated):
        return {
            "confirmed": [[name_of(one.pending.name), one.version] for one in result.confirmed],
            "refused": [
                [name_of(one.pending.name), one.code, None if one.because is None else name_of(one.because)]
                for one in result.refused
            ],
            "ended": [number for number, _ in result.ended],
            "strangers": result.strangers,
        }
    if isinstance(result, bool) or result is None:
        return result
    return {"code": result.code}


def state_of(nursery: Nursery, client: Client) -> Event:
    """What is shown of every entity on every branch that anything happened on, and the commits that wait."""
    branches = sorted(
        {one.branch for one in nursery.pending()} | {w.branch for w in client.watchers.values()} | {MAIN}
    )
    return {
        "to": nursery.to,
        "shown": {f"{branch} {id_}": seen(nursery.value(branch, id_)) for branch in branches for id_ in client.ids},
        "pending": [[name_of(one.name), one.is_shown, one.is_integrated] for one in nursery.pending()],
        "wanted": sorted(f"{branch} {id_}" for branch, id_ in nursery.wanted()),
    }


def held_of(nursery: Nursery) -> Event:
    """What is confirmed here, and which watches hold it."""
    confirmed = nursery._confirmed
    watches = [
        {
            "watch": number,
            "branch": one.branch,
            "names": sorted(one.names),
            "prefixes": list(one.prefixes),
            "filled": one.is_filled,
            "ids": sorted(one.ids),
        }
        for number, one in sorted(confirmed.watches.items())
    ]
    entities = [
        {"branch": branch, "id": id_, **cached_of(cached)}
        for (branch, id_), cached in sorted(confirmed._cached.items())
    ]
    hash_ = None if nursery.hash is None else reference.write(nursery.hash)
    wanted = sorted(f"{branch} {id_}" for branch, id_ in nursery.wanted())
    return {"to": nursery.to, "hash": hash_, "watches": watches, "entities": entities, "wanted": wanted}


def change_of(change: Change) -> Event:
    return {
        "version": change.version,
        "entered": change.entered,
        "updated": change.updated,
        "left": list(change.left),
    }


def seen(value: Any) -> list[Any]:
    if isinstance(value, Nothing):
        return ["absent" if value is ABSENT else "unknown"]
    return ["value", value]


def cached_of(cached: CachedEntity) -> Event:
    value = {} if cached.value is ABSENT else {"value": cached.value}
    return {**value, "version": cached.version, "hash": reference.write(cached.hash), "as_of": cached.as_of}


def name_of(name: CommitName) -> list[Any]:
    return [_b64(name.session), name.local]


def _b64(data: bytes) -> str:
    return b64encode(data).decode()
