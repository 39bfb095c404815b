"""Whether a principal may make a write: by its role, its prefixes and the rules of the access list (ACL-1, ACL-3)."""

from __future__ import annotations

from typing import Final, get_args

from stemmadb.protocol import identity
from stemmadb.protocol.errors import Forbidden, InvalidDid, InvalidValue, LimitExceeded, Malformed
from stemmadb.protocol.model.access.access_roles import EVERY_ID, FOUNDER, UNFOUNDED, Rights, Role
from stemmadb.protocol.model.commit.proposal import Proposal
from stemmadb.protocol.model.log.commit_record import Erase, Revert, Revoke, RevokeOwn, kind_of
from stemmadb.protocol.model.values import pointer
from stemmadb.protocol.model.values.ids import MAIN
from stemmadb.protocol.model.values.json_values import Value

_NEEDS: Final[dict[str, Role]] = {"erase": "own", "compact": "own", "revoke": "own"}
ACCESS_ENTRIES_MAX: Final = 4_096
"""Principals of an access list; each is checked when the list is written."""
_ROLES: Final = frozenset(get_args(Role)) - {"none"}


def check(proposal: Proposal, rights: Rights, space: str) -> None:
    """Raises `Forbidden`, or says what is wrong with a new access list; decided just before the write is."""
    details = proposal.details
    needs: Role = "write" if details is None else _NEEDS.get(kind_of(details), "write")
    if is_own := isinstance(details, RevokeOwn):
        needs = "read"
    if not rights.has(needs):
        raise unfounded() if rights == UNFOUNDED else Forbidden(action="write", needs=needs)
    if rights.prefixes != EVERY_ID and not is_own:
        if rights == FOUNDER:
            _check_founding(proposal, space)
        else:
            _check_prefixes(proposal, rights)
    if _writes_list(proposal, space):
        _check_access_list(proposal, rights)
    if isinstance(details, Erase) and any(entity.id == space for entity in details.every_entity()):
        raise Forbidden(action="erase the access list", needs="nobody")


def changes_rights(proposal: Proposal, space: str) -> bool:
    """Whether what follows it must be judged by other rights than what came before."""
    return isinstance(proposal.details, Revoke) or _writes_list(proposal, space)


def _writes_list(proposal: Proposal, space: str) -> bool:
    for step in proposal.steps:  # noqa: SIM110  # asked twice of every write, and `any` takes several times as long
        if step.id == space:
            return True
    return False


def _check_prefixes(proposal: Proposal, rights: Rights) -> None:
    """Rights for some ids are no rights for the structure, which concerns them all.

    A merge is of that kind, also where it writes little: what it leaves out is not merged by a later one.
    """
    if proposal.details is not None and not isinstance(proposal.details, Revert):
        raise Forbidden(action="change branches and tags, or merge", needs="write, for every id")
    for step in proposal.steps:
        if not rights.may_write(step.id):
            # What a merge or a revert would write was not named by the caller.
            what = repr(step.id) if proposal.details is None else "all that this would change"
            raise Forbidden(action=f"write {what}", needs="write")


def unfounded() -> Forbidden:
    """Nothing may be done in a space before it has its access list (ACL-3)."""
    return Forbidden(
        "This space has no access list yet, and nothing else can be written before it. Open a session as the space's "
        "own identity and set the entity named by the space's DID to the role of each principal.",
        action="write",
        needs="own",
    )


def _check_founding(proposal: Proposal, space: str) -> None:
    """While there is no access list, the one write that may be made is the list itself."""
    if not _writes_list(proposal, space):
        raise unfounded()


def _check_access_list(proposal: Proposal, rights: Rights) -> None:
    """Set whole, alone, on main, by an owner, and with an owner left in it."""
    if not rights.has("own"):
        raise Forbidden(action="change the access list", needs="own")
    (first, *others) = proposal.steps
    if others or proposal.details is not None or first.kind != "set" or first.branch != MAIN:
        raise Malformed(path="operations", why="the access list is set whole, alone in its commit, on main")
    _check_roles(first.payload)


def _check_roles(roles: Value) -> None:
    if not isinstance(roles, dict):
        raise InvalidValue(path="", why="the access list is an object: a role for each principal")
    if len(roles) > ACCESS_ENTRIES_MAX:
        raise LimitExceeded(bound="access_entries_max", maximum=ACCESS_ENTRIES_MAX, actual=len(roles))
    for principal, role in roles.items():
        if not isinstance(role, str) or role not in _ROLES:
            raise InvalidValue(path=pointer.shown(pointer.write((principal,))), why="a role is read, write or own")
        try:
            identity.public_key(principal)
        except InvalidDid as wrong:
            why = f"a principal is a DID, and {wrong.facts['why']}"
            raise InvalidValue(path=pointer.shown(pointer.write((principal,))), why=why) from None
    if "own" not in roles.values():
        raise InvalidValue(path="", why="the access list keeps at least one owner")
