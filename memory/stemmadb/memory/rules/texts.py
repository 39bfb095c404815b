"""Text that a memory may hold."""

from __future__ import annotations

from stemmadb.memory.rules.refusals import InvalidRequest


def checked(text: object, field: str) -> str:
    """Text with at least one character that is not space, and nothing that cannot be stored as UTF-8."""
    if not isinstance(text, str):
        raise InvalidRequest(f"{field} must be text.", field=field)
    if not text.strip():
        raise InvalidRequest(f"{field} is blank. Give it at least one visible character.", field=field)
    return encodable(text, field)


def encodable(text: str, field: str) -> str:
    """`InvalidRequest` for lone surrogates: JSON can escape them, UTF-8 cannot hold them."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise InvalidRequest(f"{field} has half of a surrogate pair, which is no character.", field=field) from None
    return text
