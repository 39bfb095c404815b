"""`stemmadb memory ...`: each command asks the memory server of a data directory, which is started if none runs.

`memory` is the group, `serving` starts a memory server, `asking` has the options and the connection that commands
share. A command of another interface is added to the group in `memory`. Imports `process` and click.
"""
