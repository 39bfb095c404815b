"""Fuzz targets of what is kept and signed: delegation tokens, the import stream, the journal of a client."""

from __future__ import annotations

import io
import shutil
import sqlite3
import tempfile
from contextlib import closing
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Final

import msgspec
from blake3 import blake3

from delegations import DORA, EMIL, FINN, OLGA, ROLES, Key
from journals import PRINCIPAL, numbered
from journals import SPACE as JOURNAL_SPACE
from space import SPACE
from stemmadb.client.journal.contents import JournalContents
from stemmadb.client.journal.database import JournalDatabase
from stemmadb.client.journal.rows import SUM_BYTES
from stemmadb.protocol.errors import BadStream, InvalidDelegation, StemmaError
from stemmadb.protocol.model.access import access_roles, delegation
from stemmadb.protocol.model.access.delegation import Delegation
from stemmadb.protocol.model.values import reference
from stemmadb.protocol.model.values.body import encode
from stemmadb.protocol.model.values.ids import TimeMs
from stemmadb.server.maintenance.import_batches import import_spaces
from stemmadb.server.maintenance.import_space import receive, space_of
from stemmadb.server.maintenance.stream import LineReader
from stemmadb.server.maintenance.verify import verify
from stemmadb.server.storage.memory import MemoryStorage

LINE_BYTES_MAX: Final = 1 << 20
TABLES: Final = ("head", "pending", "confirmed", "rejected", "bases")
EDITS, RECORD, CUT, LOG = range(4)
"""What the first byte of an input does to a good journal."""
_SIGNERS: Final[dict[str, Key]] = {key.did: key for key in (OLGA, DORA, EMIL, FINN)}
_signed = msgspec.msgpack.Decoder(list[bytes])
_payload = msgspec.msgpack.Decoder(Delegation)


# ---------------------------------------------------------------- delegations


def delegations(data: bytes) -> None:
    """A msgpack list of payloads, each signed by its issuer if that is one of ours: no link widens (ACL-4)."""
    try:
        payloads = _signed.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError):
        payloads = [data]
    tokens = [_token(payload) for payload in payloads]
    for token in tokens:
        _check_token(token)
    try:
        delegated = delegation.verify(tokens, space=SPACE, audience=DORA.did)
    except InvalidDelegation as error:
        error.message.encode()
        return
    known = {delegation.name_of(token): _said(token) for token in tokens}
    for one in delegated:
        chain = [known[name] for name in one.names]
        assert chain[0].audience == DORA.did
        assert all(_is_within(link, above) for link, above in pairwise(chain))
    delegation.delegated_rights(delegated, roles=ROLES, is_revoked=lambda _: False, now=TimeMs(2_000))


def _token(payload: bytes) -> bytes:
    """As the issuer would make it; a payload that nobody of ours could sign stands as it is."""
    try:
        signer = _SIGNERS.get(_payload.decode(payload).issuer)
    except (msgspec.DecodeError, UnicodeDecodeError):
        signer = None
    return payload if signer is None else encode((payload, signer.sign(payload)))


def _said(token: bytes) -> Delegation:
    payload, _ = msgspec.msgpack.decode(token)
    return _payload.decode(payload)


def _check_token(token: bytes) -> None:
    try:
        delegation.check(token, space=SPACE)
    except InvalidDelegation as error:
        error.message.encode()


def _is_within(link: Delegation, above: Delegation) -> bool:
    ids = all(any(prefix.startswith(wide) for wide in above.prefixes) for prefix in link.prefixes)
    times = above.not_before <= link.not_before and link.expires <= above.expires
    return link.issuer == above.audience and access_roles.includes(above.role, link.role) and ids and times


# ---------------------------------------------------------------- the import stream


