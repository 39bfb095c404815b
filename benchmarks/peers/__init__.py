"""The systems that people would pick instead, each in one small module that satisfies `port.Kind`."""

from __future__ import annotations

from benchmarks.peers import etcd, nats, postgres, redis, sharedb
from benchmarks.peers.port import Kind

KINDS: dict[str, Kind] = {kind.NAME: kind for kind in (etcd, postgres, redis, nats, sharedb)}
"""By the name that rows have as `system`, in the order in which they take turns."""
