"""Every bound on a message holds at its edge and names itself past it (WIRE-1)."""

from __future__ import annotations

from typing import Any

import pytest

from stemmadb.protocol.errors import LimitExceeded
from stemmadb.protocol.model.values.body import encode
from stemmadb.protocol.model.values.limits import Limits
from stemmadb.protocol.wire.codec.msgpack_codec import MsgpackCodec, read_content
from wire_raw import COMMIT, padded, pairs, query

CODEC = MsgpackCodec()
SMALL = Limits(
    message_bytes_max=2_000, schema_bytes_max=1_000, operations_max=2, reads_max=3, watches_max=1, roots_max=2,
    locals_max=2, page_max=5, blob_chunk_bytes_max=10, blob_bytes_max=100, bulk_operations_max=2, note_bytes_max=8,
)  # fmt: skip
ROOT = {"id": "urn:a:*"}
OPENING = {"type": "session.open", "principal": "did:x", "session": bytes(16), "signature": bytes(64)}
WRITE = {"id": 1, "operation": bytes(16), "nonce": bytes(16)}
AT_THE_EDGE: list[tuple[str, int, Any]] = [
    ("message_bytes_max", 2_000, lambda n: padded(n, lambda fill: pairs(*COMMIT[:3], ("content", bytes(fill))))),
    ("schema_bytes_max", 1_000, lambda n: padded(n, lambda fill: query({"const": "a" * fill}))),
    ("roots_max", 2, lambda n: encode({"type": "watch", "id": 1, "watch": 1, "query": {"roots": [ROOT] * n}})),
    ("watches_max", 1, lambda n: encode({**OPENING, "watches": [{"watch": 1, "query": {"roots": [ROOT]}}] * n})),
    ("roots_max", 2, lambda n: encode({**OPENING, "watches": [{"watch": 1, "query": {"roots": [ROOT] * n}}]})),
    ("locals_max", 2, lambda n: encode({**OPENING, "held": [1] * n})),
    ("page_max", 5, lambda n: encode({"type": "tag.list", "id": 1, "limit": n})),
    ("page_max", 5, lambda n: encode({"type": "query", "id": 1, "limit": n, "query": {"roots": []}})),
    ("blob_chunk_bytes_max", 10, lambda n: encode(
        {"type": "blob.chunk", "id": 1, "blob": bytes(32), "offset": 0, "data": bytes(n)}
    )),
    ("blob_bytes_max", 100, lambda n: encode({"type": "blob.begin", "id": 1, "blob": bytes(32), "size": n})),
    ("bulk_operations_max", 2, lambda n: encode(
        {"type": "merge", **WRITE, "source": "a", "resolutions": [{"id": "urn:a:1"}] * n}
    )),
    ("bulk_operations_max", 2, lambda n: encode({"type": "revert", **WRITE, "versions": [1] * n})),
    ("bulk_operations_max", 2, lambda n: encode({"type": "erase", **WRITE, "entity": "a", "versions": [1] * n})),
    ("bulk_operations_max", 2, lambda n: encode(
        {"type": "erase", **WRITE, "entity": "a", "versions": [], "entities": [{"id": "b", "versions": []}] * (n - 1)}
    )),
    ("bulk_operations_max", 2, lambda n: encode(
        {"type": "erase", **WRITE, "entity": "a", "versions": [], "entities": [{"id": "b", "versions": [1] * n}]}
    )),
    ("bulk_operations_max", 2, lambda n: encode(
        {"type": "erase", **WRITE, "entity": "a", "versions": [], "survivors": [{"branch": "b"}] * n}
    )),
    ("bulk_operations_max", 2, lambda n: encode(
        {"type": "erase", **WRITE, "entity": "a", "versions": [], "blobs": [bytes(32)] * n}
    )),
    ("note_bytes_max", 8, lambda n: encode({"type": "branch.delete", **WRITE, "name": "a", "note": bytes(n)})),
]  # fmt: skip


@pytest.mark.rule("WIRE-1")
@pytest.mark.parametrize(("bound", "maximum", "make"), AT_THE_EDGE, ids=[case[0] for case in AT_THE_EDGE])
def test_a_bound_holds_at_its_edge_and_names_itself_past_it(bound: str, maximum: int, make: Any) -> None:
    codec = MsgpackCodec(SMALL)
    codec.read_client(make(maximum))
    with pytest.raises(LimitExceeded) as caught:
        codec.read_client(make(maximum + 1))
    assert (caught.value.facts["bound"], caught.value.facts["maximum"]) == (bound, maximum)


@pytest.mark.rule("WIRE-1")
@pytest.mark.parametrize(
    ("bound", "maximum", "field", "item"),
    [
        ("operations_max", 2, "operations", {"op": "delete", "id": "urn:a:1"}),
        ("reads_max", 3, "reads", {"version": 1, "id": "urn:a:1"}),
    ],
)
def test_the_counts_of_a_commit_are_bounded(bound: str, maximum: int, field: str, item: Any) -> None:
    content = {"operations": [], field: [item] * maximum}
    assert len(getattr(read_content(encode(content), SMALL), field)) == maximum
    content[field].append(item)
    with pytest.raises(LimitExceeded) as caught:
        read_content(encode(content), SMALL)
    assert caught.value.facts["bound"] == bound


@pytest.mark.rule("WIRE-1")
def test_the_pending_commits_that_reads_name_are_bounded_together() -> None:
    content = {"operations": [], "reads": [{"version": 1, "id": "urn:a:1", "locals": [1]}] * 2}
    assert len(read_content(encode(content), SMALL).reads) == 2
    content["reads"].append({"version": 1, "id": "urn:a:2", "locals": [1]})
    with pytest.raises(LimitExceeded, match="bulk_operations_max"):
        read_content(encode(content), SMALL)


@pytest.mark.rule("WIRE-1")
def test_what_is_too_large_to_receive_is_not_sent() -> None:
    with pytest.raises(LimitExceeded):
        MsgpackCodec(Limits(message_bytes_max=10)).encode(CODEC.read_client(pairs(*COMMIT)))