def imports(data: bytes) -> None:
    """A stream with the right sum at its end: whole, or refused by a typed error, with nothing left (KEEP-3)."""
    data = sealed(data)
    refusal = _received(data)
    if blake3(data).digest()[0] < 4 or refusal is None:  # the disk is slow, and says the same
        _check_directory(data, refusal)


def sealed(data: bytes) -> bytes:
    """The hash in the last line made right, as one would do who knows the format."""
    before, mark, end = data.rpartition(b'"stream":"')
    if not mark:
        return data
    at = before.rfind(b"\n") + 1
    made = reference.write(blake3(before[:at]).digest()).encode()
    return before + mark + made + end[len(made) :]


def _received(data: bytes) -> StemmaError | None:
    lines = LineReader(io.BytesIO(data), line_bytes_max=LINE_BYTES_MAX)
    try:
        while (header := lines.begin()) is not None:
            log = MemoryStorage().open(space_of(lines, header), create=True)
            receive(lines, header, log)
            verify(log)
    except StemmaError as error:
        error.message.encode()
        return error
    return None if lines.number else BadStream(line=1, why="it is empty")


def _check_directory(data: bytes, refusal: StemmaError | None) -> None:
    """The disk says the same as memory."""
    with tempfile.TemporaryDirectory(prefix="fuzz-") as name:
        found = _imported(data, Path(name))
        assert (found is None) is (refusal is None), f"memory says {refusal}, the disk says {found}"
        assert found is None or [path.name for path in Path(name).iterdir()] == ["lock"], "something is left behind"


def _imported(data: bytes, directory: Path) -> StemmaError | None:
    try:
        import_spaces(io.BytesIO(data), directory, line_bytes_max=LINE_BYTES_MAX)
    except StemmaError as error:
        return error
    return None


# ---------------------------------------------------------------- the journal


def journals(data: bytes) -> None:
    """A journal with bytes changed, cut off, or a log beside it: loaded, or refused with a reason (NURSERY-5)."""
    with tempfile.TemporaryDirectory(prefix="fuzz-") as name:
        file = Path(name) / "a.journal"
        _spoil(file, data)
        try:
            _load(file)
        except StemmaError as error:
            error.message.encode()


def _load(file: Path) -> None:
    database = JournalDatabase(file, space=JOURNAL_SPACE, principal=PRINCIPAL, factory=sqlite3.Connection)
    try:
        JournalContents(database.load())
    finally:
        database.close()


def _spoil(file: Path, data: bytes) -> None:
    kind, rest = (data[0] % 4, data[1:]) if data else (EDITS, b"")
    good = bytearray(_good_journal())
    if kind == EDITS:
        for at in range(0, len(rest) - 3, 4):
            good[int.from_bytes(rest[at : at + 3], "big") % len(good)] = rest[at + 3]
    elif kind == CUT:
        del good[int.from_bytes(rest[:3], "big") % len(good) :]
    file.write_bytes(good)
    if kind == LOG:
        file.with_name(f"{file.name}-wal").write_bytes(rest)
    elif kind == RECORD and rest:
        _replace_record(file, TABLES[rest[0] % len(TABLES)], rest[1:])


def _replace_record(file: Path, table: str, record: bytes) -> None:
    """What a newer or a wrong program could write: bytes whose sum is right."""
    with closing(sqlite3.connect(file)) as connection, connection:
        sum_ = blake3(record).digest(SUM_BYTES)
        connection.execute(f"UPDATE {table} SET record = ?, sum = ?", (record, sum_))  # noqa: S608


@cache
def _good_journal() -> bytes:
    """A journal of a few steps that was closed well."""
    directory = Path(tempfile.mkdtemp(prefix="fuzz-"))
    try:
        file = directory / "a.journal"
        database = JournalDatabase(file, space=JOURNAL_SPACE, principal=PRINCIPAL, factory=sqlite3.Connection)
        database.append([numbered(number) for number in range(1, 8)])
        database.close()
        return file.read_bytes()
    finally:
        shutil.rmtree(directory)
