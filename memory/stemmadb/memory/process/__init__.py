"""The memory server: one process for a data directory, found by `server.json` and reached over its socket.

`memory_server` runs inside `stemmadb serve` and opens everything; `opened_memory` is one space with its index and its
job; `control_server` is the socket, with one handler for each protocol that a client may name in its first line;
`finding` finds or starts a memory server; `places` says where things are; `secret_file` keeps secrets. The only
package of agent memory that may import the server.
"""
