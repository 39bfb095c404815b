"""The closed list of errors: one class for each wire code, the same class on server and client (WIRE-4).

A class owns its code, whether trying again can help, and the sentence that says what is wrong and what to do next. An
instance adds the facts. `wire.connection.problems` turns it into a message, and `restore` turns that back into an
instance of the same class.
"""

from __future__ import annotations

import string
from collections.abc import Mapping
from typing import Any, ClassVar, Self


class StemmaError(Exception):
    """The base of every error that StemmaDB raises on purpose."""

    code: ClassVar[str]
    retriable: ClassVar[bool] = False
    says: ClassVar[str]
    also: ClassVar[tuple[str, ...]] = ()
    """Keys of `details` that the sentence does not need. Any other fact stays on the side that raised the error."""

    @classmethod
    def detail_keys(cls) -> tuple[str, ...]:
        """The keys that `details` may have on the wire, as the table of docs/spec/04-protocol.md lists them."""
        named = dict.fromkeys(name for _, name, _, _ in string.Formatter().parse(cls.says) if name)
        return (*named, *cls.also)

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
        """The same error without its traceback, so that storing it does not keep stack frames alive.

        A traceback refers to the frame that stores the error. Where that cycle goes through a struct without `gc`,
        it could never be collected.
        """
        self.__traceback__ = self.__context__ = self.__cause__ = None
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return (restore, (self.code, self.message, self.facts))


class BadInput(StemmaError):
    """The request is not well formed; sending the same again gives the same answer."""


class Rejected(StemmaError):
    """The verdict on a commit that the server understood and did not accept."""


class Unready(StemmaError):
    """Nothing is wrong with the request; the server cannot take it now. Not a verdict (COMMIT-10)."""

    retriable = True


# ---------------------------------------------------------------- the request is not well formed


class Malformed(BadInput):
    code = "malformed"
    says = "The message cannot be read at {path}: {why}. Compare it with docs/spec/04-protocol.md."
    also = ("offset", "size")


class UnknownMessage(BadInput):
    code = "unknown_message"
    says = "There is no message of type {type!r} in this direction. Check the spelling and the protocol version."


class OutOfOrder(BadInput):
    code = "out_of_order"
    says = "{type!r} cannot be sent now: {why}. Connect again and follow the order in docs/spec/04-protocol.md."


class UnsupportedProtocol(BadInput):
    code = "unsupported_protocol"
    says = "This side does not speak protocol {wanted}; it speaks {spoken}. Upgrade the older side."


class InvalidValue(BadInput):
    code = "invalid_value"
    says = "The value cannot be stored, at {path!r}: {why}. Correct it there and write it again."


class InvalidId(BadInput):
    code = "invalid_id"
    says = "{id!r} is not an entity id: {why}. Use a URI such as 'urn:todo:1'."


class InvalidName(BadInput):
    code = "invalid_name"
    says = "{name!r} is not a name for a branch or a tag: use 1 to 128 of A-Z a-z 0-9 . _ / and -."


class InvalidDid(BadInput):
    code = "invalid_did"
    says = "{did!r} is not an Ed25519 did:key: {why}. Copy the whole DID, from 'did:key:z6Mk' on."


class InvalidReference(BadInput):
    code = "invalid_reference"
    says = "{reference!r} is not a reference: write 'b3:' and 52 lower-case base32 letters."


class InvalidPointer(BadInput):
    code = "invalid_pointer"
    says = "{pointer!r} is not a JSON Pointer: {why}. Write it like '/items/0', or '' for the whole value."


class InvalidSchema(BadInput):
    code = "invalid_schema"
    says = (
        "The schema cannot be used, at {path!r}: {why}. Correct it there; docs/spec/05-queries.md lists the keywords."
    )


class InvalidQuery(BadInput):
    code = "invalid_query"
    says = "The query cannot be run: {why}. Correct it and run it again."


class InvalidMerge(BadInput):
    code = "invalid_merge"
    says = "The merge cannot be done: {why}. Correct the request and merge again."


class LimitExceeded(BadInput):
    code = "limit_exceeded"
    says = (
        "{bound} allows at most {maximum}, and this has {actual}. Split it, or raise the bound if you run the server."
    )


# ---------------------------------------------------------------- the caller


class Unauthenticated(StemmaError):
    code = "unauthenticated"
    says = "The session was not opened: {why}. Connect again and sign the new challenge."


class Forbidden(StemmaError):
    code = "forbidden"
    says = "This identity may not {action} here. Ask an owner of the space for the role {needs!r}."


class InvalidDelegation(StemmaError):
    code = "invalid_delegation"
    says = "The delegation is not valid: {why}. Ask its issuer for a new one."


# ---------------------------------------------------------------- something is missing or exists already


class NotFound(StemmaError):
    code = "not_found"
    says = "{id!r} does not exist on branch {branch!r}. Write it with 'set' first."
    also = ("version",)


class UnknownSpace(StemmaError):
    code = "unknown_space"
    says = "There is no space {space!r} here. Check the server's address, or create the space first."


class UnknownBranch(StemmaError):
    code = "unknown_branch"
    says = "There is no branch {branch!r}. List the branches, or create it."


class BranchExists(StemmaError):
    code = "branch_exists"
    says = "Branch {branch!r} exists or has existed, and a name can be used only once. Choose another name."


class BranchDeleted(StemmaError):
    code = "branch_deleted"
    says = "Branch {branch!r} was deleted: it can be read and merged from, not written. Write to another."


