"""Storage: the port that every backend implements, and one package for each backend.

`port` says what a log and a reader promise, `sqlite` is the default, `memory` the reference implementation, and
`directory` makes sure that one process at a time writes to a data directory.

Imports only the protocol.
"""
