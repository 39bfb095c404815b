"""The server: a durable log for each space, the sessions that follow it, and the process that serves them.

From the bottom: `storage` holds logs, `engine` decides and reads, `maintenance` verifies and backs up, `service` runs
sessions without a socket, `serving` is the process, and `commands` the command line.

Imports the protocol, never the client; `commands` adds to the client's command line by entry points.
"""
