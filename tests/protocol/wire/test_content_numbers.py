"""Numbers inside contents and queries are bounded where they are read: nothing later meets one it cannot hold."""

from __future__ import annotations

from typing import Any

import msgpack
import pytest

from stemmadb.protocol.errors import Malformed
from stemmadb.protocol.model.commit.request import Content, Operation, Read
from stemmadb.protocol.wire.codec.msgpack_codec import MsgpackCodec, read_content


def content(read: dict[str, Any]) -> bytes:
    operation = {"op": "set", "id": "urn:x", "body": b"\xc0", "blind": True}
    data: bytes = msgpack.packb({"operations": [operation], "reads": [{"id": "urn:x", "version": 1, **read}]})
    return data


@pytest.mark.rule("COMMIT-2", "COMMIT-4")
@pytest.mark.parametrize(
    "read",
    [
        {"version": 2**63},
        {"version": 2**64 - 1},
        {"version": -1},
        {"locals": [[b"short", 1]]},
        {"locals": [[b"s" * 16, 0]]},
    ],
)
def test_a_read_with_a_number_that_cannot_be_is_malformed(read: dict[str, Any]) -> None:
    with pytest.raises(Malformed) as caught:
        read_content(content(read))
    assert "reads" in caught.value.facts["path"]


@pytest.mark.rule("COMMIT-4")
def test_the_largest_and_the_smallest_numbers_are_read() -> None:
    read = {"version": 2**63 - 1, "locals": [1, 2**63 - 1, [b"s" * 16, 1]]}
    made = read_content(content(read))
    assert isinstance(made, Content)
    assert isinstance(made.reads[0], Read)
    assert isinstance(made.operations[0], Operation)
    assert made.reads[0].locals == (1, 2**63 - 1, (b"s" * 16, 1))


@pytest.mark.rule("QUERY-1")
@pytest.mark.parametrize("moment", [{"version": 2**63}, {"version": -1}, {"time": -3}, {"time": 2**64 - 1}])
def test_a_query_at_a_moment_that_cannot_be_is_malformed(moment: dict[str, int]) -> None:
    message = {"type": "query", "id": 1, "query": {"roots": [{"id": "urn:x"}], **moment}}
    with pytest.raises(Malformed):
        MsgpackCodec().read_client(msgpack.packb(message))
