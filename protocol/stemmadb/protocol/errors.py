"""The closed list of errors: one class for each wire code, the same class on server and client (WIRE-4).

A class owns its code, whether trying again can help, and the sentence that tells a person what to do. An
instance adds the facts. `wire.problems` turns it into a message, and `restore` turns that back into the same class.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Self


class StemmaError(Exception):
    """The root of everything StemmaDB raises on purpose; catch it to catch them all."""

    code: ClassVar[str]
    retriable: ClassVar[bool] = False
    says: ClassVar[str]

    def __init__(self, message: str | None = None, /, **facts: Any) -> None:
        self.facts: dict[str, Any] = facts
        self.message: str = message if message is not None else self._compose(facts)
        super().__init__(self.message)

    @classmethod
    def _compose(cls, facts: Mapping[str, Any]) -> str:
        try:
            return cls.says.format_map(facts)
        except (KeyError, IndexError, AttributeError) as missing:
            raise AssertionError(f"{cls.__name__} was raised without the fact {missing}") from None

    def without_trace(self) -> Self:
        """The same error as data: whoever keeps it keeps no frames, and nothing of what was in them.

        A trace leads to the caller that keeps the error. Where that way goes through a struct without `gc`, nobody
        could ever collect it.
        """
        self.__traceback__ = self.__context__ = self.__cause__ = None
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return (restore, (self.code, self.message, self.facts))


class BadInput(StemmaError):
    """What was sent is not well formed; sending the same again gives the same answer."""


class Rejected(StemmaError):
    """The verdict on a commit that was understood and not accepted."""


class Unready(StemmaError):
    """Nothing is wrong with the request; the server cannot take it now. Not a verdict (COMMIT-10)."""

    retriable = True


# ---------------------------------------------------------------- what was sent is not well formed


class Malformed(BadInput):
    code = "malformed"
    says = "The message cannot be read at {path}: {why}. Compare it with docs/spec/04-protocol.md."


class UnknownMessage(BadInput):
    code = "unknown_message"
    says = "There is no message of type {type!r} in this direction. Check the spelling and the protocol version."


class OutOfOrder(BadInput):
    code = "out_of_order"
    says = "{type!r} cannot be sent now: {why}."


class UnsupportedProtocol(BadInput):
    code = "unsupported_protocol"
    says = "Protocol {wanted} is not spoken here; this side speaks {spoken}. Upgrade the older side."


class InvalidValue(BadInput):
    code = "invalid_value"
    says = "The value is not JSON that can be stored, at {path!r}: {why}."


class InvalidId(BadInput):
    code = "invalid_id"
    says = "{id!r} is not an entity id: {why}. Use a URI such as 'urn:todo:1'."


class InvalidName(BadInput):
    code = "invalid_name"
    says = "{name!r} is not a name for a branch or a tag: use 1 to 128 of A-Z a-z 0-9 . _ / and -."


class InvalidDid(BadInput):
    code = "invalid_did"
    says = "{did!r} is not an Ed25519 did:key: {why}."


class InvalidReference(BadInput):
    code = "invalid_reference"
    says = "{reference!r} is not a reference: write 'b3:' and 52 lower-case base32 letters."


class InvalidPointer(BadInput):
    code = "invalid_pointer"
    says = "{pointer!r} is not a JSON Pointer: {why}."


class InvalidSchema(BadInput):
    code = "invalid_schema"
    says = "The schema cannot be used, at {path!r}: {why}."


class InvalidQuery(BadInput):
    code = "invalid_query"
    says = "The query cannot be run: {why}."


class InvalidMerge(BadInput):
    code = "invalid_merge"
    says = "The merge cannot be done: {why}."


class LimitExceeded(BadInput):
    code = "limit_exceeded"
    says = (
        "{bound} is limited to {maximum}, and this has {actual}. Split it, or raise the bound if your server sets it."
    )


# ---------------------------------------------------------------- who is asking


class Unauthenticated(StemmaError):
    code = "unauthenticated"
    says = "The session was not opened: {why}. Connect again and sign the new challenge."


class Forbidden(StemmaError):
    code = "forbidden"
    says = "This identity may not {action} here. Ask an owner of the space for the role {needs!r}."


class InvalidDelegation(StemmaError):
    code = "invalid_delegation"
    says = "The delegation is not valid: {why}. Ask its issuer for a new one."


# ---------------------------------------------------------------- what is not there


class NotFound(StemmaError):
    code = "not_found"
    says = "{id!r} does not exist on branch {branch!r}. Write it with 'set' first."


class UnknownSpace(StemmaError):
    code = "unknown_space"
    says = "There is no space {space!r} here. Check the server's address, or make the space first."


class UnknownBranch(StemmaError):
    code = "unknown_branch"
    says = "There is no branch {branch!r}. List the branches, or create it."


class BranchExists(StemmaError):
    code = "branch_exists"
    says = "Branch {branch!r} exists or has existed; a name is used once. Choose another."


class BranchDeleted(StemmaError):
    code = "branch_deleted"
    says = "Branch {branch!r} was deleted: it can be read and merged from, not written. Write to another."


class BranchProtected(StemmaError):
    code = "branch_protected"
    says = "Branch {branch!r} always exists and cannot be deleted."


class UnknownTag(StemmaError):
    code = "unknown_tag"
    says = "There is no tag {tag!r}. List the tags, or create it."


class TagExists(StemmaError):
    code = "tag_exists"
    says = "Tag {tag!r} exists. Choose another name, or delete it first."


class UnknownBlob(StemmaError):
    code = "unknown_blob"
    says = "There is no blob {blob!r} in this space. Upload it first."


class BlobMismatch(StemmaError):
    code = "blob_mismatch"
    says = "The bytes do not hash to {blob!r}: {why}. Send the blob again from its first byte."


class FutureVersion(StemmaError):
    code = "future_version"
    says = "Version {version} is not written yet; the space is at {head}."


class Compacted(StemmaError):
    code = "compacted"
    says = "Version {version} was compacted away; the oldest that can be read is {oldest}."


class Erased(StemmaError):
    code = "erased"
    says = "{id!r} was erased on purpose at this version; its value is gone, its place in the history is kept."


# ---------------------------------------------------------------- verdicts on commits


class Conflict(Rejected):
    """Something this commit read has changed. `facts["stale"]` lists each `StaleRead` (SYNC-5)."""

    code = "conflict"
    says = "What this commit read has changed since ({count} stale). Read again and retry on the current values."


class Dependency(Rejected):
    code = "dependency"
    says = "This commit builds on commit {local}, which was not accepted. Rebuild it on the confirmed values."


class Overtaken(Rejected):
    code = "overtaken"
    says = "Commit {local} came after the later commit {highest} of its session. Send it again in a new session."


class IdentityClash(Rejected):
    code = "identity_clash"
    says = "Another write was accepted as {local} of this identity. Use a new session or operation id for new work."


class Undeclared(Rejected):
    code = "undeclared"
    says = (
        "Operation {index} writes {id!r} at {path!r} without a declared read that covers it. "
        "Declare the read, or mark the operation blind."
    )


class PatchFailed(Rejected):
    """A patch that cannot be applied; nothing of it was (PATCH-1)."""

    code = "patch_failed"
    says = "Patch operation {index} cannot be applied: {why}."


class MergeConflict(Rejected):
    code = "merge_conflict"
    says = "Both branches changed {count} of the same entities. Choose a strategy or give resolutions."


# ---------------------------------------------------------------- not now


class Unavailable(Unready):
    code = "unavailable"
    says = "The storage of this space had an error and nothing was written. Try again in a moment."


class StorageFull(Unready):
    code = "storage_full"
    says = "The server's disk is full; reads go on, writes wait. Make room and they work again."


class RateLimited(Unready):
    code = "rate_limited"
    says = "Too many requests from this identity. Wait {retry_after_ms} ms."


class MergeBusy(Unready):
    code = "merge_busy"
    says = "The target changed in the same places while merging, {attempts} times. Try the merge again."


class GoingAway(Unready):
    code = "going_away"
    says = "The server is stopping. Connect again; what is pending is kept."


class TakenOver(StemmaError):
    code = "taken_over"
    says = "Another connection has taken over this session. This one is closed."


class TimedOut(Unready):
    code = "timed_out"
    says = "No answer within {timeout_ms} ms. Check the network and the server, then try again."


class Internal(StemmaError):
    code = "internal"
    says = "The server made a mistake (reference {reference}). Please report it with that reference."


# ---------------------------------------------------------------- what does not verify


class BrokenChain(StemmaError):
    """History does not verify; `facts` name the first broken link (FACT-3)."""

    code = "broken_chain"
    says = "History does not verify at version {version}, {place}: {why}. Restore from a backup that verifies."


# ---------------------------------------------------------------- the data directory, told by commands


class DirectoryHeld(StemmaError):
    code = "directory_held"
    says = "{directory!r} is in use by another process ({holder}). Stop it, or choose another directory."


class NewerStorage(StemmaError):
    code = "newer_storage"
    says = "{file!r} was written by a newer StemmaDB (schema {found}, this one reads {known}). Upgrade StemmaDB."


class NotEmpty(StemmaError):
    code = "not_empty"
    says = "{directory!r} holds data already, and nothing was written. Choose an empty directory."


class BadStream(StemmaError):
    code = "bad_stream"
    says = "The stream cannot be imported, at line {line}: {why}. Nothing was written. Export it again."


# ---------------------------------------------------------------- what a client holds


class WrongParent(StemmaError):
    """A fact does not continue what the client holds; it asks for the entity again (SYNC-4)."""

    code = "wrong_parent"
    says = "The fact for {id!r} at version {version} does not continue what is held here. Ask for the entity again."


class NotInView(StemmaError):
    code = "not_in_view"
    says = "{id!r} is not held here and the server cannot be reached. Watch it first, or write it blind."


class AlreadyExists(StemmaError):
    code = "already_exists"
    says = "{id!r} is there already on branch {branch!r}, and nothing was written. Use 'set' to replace it."


class Unreachable(Unready):
    """No connection could be made; nothing was sent."""

    code = "unreachable"
    says = "{url} cannot be reached: {why}. Check the address, or start a server with 'stemmadb serve'."


class Unconfirmed(StemmaError):
    """The client was closed with work undecided and no journal to keep it."""

    code = "unconfirmed"
    says = (
        "{count} commits were not decided when the client was closed, and no journal keeps them: they may be on the "
        "server or not. Give 'connect' a journal, or wait with 'settled' before closing."
    )


class JournalFailed(StemmaError):
    """The disk refused; the commit was not sent and is out of the view."""

    code = "journal_failed"
    says = "The journal {path!r} cannot be written: {why}. Make room or check the disk, and connect again."


def _leaves(root: type[StemmaError]) -> list[type[StemmaError]]:
    children = root.__subclasses__()
    return [root] if not children else [leaf for child in children for leaf in _leaves(child)]


BY_CODE: Mapping[str, type[StemmaError]] = {cls.code: cls for cls in _leaves(StemmaError)}


def restore(code: str, message: str, facts: Mapping[str, Any]) -> StemmaError:
    """The same class the other side raised; an unknown code comes from a newer peer and stays readable."""
    return BY_CODE.get(code, Internal)(message, **facts)
