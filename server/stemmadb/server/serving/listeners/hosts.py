"""Which `Host` a request may name: a page whose name was bound to this address must not read what it finds here."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from typing import Final

LOCAL: Final = "localhost"


class AllowedHosts:
    """Names that the operator gave, `localhost`, and every IP address: DNS rebinding needs a name of its own."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names = frozenset(_plain(name) for name in (LOCAL, *names))

    def allow(self, hosts: Sequence[str]) -> bool:
        """Whether a request with these `Host` headers is answered; what sends none is not a browser."""
        if not hosts:
            return True
        if len(hosts) > 1:
            return False
        name = _plain(_without_port(hosts[0]))
        return name in self._names or _is_address(name)


def _without_port(host: str) -> str:
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0]


def _plain(name: str) -> str:
    return name.strip().rstrip(".").lower()


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
