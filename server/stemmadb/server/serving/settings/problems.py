"""What can be wrong with what an operator has set up; each error names the setting or the file."""

from __future__ import annotations

from stemmadb.protocol.errors import BadInput, StemmaError


class InvalidConfig(BadInput):
    """A setting that cannot be used; the sentence names it and where it came from."""

    code = "invalid_config"
    says = "{setting} cannot be used ({source}): {why}."


class UnusableKey(StemmaError):
    """The file with the server's key is not one that this server wrote, or others can read it."""

    code = "unusable_key"
    says = "The server's key {file!r} cannot be used: {why}."
