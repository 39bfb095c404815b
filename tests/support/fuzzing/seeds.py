"""Good inputs for each target, from the golden vectors and the builders of the tests: where fuzzing begins."""

from __future__ import annotations

import io
import json
from typing import Any

from appends import append_to
from delegations import DORA, EMIL, OLGA, delegate, saying
from fuzzing.vectors import TESTS, client_messages, server_messages, vector
from fuzzing.wire_targets import GREETED, HELD, MARK, TEXT
from kept_spaces import SMALL, blob_of, make
from space import SPACE, delete_, patch_, read_, set_
from stemmadb.protocol.model.commit.request import Content, Read
from stemmadb.protocol.model.values.body import encode
from stemmadb.protocol.model.values.ids import EMPTY_SPACE, Version
from stemmadb.protocol.wire.codec.msgpack_codec import MsgpackCodec, encode_content
from stemmadb.protocol.wire.messages.commit import CommitMessage
from stemmadb.server.maintenance.export import export
from stemmadb.server.storage.memory import MemoryStorage
from wire_peers import Peers

_DID = "did:key:z6MkhaXgBZDvotDkL5257faiztiGiC2QtKLGpbnnEGta2doK"


def server_side() -> list[bytes]:
    """Each message of a client in both encodings; an opening that is right; three requests together."""
    binary, text = _encodings(client_messages())
    openings = [bytes([GREETED]) + bytes(_opening()), bytes([GREETED]) + binary[0], bytes([GREETED | TEXT]) + text[0]]
    alone = [bytes([0]) + one for one in binary] + [bytes([TEXT]) + one for one in text]
    return [*openings, *alone, bytes([0]) + MARK.join(binary[4:8]), bytes([TEXT | HELD]) + MARK.join(text[4:8])]


def client_side() -> list[bytes]:
    """Each message of a server in both encodings; the frames of the vectors one after the other."""
    binary, text = _encodings(server_messages())
    frames, _ = _encodings([case for case in server_messages() if case["type"] == "sync"])
    greetings = [bytes([GREETED]) + binary[0], bytes([GREETED | TEXT]) + text[0]]
    alone = [bytes([HELD]) + one for one in binary] + [bytes([TEXT | HELD]) + one for one in text]
    return [*greetings, *alone, bytes([0]) + MARK.join(frames), bytes([HELD]) + MARK.join(frames)]


def contents() -> list[bytes]:
    """Those of the vectors, and one with every kind of operation and read."""
    read = [MsgpackCodec().read_client(bytes.fromhex(case["msgpack_hex"])) for case in client_messages()]
    kept = [message.content for message in read if isinstance(message, CommitMessage)]
    step = {"op": "increment", "path": "/n", "by": 1}
    every = (patch_("urn:a", step), set_("urn:b", {"n": [None]}), delete_("urn:c", blind=True))
    reads = (read_("urn:a", 1), Read(prefix="urn:b", version=Version(2)))
    return [*kept, encode_content(Content(operations=every, reads=reads))]


def handshakes() -> list[bytes]:
    plain = b"GET /health HTTP/1.1\r\nHost: a"
    upgrade = (
        f"GET /v1/spaces/{_DID} HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: keep-alive, Upgrade\r\n"
        "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n"
        "Sec-WebSocket-Protocol: stemma.v1.json, stemma.v1.msgpack\r\nOrigin: https://app.example"
    )
    return [plain, upgrade.encode()]


def bodies() -> list[bytes]:
    return [bytes.fromhex(case["body"]) for case in vector("bodies")["cases"] if len(case["body"]) < 2_000]


def patches() -> list[bytes]:
    ours = [(case["value"], case["operations"]) for case in vector("patches")["cases"]]
    public = json.loads(next((TESTS / "data" / "json-patch-tests").glob("tests.json")).read_text())
    return [_json(pair) for pair in ours] + [_json((c["doc"], c["patch"])) for c in public if "patch" in c]


def schemas() -> list[bytes]:
    cases = vector("schemas")["cases"]
    plain = [(case["schema"], case["value"]) for case in cases if "schema" in case and "value" in case]
    refused = [(case["schema"], 0) for case in cases if "refused" in case]
    reaching = [({"allOf": case["conjuncts"]}, case["value"]) for case in cases if "conjuncts" in case]
    return [_json(pair) for pair in (*plain, *refused, *reaching)]


def traversals() -> list[bytes]:
    return [_json((case["query"], case["entities"])) for case in vector("traversals")["cases"] if "query" in case]


def names() -> list[bytes]:
    texts = [
        "urn:todo:1", "https://example.org/x?y=1#z", "urn:ä:2", "main", "a/b.c_d-e", "/a~1b/m~0n/0", "wss://[::1]:8420/x",
        "ws://127.0.0.1:8420", "ws://bücher.example", "b3:bsbmitvpjq3dtx34hbid6yffwyewpho4jegcb2tuwtsrjjgclk7q",
        "my notes", _DID, f"/v1/spaces/{_DID}", f"/v1/spaces/{_DID.replace(':', '%3A')}",
    ]  # fmt: skip
    return [text.encode() for text in texts]


def delegations() -> list[bytes]:
    """A token alone, a chain of two, and one for somebody else."""
    first = delegate(OLGA, EMIL)
    second = saying(EMIL, DORA, parent=first, role="read")
    return [
        encode([encode(saying(OLGA, DORA))]),
        encode([encode(saying(OLGA, EMIL)), encode(second)]),
        encode([encode(saying(OLGA, EMIL))]),
        first,
    ]


def imports() -> list[bytes]:
    """A short stream, a longer one with one of everything but large blobs, and two streams in one file."""
    short, long = _stream(2), _stream(None)
    return [short, long, short + _stream(1)]


def journals() -> list[bytes]:
    record = encode([[b"s" * 16, 1], b"n" * 16, b"content", []])
    head = encode([_DID, _DID, None, 0, None])
    return [b"\0", b"\0\0\x10\x00\xff", b"\x02\0\x20\x00", b"\x03WAL", b"\x01\x01" + record, b"\x01\x00" + head]


def _encodings(cases: list[dict[str, Any]]) -> tuple[list[bytes], list[bytes]]:
    return [bytes.fromhex(case["msgpack_hex"]) for case in cases], [_json(case["json"]) for case in cases]


def _opening() -> bytes:
    opening = Peers().greeted().opening()
    assert isinstance(opening, bytes)
    return opening


def _stream(count: int | None) -> bytes:
    log = MemoryStorage().open(SPACE, create=True)
    _, entries, _ = make()
    append_to(log, EMPTY_SPACE, entries[:count], [])
    if count is None:
        log.put_blob(blob_of(SMALL), SMALL)
    into = io.BytesIO()
    export(log, into.write)
    return into.getvalue()


def _json(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode()
