"""Seeded transactions: what a draft answers, and the content that it comes to (COMMIT-2..4, NURSERY-2, NURSERY-8)."""

from __future__ import annotations

from random import Random
from typing import Any, Final

from scripts.clientkit.recording import Event, name_of

from stemmadb.client.drafting import MISSING, TransactionDraft
from stemmadb.client.nursery.entities import ABSENT, Absent, CachedEntity, CommitName
from stemmadb.client.nursery.pending import named
from stemmadb.client.nursery.shown import Shown, ShownLayer, ShownLayers
from stemmadb.protocol.errors import StemmaError
from stemmadb.protocol.model import patch
from stemmadb.protocol.model.values.ids import BranchName, EntityId, Hash, Local, Version
from stemmadb.protocol.model.values.json_values import Value
from stemmadb.protocol.model.values.limits import DEFAULTS
from stemmadb.protocol.wire.codec.json_form import form_of
from stemmadb.protocol.wire.messages.commit import CommitMessage

SESSION: Final = bytes(range(16))
OTHER: Final = bytes(range(16, 32))
IDS: Final = tuple(EntityId(f"urn:{kind}:{number}") for kind in "ab" for number in range(4))
KEYS: Final = ("n", "done", "list", "a/b", "__proto__", "k7")


class PlainView:
    """A view of given values: what is not among them is not in view, or is absent where a prefix is covered."""

    def __init__(self, branch: str, to: int, shown: dict[EntityId, Shown], covered: list[str]) -> None:
        self.branch, self.to, self._shown, self._covered = BranchName(branch), Version(to), shown, tuple(covered)

    def shown(self, id_: EntityId) -> Shown | None:
        is_covered = id_.startswith(self._covered)
        return self._shown.get(id_) or (Shown(ABSENT, self.to) if is_covered else None)

    def listing(self, prefix: str) -> dict[EntityId, Shown] | None:
        if not prefix.startswith(self._covered):
            return None
        found = {id_: one for id_, one in sorted(self._shown.items()) if id_.startswith(prefix)}
        return {id_: one for id_, one in found.items() if one.value is not ABSENT}

    def layers_under(self, prefix: str) -> dict[EntityId, ShownLayers]:
        return {id_: one.layers for id_, one in sorted(self._shown.items()) if id_.startswith(prefix) and one.layers}

    def replayed(self, _id: EntityId, base: Any) -> Shown:
        return Shown(base, self.to)


def case(seed: int) -> Event:
    """A view, the steps of a transaction with what each gave, and the content in the end."""
    random = Random(seed)
    view, described = _view(random)
    draft = TransactionDraft(view, limits=DEFAULTS, note={"message": "m"} if random.random() < 0.2 else None)
    steps = [_step(random, draft) for _ in range(random.randint(1, 6))]
    return {
        "kind": "draft",
        "seed": seed,
        "view": described,
        "note": draft._note is not None,
        "steps": steps,
        **_end(draft),
    }


def _end(draft: TransactionDraft) -> Event:
    try:
        plan = draft.plan()
    except StemmaError as error:
        return {"error": error.code, "missing": sorted(draft.missing())}
    pending = named(plan, CommitName(SESSION, Local(9)), nonce=bytes(16))
    message = CommitMessage(local=Local(9), nonce=bytes(16), content=pending.content)
    return {"content": form_of(CommitMessage).write(message)["content"], "digest": pending.request.hex()}


# ---------------------------------------------------------------- what is in view


def _view(random: Random) -> tuple[PlainView, Event]:
    shown, told = dict[EntityId, Shown](), []
    for id_ in IDS:
        if random.random() < 0.6:
            one = _shown(random)
            shown[id_] = one
            layers = [
                {"name": name_of(layer.name), "paths": layer.paths, "value": layer.value} for layer in one.layers
            ]
            told.append({"id": id_, "value": one.value, "basis": one.basis, "layers": layers})
    covered = [prefix for prefix in ("urn:a:", "urn:b:") if random.random() < 0.4]
    branch = random.choice(("main", "main", "draft"))
    return PlainView(branch, 20, shown, covered), {"branch": branch, "to": 20, "shown": told, "covered": covered}


def _shown(random: Random) -> Shown:
    value, basis = _value(random), Version(random.choice((20, 20, 7)))
    names = [CommitName(SESSION, Local(3)), CommitName(OTHER, Local(5)), CommitName(SESSION, Local(6))]
    layers = []
    for name in names[: random.choice((0, 0, 1, 2, 3))]:
        paths = random.choice((None, ("/n",), ("/list", "/done"), ("",)))
        layers.append(ShownLayer(name, paths, value))
    return Shown(value, basis, ShownLayers.of(layers))


