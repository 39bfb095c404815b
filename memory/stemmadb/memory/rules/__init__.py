"""The rules of agent memory, pure: no I/O, no clock, no randomness.

`ids` names entities, `namespaces` and `records` are the values they hold, `instants` reads and writes times, `links`
relates memories, `refusals` lists why an operation is refused. Imports only `protocol.errors` and libraries.
"""
