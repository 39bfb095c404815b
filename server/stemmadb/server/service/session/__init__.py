"""Sessions: from the first message on a socket to the last, and the hub of each open space.

`Session` serves one connection, `SpaceHub` holds an open space with its feed and its sessions, `resume` works out
what a reconnecting client missed, and `commits` and `deferred` bring its commits to the writer in order.

Imports `service.stream`, `service.requests`, `service.watch` and `service.base`.
"""
