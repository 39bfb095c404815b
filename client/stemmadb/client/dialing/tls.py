"""TLS as a client speaks it: the system's certificates, or what the app gives."""

from __future__ import annotations

import ssl

from stemmadb.client.dialing.urls import ServerUrl, is_secure
from stemmadb.protocol.errors import Malformed


def context_for(server: ServerUrl, given: ssl.SSLContext | None) -> ssl.SSLContext | None:
    """None for `ws://`; else the given context, or one that trusts what the system trusts and checks the host.

    Made once for a server: it reads all certificates of the system.
    """
    if not is_secure(server):
        if given is not None:
            raise Malformed(
                f"'ssl' was given for {server}, which is not encrypted. Write 'wss://', or leave 'ssl' out.",
                path="(ssl)",
                why="the address begins with ws://",
            )
        return None
    if given is not None:
        return given
    context = ssl.create_default_context()
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    return context