class BranchProtected(StemmaError):
    code = "branch_protected"
    says = "Branch {branch!r} always exists and cannot be deleted. Choose another branch."


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
    says = "Version {version} does not exist yet: the space is at version {head}. Use that version or an older one."


class Compacted(StemmaError):
    code = "compacted"
    says = "Version {version} was compacted away. The oldest version that can be read is {oldest}."


class Erased(StemmaError):
    code = "erased"
    says = "{id!r} was erased on purpose at this version: only the hash of its value is left. Read another version."


# ---------------------------------------------------------------- verdicts on commits


class Conflict(Rejected):
    """Something this commit read has changed. `facts["stale"]` lists each `StaleRead` (SYNC-5)."""

    code = "conflict"
    says = "What this commit read has changed since ({count} stale). Read again and retry on the current values."
    also = ("stale",)


class Dependency(Rejected):
    code = "dependency"
    says = "This commit builds on commit {local}, which was not accepted. Rebuild it on the confirmed values."


class Overtaken(Rejected):
    code = "overtaken"
    says = (
        "Commit {local} arrived after a later commit of its session, {highest}, was accepted. "
        "Send it again in a new session."
    )


class IdentityClash(Rejected):
    code = "identity_clash"
    says = (
        "Another write was accepted before under this session and number, or operation id ({local}). "
        "Use a new one for new work."
    )
    also = ("version",)


class Undeclared(Rejected):
    code = "undeclared"
    says = (
        "Operation {index} writes {id!r} at {path!r} without a declared read that covers it. "
        "Declare the read, or mark the operation blind."
    )
    also = ("patch_index",)


class PatchFailed(Rejected):
    """A patch that cannot be applied; nothing of it was (PATCH-1).

    `patch_index` and `path` are the place inside the patch. A commit adds `index` and `id`, its own operation and the
    entity, as `Undeclared` has them.
    """

    code = "patch_failed"
    says = "Patch operation {patch_index} cannot be applied: {why}. Read the current value and correct the patch."
    also = ("index", "id", "path")

    def of_operation(self, index: int, id_: str) -> Self:
        """The same failure, with the commit's operation and its entity."""
        self.facts |= {"index": index, "id": id_}
        return self


class MergeConflict(Rejected):
    code = "merge_conflict"
    says = "Both branches changed the same (conflicts: {count}). Choose a strategy or give resolutions."
    also = ("conflicts",)


# ---------------------------------------------------------------- not now


class Unavailable(Unready):
    code = "unavailable"
    says = "The storage of this space had an error and nothing was written. Try again in a moment."


class StorageFull(Unready):
    code = "storage_full"
    says = "The server's disk is full: reads go on, writes wait. Free some disk space, and writes continue."


class RateLimited(Unready):
    code = "rate_limited"
    says = "Too many requests from this identity. Wait {retry_after_ms} ms, then try again."


class MergeBusy(Unready):
    code = "merge_busy"
    says = "The target branch changed in the same places {attempts} times during the merge. Try the merge again."


class GoingAway(Unready):
    code = "going_away"
    says = "The server is stopping. Connect again; pending commits are not lost."


class TakenOver(StemmaError):
    code = "taken_over"
    says = (
        "Another connection has taken over this session, and this one is closed. "
        "Use the other one, or open a new session."
    )


class TimedOut(Unready):
    code = "timed_out"
    says = "No answer within {timeout_ms} ms. Check the network and the server, then try again."


class Internal(StemmaError):
    code = "internal"
    says = "The server had an internal error (reference {reference}). Please report it with that reference."


# ---------------------------------------------------------------- history that does not verify


class BrokenChain(StemmaError):
    """History does not verify; `facts` name the first broken link (FACT-3)."""

    code = "broken_chain"
    says = "History does not verify at version {version}, {place}: {why}. Restore from a backup that verifies."


# ---------------------------------------------------------------- the data directory, raised by commands


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
    says = "The stream cannot be imported, at line {line}: {why}. Nothing was written. Export the space again."


# ---------------------------------------------------------------- the state of a client


class NotInView(StemmaError):
    code = "not_in_view"
    says = "{id!r} is not in the local view, and the server cannot be reached. Watch it first, or write it blind."


class AlreadyExists(StemmaError):
    code = "already_exists"
    says = "{id!r} already exists on branch {branch!r}, and nothing was written. Use 'set' to replace it."


class Unreachable(Unready):
    """No connection could be made; nothing was sent."""

    code = "unreachable"
    says = "{url} cannot be reached: {why}. Check the address, or start a server with 'stemmadb serve'."


class Unconfirmed(StemmaError):
    """The client was closed with undecided commits and without a journal."""

    code = "unconfirmed"
    says = (
        "{count} commits had no verdict when the client was closed, and there is no journal: they may or may not be "
        "on the server. Give 'connect' a journal, or wait for 'settled' before closing."
    )


class JournalFailed(StemmaError):
    """The disk refused the write; the commit was not sent and is not in the view."""

    code = "journal_failed"
    says = (
        "The journal {path!r} cannot be written: {why}. Free some disk space or check the disk, then connect again."
    )


def _leaves(root: type[StemmaError]) -> list[type[StemmaError]]:
    children = root.__subclasses__()
    return [root] if not children else [leaf for child in children for leaf in _leaves(child)]


BY_CODE: Mapping[str, type[StemmaError]] = {cls.code: cls for cls in _leaves(StemmaError)}


def restore(code: str, message: str, facts: Mapping[str, Any]) -> StemmaError:
    """The same class the other side raised; an unknown code comes from a newer peer and stays readable."""
    return BY_CODE.get(code, Internal)(message, **facts)