def _value(random: Random, depth: int = 0) -> Any:
    kind = random.random()
    if depth < 2 and (kind < 0.5 or not depth):
        return {key: _value(random, depth + 1) for key in random.sample(KEYS, random.randint(1, 4))}
    if depth < 3 and kind < 0.65:
        return [_value(random, depth + 1) for _ in range(random.randint(0, 4))]
    return random.choice((None, True, False, 0, 1, -5, 300, 2**40, 2**60, 0.5, "", "text", "é\u2028", "x" * 40))


# ---------------------------------------------------------------- what the app does


def _step(random: Random, draft: TransactionDraft) -> Event:
    id_ = random.choice(IDS)
    kind = random.choice(("get", "set", "create", "patch", "patch", "update", "increment", "delete", "list", "learn"))
    step = {"do": kind, "id": id_, **_arguments(random, kind)}
    try:
        result = _do(draft, step)
    except StemmaError as error:
        return {**step, "error": error.code}
    return {**step, "missing": True} if result is MISSING else {**step, "result": result}


def _arguments(random: Random, kind: str) -> Event:
    path = random.choice(("", "/n", "/list", "/list/0", "/done/n", "/a~1b", "/__proto__", "/7/x", "bad"))
    blind = random.random() < 0.25
    if kind in ("set", "create", "update"):
        return {"value": _value(random), "blind": blind and kind == "set"}
    if kind == "patch":
        return {"operations": _patch(random), "blind": blind}
    if kind == "increment":
        return {"path": path, "by": random.choice((1, -1, 2**62, 0.5)), "blind": blind}
    if kind == "list":
        return {"prefix": random.choice(("urn:a:", "urn:b:", "urn:a:1"))}
    if kind == "learn":
        return {"value": _value(random), "absent": random.random() < 0.3, "as_of": random.choice((20, 12))}
    return {"path": path} if kind == "get" else {"blind": blind}


def _patch(random: Random) -> list[Event]:
    return [_operation(random) for _ in range(random.randint(0, 3))]


def _operation(random: Random) -> Event:
    paths = ("", "/n", "/list", "/list/0", "/list/-", "/done", "/a~1b", "/__proto__", "/7", "/list/0/n")
    path, source = random.choice(paths), random.choice(paths)
    return random.choice(
        (
            {"op": "add", "path": path, "value": _value(random, 1)},
            {"op": "replace", "path": path, "value": _value(random, 1)},
            {"op": "remove", "path": path},
            {"op": "move", "from": source, "path": path},
            {"op": "copy", "from": source, "path": path},
            {"op": "test", "path": path, "value": _value(random, 1)},
            {"op": "splice", "path": path, "index": random.randint(0, 2), "remove": random.randint(0, 2), "add": [1]},
            {"op": "increment", "path": path, "by": random.choice((1, -3, 2**62))},
        )
    )


def _do(draft: TransactionDraft, step: Event) -> Any:
    id_, kind = step["id"], step["do"]
    if kind == "get":
        return draft.get(id_, step["path"])
    if kind == "list":
        return draft.listing(step["prefix"])
    if kind == "learn":
        value: Value | Absent = ABSENT if step["absent"] else step["value"]
        return draft.learn(id_, CachedEntity(value, Version(3), Hash(bytes(32)), Version(step["as_of"])))
    if kind in ("create", "update"):
        return getattr(draft, kind)(id_, step["value"])
    if kind == "set":
        return draft.set(id_, step["value"], blind=step["blind"])
    if kind == "patch":
        return draft.patch(id_, step["operations"], blind=step["blind"])
    if kind == "increment":
        return draft.increment(id_, step["path"], step["by"], blind=step["blind"])
    return draft.delete(id_, blind=step["blind"])


def patch_case(seed: int) -> Event:
    """A value, a patch on it with what it gives, and the difference to another value."""
    random = Random(-seed - 1)
    value, other, operations = _value(random), _value(random), _patch(random)
    found: Event = {"kind": "patch", "seed": seed, "value": value, "operations": operations, "other": other}
    try:
        found["expected"] = patch.apply(value, operations)
    except StemmaError as error:
        found["failed"] = error.facts["patch_index"]
    try:
        footprint = patch.footprint(operations)
        found["footprint"] = [list(footprint.writes), list(footprint.reads), list(footprint.increments)]
    except StemmaError as error:
        found["footprint"] = error.facts["patch_index"]
    return {**found, "difference": patch.diff(value, other)}
